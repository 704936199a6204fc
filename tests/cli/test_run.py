"""The event loop of a command, and approval at the terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from pegboard import Always, ApprovalRequest, Once, Preview, Reject, ToolCall, ToolContext, ToolRegistry, tool
from pegboard.cli import run as cli_loop
from pegboard.cli.run import answer_of, has_left_threads, run_to_end, wrap_exactly
from pegboard.cli.table import cells
from terminal import Terminal


def test_an_exception_passes_through_and_the_loop_is_closed():
    loops = []

    async def work():
        loops.append(asyncio.get_running_loop())
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run_to_end(work())
    assert loops[0].is_closed()


def test_a_task_that_is_left_is_cancelled_and_the_loop_closed():
    left = []

    async def work():
        left.append(asyncio.create_task(asyncio.Event().wait()))
        await asyncio.to_thread(int)
        return asyncio.get_running_loop()

    assert run_to_end(work()).is_closed()
    assert left[0].cancelled()


def test_a_task_that_ignores_that_it_is_cancelled_is_left_behind(monkeypatch):
    monkeypatch.setattr(cli_loop, "GRACE_SECONDS", 0.01)
    may_end = []

    async def stays():
        while not may_end:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def work():
        task = asyncio.create_task(stays())
        await asyncio.sleep(0)
        return asyncio.get_running_loop(), task

    loop, task = run_to_end(work())
    assert not loop.is_closed()
    assert not task.done()
    may_end.append(True)
    task.cancel()
    loop.run_until_complete(task)
    loop.close()


def test_a_thread_that_is_busy_is_left_behind(monkeypatch):
    monkeypatch.setattr(cli_loop, "GRACE_SECONDS", 0.01)
    begun, go, others = threading.Event(), threading.Event(), threading.enumerate()
    monkeypatch.setattr(cli_loop.threading, "enumerate", lambda real=threading.enumerate: {*real()} - {*others})

    def busy():
        begun.set()
        go.wait()

    async def work():
        task = asyncio.create_task(asyncio.to_thread(busy))
        await asyncio.sleep(0)
        assert begun.wait(60)
        return asyncio.get_running_loop(), task

    loop, task = run_to_end(work())
    try:
        assert not loop.is_closed()
        assert task.cancelled()
        assert has_left_threads()
    finally:
        go.set()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    assert not has_left_threads()


# Approval at the terminal --------------------------------------------------------------------------------------------

FUNCTIONS = '''
from pegboard import Preview, ToolContext, tool


def shown(arguments):
    return Preview("removes " + arguments["path"], "- all of it\\x1b[2J")


@tool(destructive=True, preview=shown)
def wipe(path: str) -> str:
    """Remove a file."""
    return "wiped " + path


@tool
async def wait(context: ToolContext) -> str:
    """Wait forever."""
    import asyncio
    context.report(1, 4, "waiting")
    await asyncio.Event().wait()
    return "never"
'''


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", Once()),
        ("YES\n", Once()),
        ("a", Always()),
        ("n", Reject()),
        ("no, use b.txt instead", Reject("use b.txt instead")),
        ("n because", Reject("because")),
        *((each, None) for each in ("", "yes please", "perhaps")),
    ],
)
def test_answers_are_parsed(line, answer):
    assert answer_of(line, may_always=True) == answer


def test_always_and_wider_are_answers_only_if_offered():
    assert answer_of("a", may_always=False) is None
    assert [answer_of("w", may_always=True, wider=wider) for wider in ((), ("git *",))] == [None, Always(["git *"])]


@given(st.text("ab 漢\u0301", max_size=60), st.integers(20, 30) | st.none())
def test_wrapped_lines_keep_spaces_and_are_indented(line, width):
    first, *others = wrap_exactly(line, width)
    assert line == first + "".join(other.removeprefix(" " * 8) for other in others)
    assert all(other.startswith(" " * 8) for other in others)
    assert width is None or all(cells(part) <= width for part in (first, *others))


def test_a_request_that_is_too_long_is_rejected(monkeypatch, capsys):
    monkeypatch.setattr(cli_loop, "approval_questions", lambda _request: pytest.fail("asked"))
    registry = ToolRegistry(approver=cli_loop.TerminalPrompt())
    registry.register(tool(lambda path: path, name="wipe", description="Wipe it.", destructive=True))
    result = registry.call_sync("wipe", {"path": "a" * cli_loop.MOST_SHOWN})
    assert (result.kind, "too long to be approved" in result.text) == ("rejected", True)
    assert "wipe: too long to be approved" in capsys.readouterr().err


def test_a_request_has_a_coloured_diff_and_plain_options(monkeypatch, capsys):
    """Only the head is bold, and only lines of the diff have colours."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    diff = Preview("a.txt", "@@ -1 +1 @@\n-old\n+new\n  same")
    request = ApprovalRequest(ToolCall("edit", '{"n": -1}', "1"), "", "edit", always=("a",), wider=("*",), preview=diff)
    assert cli_loop.show_request(request) is None
    lines = [line for line in capsys.readouterr().err.splitlines() if "\x1b" in line]
    assert lines == [
        "\x1b[1medit\x1b[0m",
        "\x1b[36m  @@ -1 +1 @@\x1b[0m",
        "\x1b[31m  -old\x1b[0m",
        "\x1b[32m  +new\x1b[0m",
    ]
    options = next(cli_loop.approval_questions(request)).splitlines()
    assert [option[:5] for option in options] == ["Run i", "  y  ", "  a  ", "  w  ", "  n  ", "> "]


FORM = {
    "type": "object",
    "properties": {
        "colour": {"title": "Which\u202e?", "type": "string", "enum": ["red", "blue"], "default": "red"},
        "sizes": {"type": "array", "items": {"type": "string", "enum": ["s", "m"]}},
        "count": {"type": "integer"},
    },
    "required": ["colour", "count"],
}


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["blue\n", "s, m\n", " 3\n"], Once({"colour": "blue", "sizes": ["s", "m"], "count": 3})),
        (["\n", "\n", "3\n"], Once({"colour": "red", "count": 3})),
        (["green\n", "\n", "3\n"], Reject("green / 3")),
        (["\n", "\n", "\n"], Reject()),
        (["blue\n"], None),
    ],
)
def test_a_form_is_filled_in_or_rejected_with_the_users_words(monkeypatch, tmp_path, capsys, lines, answer):
    (tmp_path / "typed").write_text("".join(lines))
    monkeypatch.setattr(cli_loop, "TERMINAL", tmp_path / "typed")
    request = ApprovalRequest(ToolCall("ask", '{"q": 1}', "1"), "", "ask", hint="Tell me", payload={"form": FORM})
    assert cli_loop.TerminalPrompt().approve(request, ToolContext()) == answer
    shown = capsys.readouterr().err
    assert shown.startswith("ask: Tell me\nWhich\\u{202e}? [red, blue] (Enter: red): ")


@pytest.fixture
def terminal(home, tmp_path):
    functions = tmp_path / "fns.py"
    functions.write_text(FUNCTIONS)
    environ = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "100"}
    started = []

    def start(*argv):
        terminal = Terminal([*argv, "--functions", str(functions)], environ)
        started.append(terminal)
        return terminal

    yield start
    for terminal in started:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()


@pytest.mark.slow
def test_a_call_is_approved_after_its_preview(terminal):
    at = terminal("call", "wipe", "path=a.txt")
    at.until("removes a.txt")
    at.until("\\u{1b}[2J")  # what moves the cursor is written out
    at.until("Run it?")
    at.type("y\n")
    assert (at.end(), at.shown.endswith("wiped a.txt\n")) == (0, True)


@pytest.mark.slow
def test_a_call_is_rejected_with_a_reason(terminal):
    at = terminal("call", "wipe", "path=a.txt", "--json")
    at.until("Run it?")
    at.type("what?\n")
    at.until("Run it?")
    at.type("n use b.txt\n")
    assert (at.end(), "use b.txt" in at.shown) == (1, True)


@pytest.mark.slow
def test_input_typed_before_the_question_is_discarded(terminal):
    at = terminal("call", "wipe", "path=a.txt", "--json")
    at.type("y\n")
    at.until("Run it?")
    at.type("n use b.txt\n")
    assert (at.end(), "use b.txt" in at.shown) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "shown", "message"),
    [
        (["wipe", "path=a.txt"], "Run it?", '"isError":true'),  # while a person is asked: nothing is run
        (["wait"], "[#####", "aborted after"),  # a bar where the total is known
    ],
)
def test_ctrl_c_stops_a_call_with_a_result(terminal, argv, shown, message):
    at = terminal("call", *argv, "--json")
    at.until(shown)
    at.process.send_signal(signal.SIGINT)
    assert (at.end(), message in at.shown) == (130, True)
