"""`/diff` and `/undo`, with the file tools of pegboard-files."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

import pegboard_files
from pegboard import ModelRequest, Permissions, ReadonlyContext, Rule, Tool, ToolCall
from pegboard.cli import Options, Status, open_session
from pegboard.testing import ScriptedModel
from pegboard_chat import turns
from pegboard_chat.conversation import Conversation, read_conversation
from pegboard_chat.interactive import InteractiveChat
from pegboard_chat.renderer import ChatRenderer
from pegboard_files import turns as store
from pegboard_files.root import Deadline

WRITE = ToolCall("write_file", {"path": "a", "content": "A\n"}, "c1")


@pytest.fixture
def top(tmp_path, registry):
    """A folder that the registry's file tools work in."""
    folder = tmp_path / "top"
    folder.mkdir()
    (folder / "a").write_text("a\n")
    pegboard_files.pegboard_register_tools(registry.register, {"root": str(folder), "read_first": False})
    registry.permissions = Permissions([Rule("edit", "*", "allow")])
    return folder


@pytest.fixture
def talk(registry, capsys, tmp_path):
    """Runs a chat, saved in a file, with the model's answers and the user's lines; returns standard error.

    What the model was asked is added to `asked`: the messages of each request.
    """

    class Lines:
        def __init__(self, lines):
            self.lines = [*lines]

        async def read_line(self):
            if not self.lines:
                raise EOFError
            return self.lines.pop(0)

        async def ask(self, question):
            return await self.read_line()

    def talk(model, *lines, name="talk.json", asked=None):
        saved = read_conversation(file := str(tmp_path / name))
        model = ScriptedModel(model)
        context = ReadonlyContext(session=saved.session)
        request = ModelRequest(saved.messages)
        show = ChatRenderer(Status())
        conversation = Conversation(model, registry, request, context, {}, show, file, saved.suspended)
        asyncio.run(InteractiveChat(conversation, open_session(Options()), Lines(lines), asks=False).run())
        model.close()
        if asked is not None:
            asked += (each.messages for each in model.requests)
        return capsys.readouterr().err

    return talk


def test_the_last_turn_is_shown_and_undone(talk, top):
    err = talk([WRITE, "Done."], "Go", "/diff", "/undo", "/diff")
    assert "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\n1 file changed, +1 -1 lines. Only changes by the file tools" in err
    assert "restored a\n1 file restored, 0 left as they are" in err
    assert "no turn of this conversation has changed files" in err
    assert (top / "a").read_text() == "a\n"


def test_also_after_a_restart(talk, top):
    """In another conversation they aren't known."""
    talk([WRITE, "Done."], "Go")
    assert "no turn of this conversation" in talk([], "/diff", name="other.json")
    assert "+A\n" in talk([], "/diff")
    talk([], "/undo")
    assert (top / "a").read_text() == "a\n"


UNDONE = 'The user has undone your changes of "a": these files are as they were before.'


def test_the_model_is_told_what_was_undone_and_has_to_read_it_again(talk, top):
    edit, asked = ToolCall("edit_file", {"path": "a", "old_string": "a", "new_string": "b"}, "c2"), []
    talk([WRITE, "Done.", edit, "Oh."], "Go", "/undo", "Go on", asked=asked)
    told, said = asked[2][-2:]
    assert (told.role, told.text, said.role, said.text) == ("system", UNDONE, "user", "Go on")
    assert asked[3][-1].results[0].result.text.startswith("'a' was changed since it was read.")


def test_the_model_is_also_told_after_a_restart_but_only_what_was_undone(talk, top):
    asked = []
    talk([WRITE, "Done."], "Go")
    (top / "a").write_text("mine\n")
    talk([], "/undo")
    (top / "a").write_text("A\n")
    talk([], "/undo")
    talk(["Fine."], "Go on", asked=asked)
    assert [message.text for message in asked[0] if message.role == "system"] == [UNDONE]


def test_the_model_is_told_in_a_turn_that_waited_meanwhile(talk, top, registry):
    registry.register(Tool.from_schema("where_am_i", None, description="The user's city."))
    asked, call = [], ToolCall("where_am_i", {}, "c2")
    talk([[WRITE, call]], "Go", "")
    talk([], "", "/undo")
    talk(["Fine."], "Oslo", asked=asked)
    assert [(message.role, message.text) for message in asked[0][-1:]] == [("system", UNDONE)]
    assert asked[0][-2].results[-1].result.text == "Oslo"


def test_files_that_others_have_changed_are_named(talk, top):
    talk([WRITE, "Done."], "Go")
    (top / "a").write_text("mine\n")
    assert "a was left as it is: it was changed since the turn" in talk([], "/undo")
    assert (top / "a").read_text() == "mine\n"


def test_earlier_turns_have_numbers(talk, top):
    other = ToolCall("write_file", {"path": "b", "content": "b\n"}, "c2")
    err = talk([WRITE, "Done.", other, "Done."], "Go", "Go on", "/undo 2", "/diff 2", "/diff x", "/diff 0")
    assert (top / "a").read_text() == "a\n"
    assert (top / "b").exists()
    assert "only 1 turn of this conversation changed files" in err
    assert "'x' isn't the number of a turn" in err
    assert "'0' isn't the number of a turn" in err


def test_many_files_and_those_without_a_diff_are_listed_shortly(talk, top, monkeypatch):
    monkeypatch.setattr(turns, "MOST_NAMED", 1)
    patch = "*** Begin Patch\n*** Delete File: l1\n*** Delete File: l2\n*** End Patch"
    for name in ("l1", "l2"):
        (top / name).symlink_to("a")
    err = talk([ToolCall("apply_patch", {"input": patch}, "c1"), "Done."], "Go", "/diff", "/undo")
    assert "l1 (deleted): it was a link\nand 1 more\n" in err
    assert "restored l1\nand 1 more\n2 files restored" in err


def test_an_interrupt_stops_an_undo_and_the_conversation_goes_on(talk, top, monkeypatch):
    """The files of the folder at hand are restored whole; another undo continues."""
    commit, stop, stopped = store.commit_each, Deadline.stop, threading.Event()

    def interrupt(changes, deadline):
        if not stopped.is_set():
            os.kill(os.getpid(), signal.SIGINT)
        assert stopped.wait(60)
        return commit(changes, deadline)

    monkeypatch.setattr(store, "commit_each", interrupt)
    monkeypatch.setattr(Deadline, "stop", lambda deadline: (stop(deadline), stopped.set()))
    talk([WRITE, ToolCall("write_file", {"path": "sub/b", "content": "b\n"}, "c2"), "Done."], "Go")
    err = talk([], "/undo", "/undo")
    assert "a was left as it is: the undo was stopped before; it can be repeated.\n1 file restored, 1 left" in err
    assert err.endswith("restored a\n1 file restored, 0 left as they are\n")


def test_without_the_package_it_is_named(talk, monkeypatch):
    monkeypatch.setattr(turns, "find_spec", lambda name: None)
    assert "pip install pegboard-files" in talk([], "/diff")
