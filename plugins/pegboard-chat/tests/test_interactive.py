"""A conversation in a terminal, with scripted input."""

from __future__ import annotations

import asyncio
import json

import pytest

from pegboard import ModelError, ModelRequest, ReadonlyContext, Tool, ToolCall, ToolResult
from pegboard.cli import Options, Status, hide_status, open_session
from pegboard.events import CallCompleted
from pegboard.testing import ScriptedModel
from pegboard_chat.conversation import Conversation, read_conversation
from pegboard_chat.interactive import COMMANDS, InteractiveChat
from pegboard_chat.renderer import ChatRenderer

WIPE = ToolCall("wipe", {"path": "a"}, "c1")


class ScriptedPrompts:
    """Input of the user: each step is a line or an exception to raise, such as for Ctrl-C."""

    def __init__(self, *steps):
        self.steps = [*steps]

    async def read_line(self):
        step = self.steps.pop(0) if self.steps else EOFError()
        if isinstance(step, BaseException):
            raise step
        return step

    async def ask(self, question):
        return await self.read_line()


@pytest.fixture
def talk(registry, capsys):
    """Runs a chat with the model's and the user's steps; returns the conversation, standard output and error."""

    def talk(model, *steps, file=None, suspended=None):
        session = open_session(Options())
        model = ScriptedModel(model, name="small")
        renderer = ChatRenderer(Status())
        conversation = Conversation(model, registry, ModelRequest(), ReadonlyContext(), {}, renderer, file, suspended)
        prompts = ScriptedPrompts(*steps)
        asyncio.run(InteractiveChat(conversation, session, prompts).run())
        assert not prompts.steps
        model.close()
        printed = capsys.readouterr()
        return conversation, printed.out, printed.err

    return talk


def test_turns_continue_the_conversation(talk):
    conversation, out, _ = talk(["Hello.", "You said hi."], "hi", "", "What did I say?")
    assert out == "Hello.\nYou said hi.\n"
    assert [message.text for message in conversation.request.messages][-2:] == ["What did I say?", "You said hi."]


def test_a_call_is_approved_in_the_chat(talk):
    _, out, err = talk([WIPE, "Done."], "Tidy up", "what?", "y")
    assert out == "Done.\n"
    assert "marked destructive" in err
    assert "<- wipe: wiped a" in err


def test_results_are_held_back_while_a_question_is_open(capsys):
    renderer = ChatRenderer(Status())
    with hide_status():  # as around each question
        renderer.on_event(CallCompleted("c1", "weather", 0.0, result=ToolResult("rain")))
        assert capsys.readouterr().err == ""
    renderer.on_event(CallCompleted("c2", "wipe", 0.0, result=ToolResult("wiped a")))
    assert capsys.readouterr().err == "<- weather: rain\n<- wipe: wiped a\n"


@pytest.mark.parametrize("later", ["l", EOFError()])
def test_an_approval_can_be_postponed(talk, later):
    _, out, err = talk([WIPE, "Done."], "Tidy up", later, "/resume", "y")
    assert out == "Done.\n"
    assert err.index("waiting for your answer") < err.index("<- wipe: wiped a")


def test_ctrl_c_rejects_a_call_or_discards_the_line(talk):
    _, _, err = talk([WIPE, "Fine."], KeyboardInterrupt(), "Tidy up", KeyboardInterrupt(), "Leave it")
    assert "the turn ended: rejected" in err
    assert "wiped" not in err


def test_waiting_calls_of_a_saved_conversation_are_asked_about_first(talk, tmp_path):
    file = str(tmp_path / "talk.json")
    talk([WIPE], "Tidy up", "l", file=file)
    _, out, _ = talk(["Done."], "y", file=file, suspended=read_conversation(file).suspended)
    assert out == "Done.\n"
    assert read_conversation(file).suspended is None


def test_a_request_is_shown_in_full_when_asked_again(talk, registry):
    made = Tool.from_function(lambda: "ok", name="wipe_disk", title="Wipe all", destructive=True)
    registry.register(made.evolve(former_names=("wp",)))
    _, _, err = talk([ToolCall("wipe_disk", {}, "c1"), "Done."], "Tidy up", "l", "/resume", "y")
    assert err.count("Wipe all (wipe_disk)\nbrought by the host as wp\n") == 2


def test_the_user_enters_the_result_of_a_tool_without_a_handler(talk, registry):
    registry.register(Tool.from_schema("where_am_i", None, description="The user's city."))
    call = ToolCall("where_am_i", {}, "c1")
    conversation, out, _ = talk([call, "It rains in Oslo."], "Umbrella?", "Oslo")
    assert out == "It rains in Oslo.\n"
    assert conversation.request.messages[-2].results[0].result.text == "Oslo"


def test_entering_a_result_can_be_postponed(talk, registry):
    registry.register(Tool.from_schema("where_am_i", None, description="The user's city."))
    call = ToolCall("where_am_i", {}, "c1")
    _, out, _ = talk([call, "Yes."], "Umbrella?", "", "/resume", EOFError(), "/resume", "Oslo")
    assert out == "Yes.\n"


def test_tools_are_shown_and_filtered(talk):
    conversation, _, err = talk(["ok"], "/tools", "/where not destructive", "hi")
    before, _, after = err.partition("wipe")
    assert "weather" in before
    assert "weather" in after
    assert "wipe" not in after
    assert conversation.model.requests[0].tools.names == ("weather",)


def test_an_invalid_predicate_changes_nothing(talk):
    conversation, _, err = talk(["ok"], "/where read_only and", "hi")
    assert "error: " in err
    assert "wipe" in conversation.model.requests[0].tools.names


def test_save_updates_the_file_from_then_on(talk, tmp_path):
    file = tmp_path / "talk.json"
    talk(["Hello.", "Bye."], "hi", f"/save {file}", "bye")
    assert len(json.loads(file.read_text())["messages"]) == 4


def test_save_reports_missing_folders_and_overwrites_only_conversations(talk, tmp_path):
    (tmp_path / "notes.md").write_text("notes")
    _, _, err = talk(["Hello."], "/save", f"/save {tmp_path}/no/talk.json", f"/save {tmp_path}/notes.md", "hi")
    messages = ("no file is given", "can't be written", "notes.md isn't valid JSON")
    assert [message for message in messages if message not in err] == []
    assert (tmp_path / "notes.md").read_text() == "notes"


def test_an_error_of_the_model_ends_the_turn_only(talk):
    _, out, err = talk([ModelError("down"), "Hello."], "hi", "again")
    assert (out, "error: down" in err) == ("Hello.\n", True)


def test_help_lists_commands_and_a_misspelt_one_is_suggested(talk):
    _, _, err = talk([], "/help", "/tolls", "/exit")
    assert all(f"\n{name} " in err for name in [*COMMANDS][1:])
    assert "Did you mean '/tools'?" in err


def test_a_path_is_not_a_command(talk):
    assert talk(["A file."], "/etc/hosts is what?")[1] == "A file.\n"


def test_resume_without_waiting_calls(talk):
    assert "no call is waiting" in talk([], "/resume")[2]
