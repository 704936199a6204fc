"""`registry call`, run in this process on a board that the test makes."""

from __future__ import annotations

import io
import json
import sys

import pytest

from pegboard import (
    FatalToolError,
    FileContent,
    ImageContent,
    LinkContent,
    TextContent,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from pegboard.cli.session import load_registry
from pegboard.tools.content import AudioContent

RAN: list[str] = []
LOAD = load_registry


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello \x1b[31m{name}\u202e"


@tool
def facts() -> dict[str, object]:
    """Tell facts."""
    return {"n": 1, "list": ["a", "b"]}


@tool(destructive=True)
def wipe() -> str:
    """Remove everything."""
    RAN.append("wipe")
    return "wiped"


@tool(requires_confirmation=True)
def send() -> str:
    """Send it."""
    return "sent"


@tool
def fail() -> str:
    """Fail for a reason."""
    raise ToolError("out of paper", hint="Add some.")


@tool
def crash() -> str:
    """Fail for none."""
    raise ValueError("a secret")


@tool
def end() -> str:
    """End the turn."""
    raise FatalToolError("the disk is gone")


@tool
def who(context: ToolContext) -> str:
    """Tell who asks."""
    return f"{context.user} {context.state.get('tier')}"


@tool
def many() -> ToolResult:
    """Give all kinds of content."""
    parts = [
        TextContent("words\n"),
        ImageContent(b"x" * 12_345),
        AudioContent(b"x" * 7),
        FileContent("file:///a", b"x" * 2_000_000, "application/pdf"),
        FileContent("file:///b", "its text"),
        LinkContent("https://x", "a link"),
    ]
    return ToolResult(parts)


@tool
def quiet() -> ToolResult:
    """Say one thing to the model and another to people."""
    return ToolResult("for the model", display="for people")


@pytest.fixture(autouse=True)
def board(registry):
    RAN.clear()
    registry.register(add, greet, facts, wipe, send, fail, crash, end, who, many, quiet)
    registry.register(Tool.freeform("shout", lambda text: text.upper()))
    return registry


@pytest.fixture
def stdin(monkeypatch):
    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


@pytest.fixture
def little_input(monkeypatch):
    monkeypatch.setattr("pegboard.cli.commands.call.MOST_INPUT", 10)


@pytest.mark.parametrize(
    ("argv", "out"),
    [
        (["add", "a=1"], "3\n"),
        (["add", "a=1", "b:=4"], "5\n"),
        (["add", "--input-json", '{"a": 1}'], "3\n"),
        (["add", "--input-json", '{"a": 1, "b": 1}', "b=7"], "8\n"),
        (["greet", "name=5"], "Hello \x1b[31m5\u202e\n"),
        (["facts"], '{\n  "n": 1,\n  "list": [\n    "a",\n    "b"\n  ]\n}\n'),
        (["shout", "input=hey"], "HEY\n"),
        (["who", "--user", "ann", "--state", "tier=gold"], "ann gold\n"),
        (["quiet"], "for people\n"),
        (["wipe", "--yes"], "wiped\n"),
        (["send", "--yes"], "sent\n"),
    ],
)
def test_what_a_tool_answers(say, argv, out):
    assert say("call", *argv) == (0, out, "")


def test_content_that_is_no_text_is_named(say):
    assert say("call", "many")[1] == (
        "words\n[image image/png, 12.3 kB]\n[audio audio/wav, 7 B]\n[file file:///a application/pdf, 2 MB]\n"
        "[file file:///b]\nits text\n[link a link https://x]\n"
    )


def test_json(say):
    code, out, err = say("call", "add", "a=1", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "content": [{"type": "text", "text": '{"result": 3}'}],
        "structuredContent": {"result": 3},
        "isError": False,
    }
    assert say("call", "greet", "name=x", "--json")[1].count("\\u001b") == 1


def test_arguments_from_standard_input(say, stdin):
    stdin(b'{"a": 40}')
    assert say("call", "add", "--input-json", "-")[1] == "42\n"
    stdin("schön".encode())
    assert say("call", "shout")[1] == "SCHÖN\n"


@pytest.mark.parametrize(
    ("argv", "data", "told"),
    [
        (["shout"], b"\xff", "standard input isn't UTF-8"),
        (["shout"], b"x" * 11, "standard input has more than 10 bytes"),
        (["add", "b=1", "--input-json", "{"], b"", "--input-json: "),
        (["add", "b=1", "--input-json", "[]"], b"", "expected a JSON object"),
        (["add", "a"], b"", "'a' is no argument: write key=value"),
        (["add", "a=1", "a=2"], b"", "a is given 2 times"),
        (["ad"], b"", "no tool is called 'ad'. Did you mean 'add'?"),
        (["add", "-T", "ad"], b"", "-T: no tool is called 'ad'. Did you mean 'add'?\nerror: tool 'add' isn't offered"),
        (["add", "a=1", "-T", "w*"], b"", "tool 'add' isn't offered here: name:w* is not so (name: add)."),
    ],
)
@pytest.mark.usefixtures("little_input")
def test_wrong_use(say, stdin, argv, data, told):
    stdin(data)
    code, out, err = say("call", *argv)
    assert (code, out) == (2, "")
    assert told in err


@pytest.mark.parametrize("argv", [["add", "a=x", "c=1"], ["add", "--input-json", "{"], ["add"]])
def test_invalid_arguments_are_wrong_use_in_the_schemas_words(say, argv):
    code, out, err = say("call", *argv)
    assert (code, out) == (2, "")
    assert err.startswith("error (invalid_arguments): ")


def test_all_that_is_invalid_is_told(say):
    _, _, err = say("call", "add", "a=x", "c=1")
    assert "- a: " in err
    assert "- c: " in err


def test_a_tool_that_fails(say):
    code, out, err = say("call", "fail")
    assert (code, out) == (1, "")
    assert err.startswith("error (tool_failure): out of paper\nAdd some.\n")


def test_the_operator_reads_the_cause_and_with_debug_the_traceback(say):
    code, _, err = say("call", "crash")
    assert code == 1
    assert err == "error (tool_failure): crash failed: ValueError.\n  ValueError: a secret\n(--debug shows more)\n"
    _, _, err = say("call", "crash", "--debug")
    assert "Traceback" in err


def test_a_cause_of_several_lines_is_told_whole(say, board):
    @tool
    def odd() -> str:
        """Fail."""
        raise ValueError("one\ntwo")

    board.register(odd)
    assert "  ValueError: one\n  two\n" in say("call", "odd")[2]


def test_a_tools_own_text_is_for_people_and_json_only_for_json(say, board):
    @tool
    def found() -> ToolResult:
        """Find."""
        return ToolResult("a.py\n1:x", structured_content={"matches": [1]})

    board.register(found)
    assert say("call", "found") == (0, "a.py\n1:x\n", "")
    assert json.loads(say("call", "found", "--json")[1])["structuredContent"] == {"matches": [1]}


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_plugin_that_fails_to_load_is_told_to_who_can_mend_it(say, site, form, monkeypatch):
    file = site.root / "demo_tools" / "__init__.py"
    monkeypatch.setattr("pegboard.cli.session.load_registry", LOAD)
    file.write_text("raise ImportError('no module named x')")
    code, out, err = say("call", "count_words", "text=x", *form)
    assert code == 1
    assert "plugin 'demo' (from pegboard-demo): ImportError: no module named x" in err
    assert "registry doctor" in err
    assert "registry list --refresh" in err
    assert "no module" not in out


def test_a_tool_that_changed_is_told_with_what_to_do(say, site, monkeypatch):
    file = site.root / "demo_tools" / "__init__.py"
    monkeypatch.setattr("pegboard.cli.session.load_registry", LOAD)
    file.write_text(file.read_text().replace("Count the words", "Count words"))
    code, _, err = say("call", "count_words", "text=x")
    assert code == 1
    assert err.count("registry list --refresh") == 1


def test_an_error_as_json_is_on_standard_output(say):
    code, out, err = say("call", "fail", "--json")
    assert (code, json.loads(out)["isError"], err) == (1, True, "")


def test_a_tool_that_ends_everything(say):
    code, _, err = say("call", "end")
    assert (code, err) == (1, "error: the disk is gone\n")


@pytest.mark.parametrize("name", ["wipe", "send"])
def test_what_wants_a_yes_is_refused_without_it(say, name):
    code, out, err = say("call", name)
    assert (code, out) == (1, "")
    told = f"error (confirmation_required): {name} has to be confirmed and was not run. To run it, add --yes.\n"
    assert err == told
    assert RAN == []
    code, out, _ = say("call", name, "--json")
    assert (code, json.loads(out)["isError"]) == (1, True)


def test_what_the_configuration_leaves_out_does_not_run(say, home):
    (home / "here" / "pegboard.toml").write_text('where = "not destructive"')
    code, _, err = say("call", "wipe", "--yes")
    assert code == 2
    assert "isn't offered here" in err
    assert "registry explain wipe" in err
    assert RAN == []


def test_a_tool_of_a_toolset_is_resolved_and_called_in_one_loop(say, board):
    import asyncio

    loops = []

    class Toolset:
        name = "live"

        async def tools(self, context):
            loops.append(asyncio.get_running_loop())

            @tool
            async def live_tool() -> str:
                """Live."""
                loops.append(asyncio.get_running_loop())
                return f"for {context.user}"

            return [Tool.from_function(live_tool)]

        async def close(self):
            loops.append(asyncio.get_running_loop())

    board.register(Toolset())
    assert say("call", "live_tool", "--user", "ann") == (0, "for ann\n", "")
    assert len(loops) == 3
    assert len(set(map(id, loops))) == 1
