"""`registry search`: in this process on a board of the test's, by the kept index, and as a process of its own."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from installed import OLD
from pegboard import Tool
from pegboard.catalogue import Problem
from pegboard.cli import warm
from pegboard.cli.commands import look
from pegboard.cli.table import table
from pegboard.cli.terminal import Screen
from pegboard.cli.tool_texts import listing_json, listing_plain, listing_rows
from pegboard.cli.warm import HEAD, answer, cached_names, index_file
from pegboard.plugins.snapshot import environment
from pegboard.tools.spec import Origin, ToolAnnotations, ToolSpec
from pegboard.toolsets import search as index_module

FILES = Origin("files", "pegboard-files", "0.1.0")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = Tool(
    ToolSpec("read_file", "Read a file.\n\nAll of it.", SCHEMA, annotations=ToolAnnotations(read_only_hint=True)),
    origin=FILES,
)
REMOVE = Tool(ToolSpec("remove", "Remove a file.", SCHEMA), origin=FILES)
WEATHER = Tool(ToolSpec("weather", "Tell the weather."), origin=Origin("weather", "pegboard-weather", "2"))


class Toolset:
    """Tools that only asking shows."""

    name = "live"

    async def tools(self, context):
        return [Tool(ToolSpec("live_file", f"For {context.user}."))]


@pytest.fixture
def board(registry):
    def change(catalogue):
        hung, _ = catalogue.with_tools([READ, REMOVE, WEATHER], "error")
        return hung

    registry.change(change)
    return registry


@pytest.mark.usefixtures("board")
class TestSearch:
    def test_a_pipe_gets_plain_lines_best_first(self, say):
        assert say("search", "read", "file") == (0, listing_plain([READ, REMOVE]), "")
        assert say("search", "remove a file") == (0, listing_plain([REMOVE, READ]), "")

    def test_json(self, say):
        assert say("search", "weath", "--json") == (0, listing_json([WEATHER]), "")

    def test_no_more_than_asked_for(self, say):
        assert say("search", "file", "read", "--limit", "1") == (0, listing_plain([READ]), "")

    @pytest.mark.parametrize("options", [("--where", "not read_only"), ("-T", "remove,weather"), ("--user", "ann")])
    def test_only_among_tools_that_are_offered(self, say, options):
        code, out, err = say("search", "remove", "file", *options)
        assert (code, out.splitlines()[0], err) == (0, "remove\tfiles\tRemove a file.", "")
        assert len(out.splitlines()) == (2 if options[0] == "--user" else 1)

    def test_what_toolsets_have_is_looked_through_where_they_are_asked(self, say, board):
        board.register(Toolset())
        assert "live_file" not in say("search", "file")[1]
        assert say("search", "live", "--live", "--user", "ann") == (0, "live_file\t\tFor ann.\n", "")

    @pytest.mark.parametrize(
        ("words", "near"), [(["wether"], "Did you mean 'weather'?"), (["raed_fiel"], "'read_file'")]
    )
    def test_where_nothing_fits_near_names_are_told(self, say, words, near):
        code, out, err = say("search", *words)
        assert (code, out) == (0, "")
        assert err.startswith(f"no tool fits {words[0]!r}.")
        assert near in err

    def test_where_nothing_fits_json_is_whole_all_the_same(self, say):
        assert say("search", "zzzz", "--json") == (0, listing_json([]), "no tool fits 'zzzz'.\n")

    @pytest.mark.parametrize("words", ['"', "*", "NEAR(", "a AND", "\udcff", "天气", "x" * 10_000])
    def test_no_words_are_wrong(self, say, words):
        assert say("search", words, "--where", "name:*")[0] == 0

    @pytest.mark.parametrize("argv", [[], ["x", "--limit", "0"], ["x", "--limit", "many"], ["x", "--where", "tag:"]])
    def test_wrong_use(self, say, argv):
        code, out, err = say("search", *argv)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")

    def test_names_in_t_that_nobody_has_are_told(self, say):
        assert "-T: no tool is called 'wheather'. Did you mean 'weather'?" in say("search", "x", "-T", "wheather")[2]


def test_what_list_tells_is_told_here_too(say, board):
    problem = Problem("bad", "pegboard-bad", "broke")
    board.change(lambda catalogue: catalogue.evolve(problems=(problem,)))
    assert say("search", "weather") == (0, listing_plain([WEATHER]), "plugin bad: broke\n")
    assert say("search", "weather", "--json") == (0, listing_json([WEATHER], [problem]), "")


def test_a_terminal_gets_a_table(say, board, monkeypatch):
    monkeypatch.setattr(look, "stdout_screen", lambda: Screen(width=30, height=20))
    assert say("search", "weather")[1] == table(HEAD, listing_rows([WEATHER]), width=30, colour=False)


# The kept index -----------------------------------------------------------------------------------------------------


@pytest.fixture
def settled(site):
    """A plugin whose files haven't changed for long: what rests on them is kept."""
    for file in [site.root, *Path(site.root).rglob("*")]:
        os.utime(file, (OLD, OLD))
    return site


@pytest.fixture
def place(settled):
    place = environment()
    assert place is not None
    return place


@pytest.fixture
def warmly(capsys):
    """What the warm command answers alone."""

    def say(*argv: str) -> tuple[int | None, str, str]:
        code = answer(argv)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return say


WORDS = "count_words\tdemo\tCount the words of a text.\n"
NOTHING = (None, "", "")


class TestKept:
    def test_the_second_search_is_answered_warm_as_the_first_was_cold(self, say, warmly, place):
        assert warmly("search", "text") == NOTHING
        assert say("search", "text") == (0, WORDS, "")
        assert warmly("search", "text") == (0, WORDS, "")
        assert cached_names(place, "text", 5) == ["count_words"]

    def test_each_form_is_the_same_warm_and_cold(self, say, warmly, place):
        for argv in (["file", "text"], ["text", "file", "--limit=1"], ["--json", "file", "text"], ["w", "count_words"]):
            assert say("search", *argv)[0] == 0
            assert warmly("search", *argv) == say("search", *argv)

    @pytest.mark.parametrize(
        "argv",
        [
            (),
            ("--limit", "5"),
            ("text", "--limit", "0"),
            ("text", "--limit", "1000"),
            ("text", "--limit", "many"),
            ("text", "--limit", "²"),
            ("text", "--where", "read_only"),
            ("text", "--live"),
            ("zzzz",),
            ("wod",),
        ],
    )
    def test_what_the_warm_command_leaves_to_the_whole(self, say, warmly, place, argv):
        say("search", "text")
        assert warmly("search", *argv) == NOTHING

    def test_without_a_place_to_keep_anything(self, say, warmly, place, monkeypatch):
        say("search", "text")
        real = warm.environment
        places = iter([real(), None])
        monkeypatch.setattr(warm, "environment", lambda: next(places))
        assert warmly("search", "text") == NOTHING

    def test_it_is_private(self, say, place):
        say("search", "text")
        file = Path(index_file(place))
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert file.parent.parent == Path(place.path).parent.parent

    def test_one_on_which_others_have_rights_is_made_anew(self, say, warmly, place):
        say("search", "text")
        Path(index_file(place)).chmod(0o644)
        assert warmly("search", "text") == NOTHING
        assert say("search", "text")[1] == WORDS
        assert Path(index_file(place)).stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda data: b"",
            lambda data: b"no database" * 1000,
            lambda data: data[:4096],
            lambda data: data[: len(data) // 2],
            lambda data: data[:4096] + b"\xff" * (len(data) - 4096),
            lambda data: data[:100] + b"\xff" * 4000 + data[4100:],
        ],
    )
    def test_one_that_is_damaged_is_made_anew(self, say, warmly, place, spoil):
        say("search", "text")
        file = Path(index_file(place))
        file.write_bytes(spoil(file.read_bytes()))
        assert warmly("search", "text") == NOTHING
        assert say("search", "text") == (0, WORDS, "")
        assert warmly("search", "text") == (0, WORDS, "")

    def test_another_versions_is_made_anew(self, say, warmly, place, monkeypatch):
        with monkeypatch.context() as patched:
            patched.setattr("pegboard.toolsets.search_table.FORMAT", 99)
            patched.setattr(
                "pegboard.toolsets.search_table._CREATION",
                index_module.table._CREATION.replace("user_version = 1", "user_version = 99"),
            )
            say("search", "text")
        assert warmly("search", "text") == NOTHING
        assert say("search", "text")[1] == WORDS
        assert warmly("search", "text")[1] == WORDS

    def test_it_is_brought_up_to_date_tool_by_tool(self, say, warmly, settled, place, monkeypatch):
        say("search", "text")
        manifest = settled.root / "demo_tools" / "pegboard-manifest.json"
        data = json.loads(manifest.read_text())
        tools = data["plugins"]["demo"]["tools"]
        data["plugins"]["demo"]["tools"] = [tools[0], {**tools[1], "name": "wipe_out", "description": "New text."}]
        manifest.write_text(json.dumps(data))
        os.utime(manifest, (OLD + 5, OLD + 5))
        assert warmly("search", "text") == NOTHING
        indexed = []
        row_of = index_module._row_of
        monkeypatch.setattr(index_module, "_row_of", lambda spec: indexed.append(spec.name) or row_of(spec))
        assert say("search", "new", "text")[1].splitlines()[0].startswith("wipe_out\t")
        assert indexed == ["wipe_out"]
        assert "wipe_out" in warmly("search", "out")[1]

    def test_a_new_listing_of_the_same_tools_needs_no_new_index(self, say, warmly, place, monkeypatch):
        say("search", "text")
        Path(place.path).unlink()
        say("list")
        assert warmly("search", "text") == NOTHING
        monkeypatch.setattr(index_module, "_row_of", None)
        assert say("search", "text") == (0, WORDS, "")
        assert warmly("search", "text") == (0, WORDS, "")

    def test_where_the_cache_cannot_be_written_it_is_found_all_the_same(self, say, warmly, place, home):
        (home / "cache" / "pegboard").write_text("in the way")
        assert say("search", "text") == (0, WORDS, "")
        assert warmly("search", "text") == NOTHING

    def test_an_index_that_is_too_large_is_not_kept(self, say, place, monkeypatch):
        monkeypatch.setattr(warm, "MOST_BYTES", 10)
        assert say("search", "text") == (0, WORDS, "")
        assert not Path(index_file(place)).exists()

    def test_a_name_that_the_listing_lacks_is_left_to_the_whole_command(self, say, warmly, place, monkeypatch):
        say("search", "text")
        monkeypatch.setattr(warm, "cached_names", lambda *_: ["gone"])
        assert warmly("search", "text") == NOTHING

    def test_a_place_with_signs_of_addresses_in_it(self, say, warmly, settled, home, monkeypatch):
        odd = home / "a?b#c%41"
        odd.mkdir()
        monkeypatch.setenv("XDG_CACHE_HOME", str(odd))
        say("search", "text")
        assert warmly("search", "text") == (0, WORDS, "")


# As a process -------------------------------------------------------------------------------------------------------

COMMAND = [sys.executable, "-m", "pegboard", "search"]
PROBE = """
import sys
before = set(sys.modules)
from pegboard.__main__ import main
code = main(sys.argv[1:])
print("LOADED", code, *sorted(set(sys.modules) - before))
"""


@pytest.fixture
def environ(settled) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(settled.root)}


def loaded(environ, *argv) -> set[str]:
    """The modules that running it has loaded."""
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, "search", *argv], env=environ, capture_output=True, text=True, check=True
    )
    return set(ran.stdout.splitlines()[-1].split()[2:])


class TestProcess:
    def test_a_cold_search_imports_no_plugin_and_a_warm_one_little_beyond_sqlite(self, environ):
        cold = loaded(environ, "text")
        assert "demo_tools" not in cold
        warm = loaded(environ, "text")
        assert warm.isdisjoint({"demo_tools", "attr", "click", "json", "re", "typing", "pathlib", "hashlib"})
        assert "sqlite3" in warm

    def test_many_at_once_all_find_it_and_leave_a_whole_index(self, environ):
        for _ in range(2):
            running = [
                subprocess.Popen([*COMMAND, "text"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _ in range(4)
            ]
            said = [(process.communicate(timeout=120), process.returncode) for process in running]
            assert said == [((WORDS.encode(), b""), 0)] * 4
        told = [sys.executable, "-X", "importtime", *COMMAND[1:], "text"]
        assert b"| click" not in subprocess.run(told, env=environ, capture_output=True, check=True).stderr

    def test_a_terminal_gets_a_table_cold_and_warm(self, environ):
        for _ in range(2):
            ours, its = pty.openpty()
            ran = subprocess.run(
                [*COMMAND, "text"], stdin=its, stdout=its, stderr=its, check=True,
                env={**environ, "COLUMNS": "40", "LINES": "20", "NO_COLOR": "1"},
            )  # fmt: skip
            os.close(its)
            shown = os.read(ours, 65_536).decode().replace("\r\n", "\n")
            os.close(ours)
            assert ran.returncode == 0
            assert shown == "TOOL         PLUGIN  SUMMARY\ncount_words  demo    Count the words of…\n"
