"""The warm command answers from the snapshot what the whole command would answer, and declines everything else."""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from installed import OLD, write
from pegboard import Origin, Problem, Tool, ToolSpec
from pegboard.__main__ import main
from pegboard.cli import warm
from pegboard.cli.output import write_note
from pegboard.cli.table import tool_table
from pegboard.cli.tool_texts import (
    listing_json,
    listing_plain,
    listing_rows,
    notice_text,
    schema_text,
    sections_of,
    show_json,
    show_text,
)
from pegboard.cli.warm import answer
from pegboard.plugins.cache import Stamps, write_snapshot
from pegboard.plugins.snapshot import own_version, snapshot_place

SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "description": 'Quoted "é", ,"inputSchema":'}}}
FILES, GIT = Origin("files", "pegboard-files", "0.1.0"), Origin("git", "pegboard-git", "2")
TOOLS = [
    Tool(ToolSpec("alpha", "Does alpha. Well.", input_schema=SCHEMA), origin=FILES),
    Tool(ToolSpec("alpha2", "Dö alpha2.", title='T "x"'), origin=GIT),
    Tool(ToolSpec("beta", "漢字。", long_running=True, tags=("x",)), origin=GIT),
    Tool(ToolSpec("host_tool")),
]
PROBLEMS = [Problem("broke\x1b", plugin="bad", distribution="pegboard-bad")]
COMMANDS = [("call", "Call a tool."), ("list", "List the tools."), ("lint:all", "Odd\x1b name."), ("show", "")]
NOTICE = "plugin bad: broke\\u{1b}\n"


@pytest.fixture(autouse=True)
def _own_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("_REGISTRY_COMPLETE", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def watched(tmp_path) -> Path:
    file = write(tmp_path / "watched")
    os.utime(file, (OLD, OLD))
    return file


def store(watched: Path, tools: list[Tool], problems: list[Problem]) -> Path:
    stamps = Stamps()
    stamps.add(str(watched))
    place = snapshot_place()
    assert place is not None
    assert write_snapshot(place, sections_of(tools, problems, commands=COMMANDS), stamps)
    return Path(place[1])


@pytest.fixture
def snapshot(watched) -> Path:
    return store(watched, TOOLS, PROBLEMS)


@pytest.fixture
def run_warm(capsys):
    """Runs the warm command; returns the exit code, standard output and standard error."""

    def run_warm(*argv: str) -> tuple[int | None, str, str]:
        code = answer(argv)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_warm


@pytest.mark.usefixtures("snapshot")
class TestAnswers:
    """Each is what `listing` makes for the whole command."""

    @pytest.mark.parametrize(
        ("argv", "out", "err"),
        [
            ((), listing_plain(TOOLS), NOTICE),
            (("list",), listing_plain(TOOLS), NOTICE),
            (("list", "--json"), listing_json(TOOLS, PROBLEMS), ""),
            (("list", "--names"), "alpha\nalpha2\nbeta\nhost_tool\n", NOTICE),
            (("list", "beta", "alpha", "beta"), listing_plain([TOOLS[0], TOOLS[2]]), NOTICE),  # in the registry's order
            (("list", "--json", "beta", "alpha"), listing_json([TOOLS[0], TOOLS[2]], PROBLEMS), ""),
            (("list", "--plugin", "git"), listing_plain(TOOLS[1:3]), NOTICE),
            (("list", "--json", "--plugin=git"), listing_json(TOOLS[1:3], PROBLEMS), ""),
            (("list", "beta", "alpha", "--plugin", "git", "--names"), "beta\n", NOTICE),
            (("--version",), f"registry (pegboard) {own_version()}\n", ""),
        ],
    )
    def test_the_list_and_the_version(self, run_warm, argv, out, err):
        assert run_warm(*argv) == (0, out, err)

    @pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
    def test_a_tool(self, run_warm, tool):
        assert run_warm("show", tool.name) == (0, show_text(tool), "")
        assert run_warm("show", "--json", tool.name) == (0, show_json(tool), "")
        assert run_warm("schema", tool.name) == (0, schema_text(tool), "")

    def test_a_closed_standard_error_is_ignored(self, run_warm, monkeypatch):
        monkeypatch.setattr(sys, "stderr", None)
        assert run_warm("list")[:2] == (0, listing_plain(TOOLS))


@pytest.mark.usefixtures("snapshot")
class TestDeclines:
    """It prints nothing: the whole command answers."""

    @pytest.mark.parametrize(
        "argv",
        [
            ("--json",),
            ("--help",),
            ("--version", "list"),
            ("--version=1",),
            ("call", "alpha"),
            ("lst",),
            ("list", "--where", "x"),
            *(("list", each) for each in ("--live", "--refresh", "--debug", "--table")),
            ("list", "--json", "--json"),
            ("list", "--json", "--names"),
            *(("list", each) for each in ("--json=1", "--js", "-h", "-", "--", "unknown", "alph", "alpha*")),
            *(("list", each) for each in ("alpha\tfiles", "host_tool\n", "", "--plugin", "--plugin=")),
            ("list", "--plugin", "unknown"),
            ("list", "alpha", "--plugin", "git"),
            ("show",),
            ("show", "alpha", "beta"),
            ("show", "unknown"),
            ("show", "--names", "alpha"),
            ("schema", "--json", "alpha"),
            ("schema", "\udcff"),
        ],
    )
    def test_everything_but_known_options(self, run_warm, argv):
        assert run_warm(*argv) == (None, "", "")

    def test_a_stale_snapshot(self, run_warm, watched):
        os.utime(watched, (OLD, OLD + 1))
        assert run_warm("list") == (None, "", "")

    def test_another_environment(self, run_warm, monkeypatch):
        monkeypatch.setenv("PEGBOARD_BLOCK", "files")
        assert run_warm("list") == (None, "", "")

    def test_a_damaged_snapshot(self, run_warm, snapshot):
        data = snapshot.read_bytes()
        snapshot.write_bytes(data.replace(b"Does alpha", b"Dose alpha"))
        for argv in (("list",), ("list", "--json"), ("list", "--json", "alpha"), ("show", "alpha")):
            assert run_warm(*argv) == (None, "", "")

    @pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-16"])
    def test_a_terminal_that_cannot_show_it(self, monkeypatch, encoding):
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", out)
        assert answer(["list"]) is None
        assert out.buffer.getvalue() == b""  # pyright: ignore[reportAttributeAccessIssue]

    @pytest.mark.parametrize("out", [None, io.StringIO()])
    def test_an_output_without_a_buffer(self, monkeypatch, out):
        monkeypatch.setattr(sys, "stdout", out)
        assert answer(["show", "alpha"]) is None


def test_without_a_snapshot_it_declines(run_warm):
    assert run_warm("list") == (None, "", "")


def test_without_a_place_for_snapshots_it_declines(run_warm, snapshot, monkeypatch):
    monkeypatch.setattr(warm, "snapshot_place", lambda: None)
    assert run_warm("list") == (None, "", "")


def test_an_empty_listing_is_left_to_the_full_command(run_warm, watched):
    store(watched, [], [])
    assert run_warm("list") == (None, "", "")
    assert run_warm("list", "--json") == (0, listing_json([]), "")


# Terminals


class Terminal(io.TextIOWrapper):
    """An output that says that it is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def seen(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.usefixtures("snapshot")
def test_a_terminal_gets_a_table(monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    assert answer(["list"]) == 0
    assert terminal.seen() == tool_table(listing_rows(TOOLS), width=30, colour=True)


@pytest.mark.parametrize("width", [5, 40, 200])
def test_a_terminal_gets_the_notice_as_the_full_command_wraps_it(monkeypatch, watched, width):
    causes = ["is ignored until you trust the file ('registry config trust')", f"broke, {'x' * 50} y"]
    problems = [Problem(cause, plugin="bad") for cause in causes]
    store(watched, TOOLS, problems)
    monkeypatch.setenv("COLUMNS", str(width))
    warm, full = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stderr", warm)
    assert answer(["list"]) == 0
    monkeypatch.setattr(sys, "stderr", full)
    write_note(notice_text(problems), is_visible=True)
    assert warm.seen() == full.seen()
    assert len(warm.seen().splitlines()) == {5: 9, 40: 5, 200: 2}[width]


# A reader that goes away


class Gone(io.BytesIO):
    """A closed pipe."""

    def write(self, *_: object) -> int:
        raise BrokenPipeError


@pytest.mark.usefixtures("snapshot")
def test_a_closed_pipe_ends_quietly(monkeypatch, capsys):
    class Out:
        buffer = Gone()
        encoding = "utf-8"

        def isatty(self) -> bool:
            return False

    quieted = []
    monkeypatch.setattr(sys, "stdout", Out())
    monkeypatch.setattr(warm, "quiet_stdout", lambda: quieted.append(True))
    assert answer(["list"]) == 0
    assert quieted == [True]
    assert capsys.readouterr().err == ""


def test_a_quieted_output_goes_nowhere():
    code = (
        "import os, sys; from pegboard.cli.warm import quiet_stdout; quiet_stdout(); "
        "sys.stdout.write('x'); sys.stdout.flush()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


# Completion


@pytest.fixture
def completed(run_warm, monkeypatch):
    """Completes a line as a shell does; returns the lines, or `None` if the command declines."""

    def complete(line: str, instruction: str = "complete") -> list[str] | None:
        monkeypatch.setenv("_REGISTRY_COMPLETE", instruction)
        monkeypatch.setenv("COMP_WORDS", line)
        code, out, err = run_warm()
        assert err == ""
        return None if code is None else out.removesuffix("\n").split("\n")

    return complete


LISTED = ["plain,list\tList the tools.", "plain,lint:all\tOdd\\u{1b} name."]
OFFERED = ["plain,alpha\tDoes alpha.", "plain,alpha2\tDö alpha2.", "plain,beta\t漢字。", "plain,host_tool"]


@pytest.mark.usefixtures("snapshot")
class TestCompletion:
    @pytest.mark.parametrize(
        ("line", "lines"),
        [
            ("registry li", LISTED),
            ("registry ", ["plain,call\tCall a tool.", *LISTED, "plain,show"]),
            ("registry", ["plain,call\tCall a tool.", *LISTED, "plain,show"]),
            *((f"registry {command} ", OFFERED) for command in ("list", "show", "schema", "explain", "call")),
            ("registry show al", OFFERED[:2]),
            ("registry list alpha b", OFFERED[2:3]),
            ("registry show zzz", [""]),
        ],
    )
    def test_words_with_their_help(self, completed, line, lines):
        assert completed(line) == lines

    @pytest.mark.parametrize(
        "line",
        [
            *("--", "list --", "--debug list", "show alpha b", "call alpha p", "plugins x"),
            *("'li", "l\\i"),
        ],
    )
    def test_everything_else_is_declined(self, completed, line):
        assert completed(f"registry {line}") is None
        assert completed("registry li", "bash_source") is None


def test_without_commands_to_offer_it_declines(completed, watched):
    store(watched, [], [])
    assert completed("registry show x") is None


# What it is made of


def test_it_loads_almost_nothing():
    """Besides its own modules, which are few."""
    code = """
import sys
before = set(sys.modules)
from pegboard.__main__ import main
from pegboard.cli import warm, table
warm.answer(["list"])
print(*sorted(set(sys.modules) - before))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    foreign = {name for name in loaded if not name.startswith("pegboard")}
    assert foreign <= {"__future__", "errno", "itertools", "zlib"}
    assert len(loaded) - len(foreign) <= 12


# The search index -----------------------------------------------------------------------------------------------------


@pytest.fixture
def settled(site):
    """A plugin whose files haven't changed for long: what rests on them is snapshot."""
    for file in [site.root, *Path(site.root).rglob("*")]:
        os.utime(file, (OLD, OLD))
    return site


@pytest.fixture
def place(settled):
    place = snapshot_place()
    assert place is not None
    return place


WORDS = "count_words\tdemo\tCount the words of a text.\n"
NOTHING = (None, "", "")


class TestKept:
    @pytest.mark.slow
    def test_each_form_is_the_same_warm_and_cold(self, run, run_warm, place):
        for argv in (["file", "text"], ["text", "file", "--limit=1"], ["--json", "file", "text"], ["w", "count_words"]):
            assert run("search", *argv)[0] == 0
            assert run_warm("search", *argv) == run("search", *argv)

    @pytest.mark.parametrize(
        "argv",
        [
            (),
            ("--limit", "5"),
            *(("text", "--limit", each) for each in ("0", "1000", "many", "²")),
            ("text", "--where", "read_only"),
            ("text", "--live"),
            ("zzzz",),
            ("wod",),
        ],
    )
    def test_other_searches_are_left_to_the_full_command(self, run, run_warm, place, argv):
        run("search", "text")
        assert run_warm("search", *argv) == NOTHING

    def test_the_index_changes_with_the_listing(self, run, run_warm, settled, place):
        run("search", "text")
        manifest = settled.root / "demo_tools" / "pegboard-manifest.json"
        data = json.loads(manifest.read_text())
        tools = data["plugins"]["demo"]["tools"]
        data["plugins"]["demo"]["tools"] = [tools[0], {**tools[1], "name": "wipe_out", "description": "New text."}]
        manifest.write_text(json.dumps(data))
        os.utime(manifest, (OLD + 5, OLD + 5))
        assert run_warm("search", "text") == NOTHING
        assert run("search", "new", "text")[1].splitlines()[0].startswith("wipe_out\t")
        assert "wipe_out" in run_warm("search", "out")[1]

    def test_a_search_adds_the_index_to_a_cached_listing(self, run, run_warm, place):
        run("list")
        assert run_warm("search", "text") == NOTHING
        assert run("search", "text") == (0, WORDS, "")
        assert run_warm("search", "text") == run_warm("list", "count_words") == (0, WORDS, "")

    def test_a_damaged_index_is_left_to_the_full_command(self, run, run_warm, place, monkeypatch):
        monkeypatch.setattr("pegboard.toolsets.search.ToolIndex.dump", lambda _: b"no database" * 1000)
        run("search", "text")
        assert run_warm("search", "text") == NOTHING

    def test_a_search_works_without_a_writable_cache(self, run, run_warm, place, home):
        (home / "cache" / "pegboard").write_text("in the way")
        assert run("search", "text") == (0, WORDS, "")
        assert run_warm("search", "text") == NOTHING


# As a process -------------------------------------------------------------------------------------------------------

COMMAND = [sys.executable, "-m", "pegboard", "search"]
PROBE = """
import gc, sys
before = set(sys.modules)
from pegboard.__main__ import main
code = main(sys.argv[1:])
assert gc.isenabled()
print("LOADED", code, *sorted(set(sys.modules) - before))
"""


@pytest.fixture
def environ(settled) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(settled.root)}


@pytest.mark.slow
def test_a_tools_garbage_is_collected_and_that_of_a_hosts_process(environ, tmp_path, capsys):
    """Only the imports of the command as a process are spared."""
    functions = tmp_path / "functions.py"
    functions.write_text("import gc\n\n\ndef collects() -> bool:\n    return gc.isenabled()\n")
    command = [sys.executable, "-m", "pegboard", "call", "--functions", str(functions), "collects"]
    assert subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stdout == "true\n"
    assert main(["--no-such-option"]) == 2
    assert gc.isenabled()


def loaded(environ, *argv) -> set[str]:
    """The modules that running it has loaded."""
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, "search", *argv], env=environ, capture_output=True, text=True, check=True
    )
    return set(ran.stdout.splitlines()[-1].split()[2:])


class TestProcess:
    def test_a_cold_search_imports_no_plugin_and_a_warm_one_little_beyond_sqlite(self, environ):
        cold = loaded(environ, "text")
        assert cold.isdisjoint({"demo_tools", "asyncio", "pegboard.schema.types"})
        warm = loaded(environ, "text")
        assert warm.isdisjoint({"demo_tools", "attr", "click", "json", "re", "typing", "pathlib", "hashlib"})
        assert "sqlite3" in warm

    @pytest.mark.slow
    def test_concurrent_searches_leave_a_valid_index(self, environ):
        for _ in range(2):
            running = [
                subprocess.Popen([*COMMAND, "text"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _ in range(4)
            ]
            run_warm = [(process.communicate(timeout=120), process.returncode) for process in running]
            assert run_warm == [((WORDS.encode(), b""), 0)] * 4
        argv = [sys.executable, "-X", "importtime", *COMMAND[1:], "text"]
        assert b"| click" not in subprocess.run(argv, env=environ, capture_output=True, check=True).stderr
