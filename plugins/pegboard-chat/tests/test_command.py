"""`registry chat`: one turn of a scripted model in this process."""

from __future__ import annotations

import json

import pytest
from attrs import frozen

from json_page import faults
from pegboard import Injected, Model, ModelError, ModelRequest, TextContent, ToolCall, ToolContext, tool
from pegboard.messages import Message, ModelResponse
from pegboard.schema.converter import JsonRecord


@pytest.fixture(autouse=True)
def a_board(registry):
    """Each command here is on the registry."""


@pytest.fixture
def chat(run, script, models):
    """Runs `registry chat` with a scripted model; returns the exit code, standard output and standard error."""

    def chat(steps, *argv):
        script[:] = steps
        code, out, err = run("chat", "-m", "scripted/small", *argv)
        if models:
            models[-1].close()
        return code, out, err

    return chat


CALL = ToolCall("weather", {"city": "Oslo"})


def test_the_answer_goes_to_standard_output_and_calls_to_standard_error(chat, models):
    code, out, err = chat([["Let me look.", CALL], "Take an umbrella."], "What", "is", "it", "like?")
    assert (code, out) == (0, "Let me look.\nTake an umbrella.\n")
    assert err.splitlines() == ['-> weather {"city":"Oslo"}', "<- weather: Oslo: rain"]
    assert models[0].requests[0].messages[0].text == "What is it like?"


@frozen
class Inner(JsonRecord):
    """As the `AgentEvent` of pegboard-agents."""

    agent: str
    event: object


def test_calls_of_agents_are_shown_with_their_names(chat, registry):
    @tool
    async def ask(context: ToolContext) -> str:
        """Runs an agent."""
        calls = [ToolCall("weather", {"city": "Oslo"})]
        await registry.dispatch(calls, listener=lambda event: context.emit(Inner("all", Inner("helper", event))))
        return "Rain."

    registry.register(ask)
    _, out, err = chat([ToolCall("ask", {}), "Take an umbrella."], "Well?")
    assert out == "Take an umbrella.\n"
    assert err.splitlines() == [
        "-> ask {}",
        'all helper -> weather {"city":"Oslo"}',
        "all helper <- weather: Oslo: rain",
        "<- ask: Rain.",
    ]


def test_the_model_gets_its_name_the_instructions_and_the_tools(chat, models):
    chat(["ok"], "Hi", "--system", "Be brief.", "--where", "not destructive")
    chat(["ok"], "Hi", "--where", "not destructive", "-T", "wipe")
    request, narrowed = (model.requests[0] for model in models)
    assert models[0].name == "small"
    assert (request.instructions, request.tools.names) == (("Be brief.",), ("weather",))
    assert narrowed.tools.names == ()


@pytest.mark.parametrize(("words", "prompt"), [((), "a whole page"), (("Sum up:", "-"), "Sum up:\n\na whole page")])
def test_standard_input_is_the_prompt_or_follows_the_words(chat, stdin, models, words, prompt):
    stdin(b"a whole page")
    chat(["ok"], *words)
    assert models[0].requests[0].messages[0].text == prompt


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b" \n", "the prompt is empty"),
        (b"x" * 11, "larger than 10 bytes"),
        (b"\xff", "isn't UTF-8"),
        (None, "standard input is closed"),
    ],
)
def test_invalid_standard_input_is_a_usage_error(chat, stdin, monkeypatch, data, message):
    monkeypatch.setattr("pegboard_chat.command.MOST_INPUT", 10)
    stdin(data)
    code, out, err = chat([])
    assert (code, out, message in err) == (2, "", True)


def test_a_call_that_needs_confirmation_is_not_run_without_a_terminal(chat):
    code, _, err = chat([ToolCall("wipe", {"path": "a"})], "Tidy up")
    assert code == 1
    assert err.splitlines()[-1] == "wipe needs confirmation and was not run. To run it, add --yes."


def test_yes_confirms(chat):
    code, out, err = chat([ToolCall("wipe", {"path": "a"}), "Done."], "Tidy up", "--yes")
    assert (code, out) == (0, "Done.\n")
    assert "<- wipe: wiped a" in err


def test_no_ends_the_turn(chat):
    code, _, err = chat([ToolCall("wipe", {"path": "a"})], "Tidy up", "--no")
    assert code == 1
    assert err.splitlines()[-1] == "the turn ended: rejected"


def test_json_prints_the_outcome(chat):
    code, out, _ = chat([CALL, "Rain."], "Hi", "--json")
    outcome = json.loads(out)
    assert (code, outcome["ended"], outcome["rounds"]) == (0, "answered", 2)
    assert faults("registry chat --json", outcome) == []
    assert [message["role"] for message in outcome["messages"]] == ["user", "assistant", "tool", "assistant"]


def test_events_are_lines_of_json(chat):
    code, out, _ = chat([CALL, "Rain."], "Hi", "--events")
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert (events[0]["type"], events[-1]["type"]) == ("round", "end")
    assert [faults("registry chat --events, a line", event) for event in events] == [[]] * len(events)
    assert "call_completed" in [event["type"] for event in events]
    assert "".join(event["delta"].get("text", "") for event in events if event.get("type") == "delta") == "Rain."


def test_events_and_json_contradict_each_other(chat):
    code, _, err = chat([], "Hi", "--events", "--json")
    assert code == 2
    assert "give one of them" in err


def test_a_conversation_is_saved_and_continued(chat, tmp_path, models):
    file = tmp_path / "talk.json"
    chat(["Hello."], "Hi", "--history", str(file))
    chat(["I said hello."], "What did you say?", "--history", str(file))
    assert [message.text for message in models[1].requests[0].messages] == ["Hi", "Hello.", "What did you say?"]
    assert len(json.loads(file.read_text())["messages"]) == 4
    assert [each.name for each in tmp_path.glob("*.json")] == ["talk.json"]


def test_the_conversation_is_saved_when_the_model_fails(chat, tmp_path):
    file = tmp_path / "talk.json"
    code, _, err = chat([CALL, ModelError("down")], "Hi", "--history", str(file))
    assert code == 1
    assert ": down\n" in err
    assert [message["role"] for message in json.loads(file.read_text())["messages"]] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "isn't valid JSON"),
        ("[]", "isn't a conversation saved by pegboard"),
        ('{"format": 2, "messages": []}', "has format 2; this pegboard knows format 1"),
        ('{"format": 1, "messages": [{"role": "cat"}]}', "isn't a valid conversation: role: must be one of"),
    ],
)
def test_a_file_that_is_not_a_conversation_is_not_overwritten(chat, tmp_path, text, fault):
    file = tmp_path / "talk.json"
    file.write_text(text)
    code, _, err = chat([], "Hi", "--history", str(file))
    assert code == 2
    assert fault in err
    assert file.read_text() == text


def test_a_history_in_a_missing_folder_is_a_usage_error(chat, tmp_path):
    code, out, err = chat([], "Hi", "--history", str(tmp_path / "no" / "talk.json"))
    assert (code, out) == (2, "")
    assert "can't be written" in err


def test_a_full_disk_is_reported_after_the_answer(chat, tmp_path, monkeypatch):
    def full(*_args, **_facts):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    code, out, err = chat(["Hello."], "Hi", "--history", str(tmp_path / "talk.json"))
    assert (code, out) == (2, "Hello.\n")
    assert "No space left" in err


def test_lone_surrogates_are_saved(chat, tmp_path):
    file = tmp_path / "talk.json"
    odd = ModelResponse(Message("assistant", ["Hello."], "id\ud800"))
    assert chat([odd], "Hi", "--history", str(file))[0] == 0
    assert chat(["Again."], "Hi", "--history", str(file))[0] == 0


def test_a_history_that_is_too_large_or_a_folder_is_not_read(chat, tmp_path, monkeypatch):
    monkeypatch.setattr("pegboard_chat.conversation.MOST_BYTES", 1)
    (tmp_path / "talk.json").write_text("{}")
    assert "can't be read: larger than 1 bytes" in chat([], "Hi", "--history", str(tmp_path / "talk.json"))[2]
    assert "can't be read: Is a directory" in chat([], "Hi", "--history", str(tmp_path))[2]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (CALL, "limit (1 rounds)"),
        (ModelResponse("It is", "length", complete=False), "cut_off (the answer ended by length)"),
        (ModelResponse("It is", "other", complete=False, interrupted=True), "cut_off (the answer was broken off)"),
    ],
)
def test_a_turn_without_an_answer_reports_why(chat, step, reason):
    code, out, err = chat([step], "Hi", "--rounds", "1")
    assert (code, out) == (1, "" if step is CALL else "It is\n")
    assert err.splitlines()[-1] == f"the turn ended: {reason}"


def test_retries_are_reported(chat):
    busy = ModelError("slow down", retryable=True, retry_after=0.01)
    code, _, err = chat([busy, "ok"], "Hi")
    assert code == 0
    assert ": slow down); retrying in" in err


def test_hidden_characters_of_an_answer_are_visible(chat):
    _, out, _ = chat(["safe\x1b[2J\u202etxt"], "Hi")
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_long_results_are_cut_images_named_and_progress_hidden_in_a_pipe(chat, registry):
    @tool
    async def long(context: ToolContext) -> str:
        """Say much."""
        context.report(1, 2, "half")
        return "x" * 500

    @tool
    async def picture() -> bytes:
        """Show a picture."""
        return b"\x89PNG"

    registry.register(long, picture)
    code, _, err = chat([[ToolCall("long"), ToolCall("picture")], "ok"], "Hi")
    assert (code, len(err.splitlines())) == (0, 4)
    assert f"<- long: {'x' * 200}..." in err
    assert "<- picture: [" in err


def test_an_unknown_provider_suggests_a_near_miss(run):
    code, _, err = run("chat", "-m", "scriptet/small", "Hi")
    assert code == 2
    assert "Did you mean 'scripted'?" in err


def test_a_model_has_to_be_named(run, monkeypatch):
    monkeypatch.delenv("PEGBOARD_MODEL", raising=False)
    code, _, err = run("chat", "Hi")
    assert code == 2
    assert "'-m' / '--model'" in err
    assert "PEGBOARD_MODEL" in err


def test_the_environment_overrides_the_configured_model(run, script, models, monkeypatch, home):
    script[:] = ["ok"]
    monkeypatch.delenv("PEGBOARD_MODEL", raising=False)
    (home / "here" / "own.toml").write_text('[plugins.chat]\nmodel = "scripted/set"\n')
    assert run("chat", "--config", "own.toml", "Hi")[0] == 0
    monkeypatch.setenv("PEGBOARD_MODEL", "scripted/other")
    assert run("chat", "--config", "own.toml", "Hi")[0] == 0
    assert [model.name for model in models] == ["set", "other"]


def test_the_answer_of_a_model_that_does_not_stream_is_printed(run, registry):
    closed = []

    class Plain:
        name = "plain"
        provider = "plain"

        async def respond(self, request):
            return ModelResponse(Message.assistant(TextContent("Hello.\n")))

        async def aclose(self):
            closed.append(1)

    registry.add("models", "plain", lambda model: Plain())
    assert run("chat", "-m", "plain/x", "Hi")[:2] == (0, "Hello.\n")
    assert closed == [1]


def test_tools_get_the_model_of_the_chat_injected(chat, registry):
    @tool
    async def rhyme(model: Injected[Model]) -> str:
        """Rhymes."""
        return (await model.respond(ModelRequest("a rhyme"))).text

    registry.register(rhyme)
    code, out, _ = chat([ToolCall("rhyme", {}, "c1"), "cat, hat", "There."], "Rhyme", "--json")
    assert (code, "cat, hat" in out) == (0, True)


def test_a_suspended_turn_is_resumed_with_yes(chat, tmp_path):
    file = str(tmp_path / "talk.json")
    assert chat([ToolCall("wipe", {"path": "a"}, "c1")], "Tidy up", "--history", file)[0] == 1
    assert faults("registry chat --history FILE", json.loads((tmp_path / "talk.json").read_text())) == []
    code, out, err = chat(["Done."], "--history", file, "--yes")
    assert (code, out) == (0, "Done.\n")
    assert "<- wipe: wiped a" in err
    assert "suspended" not in json.loads((tmp_path / "talk.json").read_text())


def test_a_suspended_turn_is_abandoned_by_another_prompt(chat, models, tmp_path):
    file = str(tmp_path / "talk.json")
    chat([ToolCall("wipe", {"path": "a"}, "c1")], "Tidy up", "--history", file)
    assert chat(["Good."], "Never mind", "--yes", "--history", file)[:2] == (0, "Good.\n")
    assert models[-1].requests[0].messages[-1].text == "Never mind"


def test_the_answer_matches_the_schema(chat, tmp_path):
    file = tmp_path / "city.json"
    schema = {"type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"]}
    file.write_text(json.dumps(schema))
    wrong, right = ToolCall("final_result", {"degrees": "4"}), ToolCall("final_result", {"degrees": 4})
    code, out, _ = chat([wrong, right], "How warm?", "--schema", str(file))
    assert (code, json.loads(out)) == (0, {"degrees": 4})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "can't be read as JSON"),
        pytest.param("[" * 99_999, "can't be read as JSON", id="deeply nested"),
        ("[]", "isn't a JSON Schema"),
        ('{"type": "integer"}', 'with "type": "object"'),
    ],
)
def test_an_invalid_schema_is_a_usage_error(chat, tmp_path, text, fault):
    file = tmp_path / "city.json"
    file.write_text(text)
    code, _, err = chat([], "Hi", "--schema", str(file))
    assert (code, fault in err) == (2, True)


def test_a_saved_conversation_keeps_its_session(chat, tmp_path, models, registry):
    seen = []
    registry.add_callback("after_turn", lambda context: seen.append(context.session))
    for _ in range(2):
        chat(["Hello."], "Hi", "--history", str(tmp_path / "talk.json"))
    assert seen[0] == seen[1] == json.loads((tmp_path / "talk.json").read_text())["session"]


@pytest.mark.parametrize("session", [5, "", "s" * 201])
def test_a_saved_session_that_is_no_short_text_is_a_usage_error(chat, tmp_path, session):
    file = tmp_path / "talk.json"
    file.write_text(json.dumps({"format": 1, "messages": [], "session": session}))
    assert "session must be a text of 1-200 characters" in chat([], "Hi", "--history", str(file))[2]


@pytest.mark.parametrize("process", ["one prompt", "a suspended turn"])
def test_a_saved_conversation_keeps_its_state(chat, tmp_path, registry, process):
    @tool
    def count(context: ToolContext) -> str:
        """Counts."""
        context.state["count"] = context.state.get("count", 0) + 1
        return f"{context.state['count']} {context.state.get('colour')}"

    registry.register(count)
    file, again = tmp_path / "talk.json", [ToolCall("count", {}), "Counted."]
    first = again if process == "one prompt" else [again[0], ToolCall("wipe", {"path": "a"}, "c1")]
    chat(first, "Count", "--history", str(file), "--state", "colour=red")
    saved = json.loads(file.read_text())
    assert (saved["state"], faults("registry chat --history FILE", saved)) == ({"colour": "red", "count": 1}, [])
    assert "<- count: 2 red" in chat(again, "Count", "--history", str(file))[2]
    assert "<- count: 3 blue" in chat(again, "Count", "--history", str(file), "--state", "colour=blue")[2]


def test_a_saved_state_that_is_no_object_is_a_usage_error(chat, tmp_path):
    file = tmp_path / "talk.json"
    file.write_text(json.dumps({"format": 1, "messages": [], "state": [1]}))
    assert "state must be an object" in chat([], "Hi", "--history", str(file))[2]
