"""`registry dispatch`, run in this process on a board that the test makes."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from pegboard import FatalToolError, ToolContext, tool

RAN: list[str] = []


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def told(context: ToolContext) -> str:
    """Tell how far it is."""
    context.report(1, 2, "half")
    return "whole"


@tool(destructive=True)
async def wipe(path: str) -> str:
    """Remove a file."""
    RAN.append(path)
    return f"wiped {path}"


@tool
async def end() -> str:
    """End the turn."""
    raise FatalToolError("the disk is gone")


@tool
def shout(text: str) -> str:
    """Print on the way."""
    sys.stdout.write("printed\n")
    return text.upper()


@pytest.fixture(autouse=True)
def board(registry):
    RAN.clear()
    registry.register(add, told, wipe, end, shout)
    return registry


@pytest.fixture
def turn(say, tmp_path):
    """Runs calls from a file; gives the exit code, the results and standard error."""

    def turn(calls, *argv):
        file = tmp_path / "calls.json"
        file.write_text(calls if isinstance(calls, str) else json.dumps(calls))
        code, out, err = say("dispatch", str(file), *argv)
        return code, json.loads(out) if out else None, err

    return turn


def call(name, arguments=None, call_id="1"):
    return {"id": call_id, "name": name, "arguments": {} if arguments is None else arguments}


def test_results_are_printed_in_call_order(turn):
    code, results, err = turn([call("add", {"a": 1}, "x"), call("add", '{"a": 2, "b": 3}', "y")])
    assert (code, err) == (0, "")
    assert results == [
        {
            "id": call_id,
            "name": "add",
            "isError": False,
            "kind": None,
            "content": [{"type": "text", "text": f'{{"result": {value}}}'}],
            "structuredContent": {"result": value},
        }
        for call_id, value in (("x", 3), ("y", 5))
    ]


def test_no_calls_are_no_results(turn):
    assert turn([]) == (0, [], "")


def test_calls_come_from_standard_input(say, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps([call("add", {"a": 1})]).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    code, out, _ = say("dispatch", "-")
    assert code == 0
    assert json.loads(out)[0]["structuredContent"] == {"result": 3}


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (call("add", {"a": "1"}), "invalid_arguments"),
        (call("add", "{"), "invalid_arguments"),
        (call("nothing"), "unknown_tool"),
        ({"id": "1", "name": 7}, "invalid_arguments"),
        (None, "invalid_arguments"),
        ({"id": "1", "name": "add", "arguments": [1]}, "invalid_arguments"),
    ],
)
def test_a_bad_call_costs_only_itself(turn, bad, kind):
    code, results, _ = turn([bad, call("add", {"a": 1})])
    assert code == 1
    assert [each["isError"] for each in results] == [True, False]
    assert results[0]["kind"] in (kind, "unknown_tool")


@pytest.mark.parametrize(
    ("text", "why"),
    [("{}", "no list"), ("[", "no JSON"), ("", "no JSON"), ("[NaN]", "no JSON"), ('[{"a": 1, "a": 2}]', "no JSON")],
)
def test_a_file_that_holds_no_calls_is_wrong_use(turn, text, why):
    code, results, err = turn(text)
    assert (code, results) == (2, None)
    assert why in err


def test_what_has_to_be_confirmed_isnt_run_without_a_yes(turn):
    code, results, _ = turn([call("wipe", {"path": "a"})])
    assert code == 1
    assert results[0]["kind"] == "confirmation_required"
    assert "--yes" in results[0]["content"][0]["text"]
    assert RAN == []


def test_yes_runs_it_and_no_rejects_it(turn):
    assert turn([call("wipe", {"path": "a"})], "--yes")[0] == 0
    code, results, _ = turn([call("wipe", {"path": "b"})], "--no")
    assert (code, results[0]["kind"]) == (1, "rejected")
    assert RAN == ["a"]


def test_rules_decide_what_runs(turn, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\npermission = "wipe"\npattern = "*"\naction = "deny"\n')
    code, results, _ = turn([call("wipe", {"path": "a"}), call("add", {"a": 1})], "--rules", str(rules), "--yes")
    assert code == 1
    assert results[0]["kind"] in ("denied", "not_offered")
    assert results[1]["isError"] is False
    assert RAN == []


def test_wrong_rules_are_wrong_use(turn, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\npermision = "wipe"\n')
    code, _, err = turn([], "--rules", str(rules))
    assert code == 2
    assert "permission" in err


def test_a_time_limit_holds_for_each_call(turn, tmp_path):
    functions = tmp_path / "fns.py"
    functions.write_text(
        "import asyncio\n\nasync def never() -> str:\n    'Wait for ever.'\n"
        "    await asyncio.Event().wait()\n    return ''\n"
    )
    code, results, _ = turn([call("never")], "--functions", str(functions), "--timeout", "0.05")
    assert (code, results[0]["kind"]) == (1, "timeout")
    assert "0.05 s" in results[0]["content"][0]["text"]


def test_events_are_printed_as_they_happen(say, tmp_path):
    file = tmp_path / "calls.json"
    file.write_text(json.dumps([call("told"), call("shout", {"text": "a"}, "2")]))
    code, out, err = say("dispatch", str(file), "--events", "--sequential")
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [event["state"] for event in events if event["call_id"] == "1"] == [
        "pending",
        "running",
        "updated",
        "completed",
    ]
    assert events[-1]["name"] == "shout"
    assert "printed" in err


def test_what_ends_the_turn_is_told_and_every_call_has_its_result(turn):
    code, results, err = turn([call("end"), call("add", {"a": 1})], "--sequential")
    assert code == 1
    assert [each["kind"] for each in results] == ["tool_failure", "skipped"]
    assert "the disk is gone" in err


def test_yes_and_no_together_are_wrong_use(turn):
    code, _, err = turn([call("wipe", {"path": "a"})], "--yes", "--no")
    assert code == 2
    assert "contradict" in err
    assert RAN == []


def test_a_time_limit_that_is_no_number_is_wrong_use(turn):
    assert turn([], "--timeout", "nan")[0] == 2


def test_results_are_printed_whole(turn, board):
    @board.register
    @tool
    async def log() -> str:
        """Say much."""
        return "line\n" * 5_000

    _, results, _ = turn([call("log")])
    assert results[0]["content"][0]["text"] == "line\n" * 5_000


def test_what_goes_on_when_the_command_ends_is_told(turn, board):
    @board.register
    @tool(long_running=True)
    async def order() -> str:
        """Answer later."""
        return "order-1"

    code, _, err = turn([call("order")])
    assert code == 0
    assert "1 pending: what order would answer later is lost" in err


def test_a_reader_that_goes_ends_the_calls(tmp_path):
    """The first line is read, then nobody reads any more: what runs is aborted."""
    functions, calls = tmp_path / "fns.py", tmp_path / "calls.json"
    functions.write_text(
        "import asyncio\nfrom pegboard import ToolContext\n\n"
        "async def never(context: ToolContext) -> str:\n    'Tell for ever.'\n"
        "    while True:\n        context.report(1)\n        await asyncio.sleep(0.01)\n"
    )
    calls.write_text(json.dumps([call("never")]))
    argv = [sys.executable, "-m", "pegboard", "dispatch", str(calls), "--events", "--functions", str(functions)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    process.stderr.close()
