"""`registry call`, run in this process with a registry that the test makes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from pegboard import (
    AudioContent,
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
from pegboard.errors import FatalToolError

RAN: list[str] = []
LOAD = load_registry


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
def greet(name: str) -> str:
    """Greet a person."""
    return f"Hello \x1b[31m{name}\u202e"


@tool
def facts(verbose: bool = False) -> dict[str, object]:
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
    raise ValueError("a secret\nof two lines")


@tool
def end() -> str:
    """End the turn."""
    raise FatalToolError("the disk is gone")


@tool
def who(context: ToolContext) -> str:
    """Return the user and a state value."""
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
def registry(registry):
    RAN.clear()
    registry.register(add, greet, facts, wipe, send, fail, crash, end, who, many, quiet, progress, erase, print_it)
    registry.register(Tool.freeform("shout", lambda text: text.upper()))
    return registry


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
def test_results_are_printed(run, argv, out):
    assert run("call", *argv) == (0, out, "")


@pytest.mark.parametrize(
    ("form", "is_filled_in"),
    [
        ({"properties": {"a": {"type": "string", "default": "red"}, "b": {}}, "required": ["a"]}, True),
        ({"properties": {"a": {"type": "string", "default": "red"}, "b": {}}, "required": ["a", "b"]}, False),
    ],
)
def test_yes_answers_a_form_only_if_it_has_defaults(run, registry, form, is_filled_in):
    @tool
    async def fill_in(context: ToolContext) -> str:
        """Ask."""
        return str((await context.request_confirmation("Which?", {"form": form})).confirmed)

    registry.register(fill_in)
    code, out, err = run("call", "fill_in", "--yes")
    assert (code, out, "no approver" in err) == ((0, "True\n", False) if is_filled_in else (1, "", True))


def test_a_question_without_a_terminal_is_an_error(run, registry):
    @tool
    async def ask(context: ToolContext) -> None:
        """Ask."""
        await context.request_confirmation("Which one?")

    registry.register(ask)
    code, _, err = run("call", "ask")
    assert (code, "ask asks, but there is no terminal to answer in: Which one?" in err) == (1, True)


def test_output_writes_content_to_files(run, home):
    code, out, err = run("call", "many", "--output", "here.bin")
    assert (code, out) == (0, "")
    assert err == "here.bin: 12.1 KiB\nhere-2.bin: 7 bytes\nhere-3.bin: 1.9 MiB\nhere-4.bin: 8 bytes\n"
    assert [len((home / "here" / name).read_bytes()) for name in ("here.bin", "here-2.bin")] == [12_345, 7]


def test_output_writes_the_text_if_there_is_no_other_content(run, home):
    assert run("call", "add", "a=1", "--output", "sum.txt")[0] == 0
    assert (home / "here" / "sum.txt").read_text()
    assert run("call", "add", "a=x", "--output", "no.txt")[0] == 2
    assert not (home / "here" / "no.txt").exists()


def test_content_other_than_text_is_a_placeholder(run):
    assert run("call", "many")[1] == (
        "words\n[image image/png, 12.1 KiB]\n[audio audio/wav, 7 bytes]\n[file file:///a application/pdf, 1.9 MiB]\n"
        "[file file:///b]\nits text\n[link a link https://x]\n"
    )


def test_json(run):
    code, out, err = run("call", "add", "a=1", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "content": [{"type": "text", "text": '{"result": 3}'}],
        "structuredContent": {"result": 3},
        "isError": False,
    }
    assert run("call", "greet", "name=x", "--json")[1].count("\\u001b") == 1


def test_arguments_from_standard_input(run, stdin):
    stdin(b'{"a": 40}')
    assert run("call", "add", "--input-json", "-")[1] == "42\n"
    stdin("schön".encode())
    assert run("call", "shout")[1] == "SCHÖN\n"


def test_arguments_from_a_file(run, tmp_path):
    (tmp_path / "a.json").write_text('{"a": 40}')
    assert run("call", "add", "--input-json", f"@{tmp_path}/a.json")[1] == "42\n"


@pytest.mark.parametrize(
    ("argv", "data", "message"),
    [
        (["shout"], b"\xff", "standard input isn't UTF-8"),
        (["shout"], b"x" * 11, "standard input is larger than 10 bytes"),
        (["add", "b=1", "--input-json", "{"], b"", "--input-json: "),
        (["add", "b=1", "--input-json", "[]"], b"", "'[]' isn't a JSON object; '--input-json @FILE' reads a file"),
        (["add", "--input-json", "no.json"], b"", "'no.json' isn't a JSON object; '--input-json @FILE' reads a file"),
        (["add", "--input-json", "@no.json"], b"", "--input-json @no.json: No such file or directory"),
        (["add", "4"], b"", "'4' is not an argument: write a=4"),
        (["add", "a=1", "4 5"], b"", "'4 5' is not an argument: write 'b=4 5'"),
        (["add", "--a", "4"], b"", "arguments are written without dashes: a=4"),
        (["add", "a=1", "--b=x y"], b"", "arguments are written without dashes: 'b=x y'"),
        (["--json", "add", "--a", "4"], b"", "arguments are written without dashes: a=4"),
        (["add", "--a", "--b", "4"], b"", "arguments are written without dashes: a=..."),
        (["facts", "--verbos", "x"], b"", "arguments are written without dashes: verbose=true"),
        (["add", "--nosuch", "4"], b"", "No such option '--nosuch'"),
        (["add", "--c", "4"], b"", "No such option '--c'"),
        (["ad", "--c", "4"], b"", "no tool is called 'ad'"),
        (["add", "a=1", "a=2"], b"", "a is given 2 times"),
        (["ad"], b"", "no tool is called 'ad'. Did you mean 'add'?"),
        (["add", "-T", "ad"], b"", "-T: no tool is called 'ad'. Did you mean 'add'?\nerror: tool 'add' isn't offered"),
        (["add", "a=1", "-T", "w*"], b"", "tool 'add' isn't offered here: excluded by where: name:w* (name: add)."),
    ],
)
def test_wrong_use(run, stdin, monkeypatch, *, argv, data, message):
    monkeypatch.setattr("pegboard.cli.commands.call.MOST_INPUT", 10)
    stdin(data)
    code, out, err = run("call", *argv)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [(["add", "a=x", "c=1"], ["- a: ", "- c: "]), (["add", "--input-json", "{"], []), (["add"], [])],
)
def test_invalid_arguments_are_a_usage_error(run, argv, message):
    code, out, err = run("call", *argv)
    assert (code, out) == (2, "")
    assert err.startswith("error (invalid_arguments): ")
    assert [each for each in message if each not in err] == []


def test_a_tool_that_fails(run):
    code, out, err = run("call", "fail")
    assert (code, out) == (1, "")
    assert err.startswith("error (tool_failure): out of paper\nAdd some.\n")
    code, out, err = run("call", "fail", "--json")
    assert (code, json.loads(out)["isError"], err) == (1, True, "")


def test_the_operator_reads_the_cause_and_with_debug_the_traceback(run):
    code, _, err = run("call", "crash")
    assert code == 1
    cause = "  ValueError: a secret\n  of two lines\n"
    assert err == f"error (tool_failure): crash failed: ValueError.\n{cause}(--debug shows more)\n"
    _, _, err = run("call", "crash", "--debug")
    assert err.count("Traceback") == 1


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_plugin_that_fails_to_load_is_reported_to_the_user(run, site, form, monkeypatch):
    file = site.root / "demo_tools" / "__init__.py"
    monkeypatch.setattr("pegboard.cli.session.load_registry", LOAD)
    file.write_text("raise ImportError('no module named x')")
    code, out, err = run("call", "count_words", "text=x", *form)
    assert code == 1
    assert "plugin 'demo' (from pegboard-demo): ImportError: no module named x" in err
    assert "registry doctor" in err
    assert "registry list --refresh" in err
    assert "no module" not in out


def test_a_tool_that_changed_since_it_was_listed_is_reported(run, site, monkeypatch):
    file = site.root / "demo_tools" / "__init__.py"
    monkeypatch.setattr("pegboard.cli.session.load_registry", LOAD)
    file.write_text(file.read_text().replace("Count the words", "Count words"))
    code, _, err = run("call", "count_words", "text=x")
    assert code == 1
    assert err.count("registry list --refresh") == 1


def test_a_fatal_tool_error(run):
    code, _, err = run("call", "end")
    assert (code, err) == (1, "error: the disk is gone\n")


@pytest.mark.parametrize("name", ["wipe", "send"])
def test_a_call_that_needs_confirmation_is_refused_without_yes(run, name):
    code, out, err = run("call", name)
    assert (code, out) == (1, "")
    message = f"error (confirmation_required): {name} needs confirmation and was not run. To run it, add --yes.\n"
    assert err == message
    assert RAN == []
    code, out, _ = run("call", name, "--json")
    assert (code, json.loads(out)["isError"]) == (1, True)


def test_a_tool_excluded_by_the_configuration_is_not_run(run, home):
    (home / "here" / "pegboard.toml").write_text('where = "not destructive"')
    code, _, err = run("call", "wipe", "--yes")
    assert code == 2
    assert "isn't offered here" in err
    assert "registry explain wipe" in err
    assert RAN == []


def test_a_tool_of_a_toolset_is_resolved_and_called_in_one_loop(run, registry):
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

    registry.register(Toolset())
    assert run("call", "live_tool", "--user", "ann") == (0, "for ann\n", "")
    assert len(loops) == 3
    assert len(set(map(id, loops))) == 1


# `registry dispatch` -------------------------------------------------------------------------------------------------


@tool
async def progress(context: ToolContext) -> str:
    """Tell how far it is."""
    context.report(1, 2, "half")
    return "whole"


@tool(destructive=True)
async def erase(path: str) -> str:
    """Remove a file."""
    RAN.append(path)
    return f"wiped {path}"


@tool
def print_it(text: str) -> str:
    """Print on the way."""
    sys.stdout.write("printed\n")
    return text.upper()


@pytest.fixture
def turn(run, tmp_path):
    """Runs calls from a file; returns the exit code, the results and standard error."""

    def turn(calls, *argv):
        file = tmp_path / "calls.json"
        file.write_text(calls if isinstance(calls, str) else json.dumps(calls))
        code, out, err = run("dispatch", str(file), *argv)
        return code, [json.loads(line) for line in out.splitlines()] if code != 2 else None, err

    return turn


def call(name, arguments=None, call_id="1"):
    return {"id": call_id, "name": name, "arguments": {} if arguments is None else arguments}


def test_results_are_printed_in_call_order(turn):
    assert turn([]) == (0, [], "")
    code, results, err = turn([call("add", {"a": 1}, "x"), call("add", '{"a": 2, "b": 3}', "y")])
    assert (code, err) == (0, "")
    assert results == [
        {
            "id": call_id,
            "name": "add",
            "isError": False,
            "content": [{"type": "text", "text": f'{{"result": {value}}}'}],
            "structuredContent": {"result": value},
        }
        for call_id, value in (("x", 3), ("y", 5))
    ]


def test_calls_come_from_standard_input(run, stdin):
    stdin(json.dumps([call("add", {"a": 1})]).encode())
    code, out, _ = run("dispatch", "-")
    assert code == 0
    assert json.loads(out)["structuredContent"] == {"result": 3}
    assert "error: standard input isn't valid JSON" in run("dispatch", "-")[2]


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (call("add", {"a": "1"}), "invalid_arguments"),
        (call("add", "{"), "invalid_arguments"),
        *((each, "unknown_tool") for each in (call("nothing"), {"id": "1", "name": 7}, None)),
        ({"id": "1", "name": "add", "arguments": [1]}, "invalid_arguments"),
    ],
)
def test_a_bad_call_costs_only_itself(turn, bad, kind):
    code, results, _ = turn([bad, call("add", {"a": 1})])
    assert code == 1
    assert [each["isError"] for each in results] == [True, False]
    assert results[0]["kind"] == kind


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "isn't a list"),
        *((each, "isn't valid JSON") for each in ("[", "", "[NaN]", '[{"a": 1, "a": 2}]')),
    ],
)
def test_an_invalid_file_is_a_usage_error(turn, text, why):
    code, results, err = turn(text)
    assert (code, results) == (2, None)
    assert why in err


@pytest.mark.parametrize(
    ("options", "code", "kind"), [((), 1, "confirmation_required"), (("--no",), 1, "rejected"), (("--yes",), 0, None)]
)
def test_a_dispatched_call_that_needs_confirmation_runs_with_yes_only(turn, options, code, kind):
    ended, results, _ = turn([call("erase", {"path": "a"})], *options)
    assert (ended, results[0].get("kind"), RAN) == (code, kind, [] if code else ["a"])
    assert ("--yes" in results[0]["content"][0]["text"]) is (not options)


def test_rules_decide_what_runs(turn, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\npermission = "erase"\npattern = "*"\naction = "deny"\n')
    code, results, _ = turn([call("erase", {"path": "a"}), call("add", {"a": 1})], "--rules", str(rules), "--yes")
    assert code == 1
    assert results[0]["kind"] in ("denied", "not_offered")
    assert results[1]["isError"] is False
    assert RAN == []


def test_a_rule_that_matches_no_tool_is_reported(turn, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('deny = ["eras"]\n')
    code, _, err = turn([call("add", {"a": 1})], "--rules", str(rules))
    assert code == 0
    assert f"{rules}: rule deny eras: *: no tool, and no permission that a tool declares, is called 'eras'." in err


def test_a_time_limit_applies_to_each_call(turn, tmp_path):
    functions = tmp_path / "fns.py"
    functions.write_text(
        "import asyncio\n\nasync def never() -> str:\n    'Wait forever.'\n"
        "    await asyncio.Event().wait()\n    return ''\n"
    )
    code, results, _ = turn([call("never")], "--functions", str(functions), "--timeout", "0.05")
    assert (code, results[0]["kind"]) == (1, "timeout")
    assert "0.05 s" in results[0]["content"][0]["text"]


def test_events_are_printed_as_they_happen(run, tmp_path):
    file = tmp_path / "calls.json"
    file.write_text(json.dumps([call("progress"), call("print_it", {"text": "a"}, "2")]))
    code, out, err = run("dispatch", str(file), "--events", "--sequential")
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [event["type"] for event in events if event["callId"] == "1"] == [
        "call_pending",
        "call_running",
        "call_updated",
        "call_completed",
    ]
    assert events[-1]["name"] == "print_it"
    assert "printed" in err


def test_every_call_has_a_result_after_a_fatal_error(turn):
    code, results, err = turn([call("end"), call("add", {"a": 1})], "--sequential")
    assert code == 1
    assert [each["kind"] for each in results] == ["tool_failure", "skipped"]
    assert "the disk is gone" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--yes", "--no"], "contradict"),
        (["--timeout", "nan"], "not a number of seconds"),
        (["--rules", "wrong.toml"], "permission"),
    ],
)
def test_invalid_options(turn, home, argv, message):
    (home / "here" / "wrong.toml").write_text('[[rule]]\npermision = "erase"\n')
    code, _, err = turn([call("erase", {"path": "a"})], *argv)
    assert (code, message in err, RAN) == (2, True, [])


def test_results_are_not_cut(turn, registry):
    @registry.register
    @tool
    async def log() -> str:
        """Say much."""
        return "line\n" * 5_000

    _, results, _ = turn([call("log")])
    assert results[0]["content"][0]["text"] == "line\n" * 5_000


def test_a_result_that_would_arrive_later_is_reported_as_lost(turn, registry):
    @registry.register
    @tool(long_running=True)
    async def order() -> str:
        """Answer later."""
        return "order-1"

    code, _, err = turn([call("order")])
    assert code == 0
    assert "1 pending: results of order are lost" in err


def test_calls_are_aborted_when_the_reader_closes_the_pipe(tmp_path):
    """The pipe is closed after the first line."""
    functions, calls = tmp_path / "fns.py", tmp_path / "calls.json"
    functions.write_text(
        "import asyncio\nfrom pegboard import ToolContext\n\n"
        "async def never(context: ToolContext) -> str:\n    'Report forever.'\n"
        "    while True:\n        context.report(1)\n        await asyncio.sleep(0.01)\n"
    )
    calls.write_text(json.dumps([call("never")]))
    argv = [sys.executable, "-m", "pegboard", "dispatch", str(calls), "--events", "--functions", str(functions)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    process.stderr.close()


STEPS = """
import os, pathlib, signal, threading

def quick() -> str:
    'Answers at once.'
    return "done"

def leave() -> str:
    'Ends the process.'
    os._exit(3)

def crash_later() -> str:
    'Ends the process, once the other call has ended.'
    while 'call_completed' not in pathlib.Path('out').read_text(): pass
    os.kill(os.getpid(), 9)

def fork() -> int:
    'Gives the exit code of a process of its own.'
    pid = os.fork()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if pid else os._exit(4)

def send(number: int) -> str:
    'Sends a signal to its own process, and waits for ever.'
    os.kill(os.getpid(), number)
    threading.Event().wait()
    return "never"
"""


@pytest.fixture
def steps(tmp_path):
    """Runs `registry dispatch` in a new process; returns the exit code and the lines of standard output."""

    def steps(*calls, how="--sequential"):
        (tmp_path / "fns.py").write_text(STEPS)
        (tmp_path / "calls.json").write_text(json.dumps(calls))
        argv = [sys.executable, "-m", "pegboard", "dispatch", "calls.json", how, "--functions", "fns.py"]
        with (tmp_path / "out").open("w") as out:
            done = subprocess.run(argv, cwd=tmp_path, stdout=out, timeout=60, check=False)
        return done.returncode, [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]

    return steps


@pytest.mark.slow
def test_exit_in_a_tool_fails_only_its_call(steps):
    code, rows = steps(call("quick"), call("leave"), call("fork"), call("quick"))
    assert (code, [(row.get("kind"), row["content"][0]["text"]) for row in rows]) == (
        1,
        [(None, "done"), ("tool_failure", "leave failed: SystemExit."), (None, '{"result": 4}'), (None, "done")],
    )


@pytest.mark.slow
def test_earlier_results_are_written_before_a_crash(steps):
    code, rows = steps(call("quick", call_id="1"), call("quick", call_id="2"), call("send", {"number": 9}))
    assert (code, [(row["id"], row["content"][0]["text"]) for row in rows]) == (-9, [("1", "done"), ("2", "done")])


@pytest.mark.slow
def test_with_events_a_later_result_is_written_before_a_crash(steps):
    code, events = steps(call("crash_later"), call("quick", call_id="2"), how="--events")
    assert (code, events[-1]["callId"], events[-1]["result"]["content"][0]["text"]) == (-9, "2", "done")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_leaves_a_result_for_each_call(steps, number):
    code, rows = steps(call("quick"), call("send", {"number": number}), call("quick"))
    assert (code, [row.get("kind") for row in rows]) == (130, [None, "aborted", "skipped"])
