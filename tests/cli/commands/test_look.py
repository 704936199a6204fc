"""`registry list`, `show`, `schema` and `explain`, run in this process on a board that the test makes."""

from __future__ import annotations

import json
import time

import pytest

from pegboard import Tool
from pegboard.catalogue import PluginRecord, Problem
from pegboard.cli import warm
from pegboard.cli.commands.look import SnapshotWriter
from pegboard.cli.tool_texts import listing_json, listing_plain, schema_text, show_json, show_text
from pegboard.errors import PegboardError
from pegboard.plugins.discovery import discover
from pegboard.tools.spec import Origin, ToolAnnotations, ToolSpec

FILES = Origin("files", "pegboard-files", "0.1.0")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [
    Tool(
        ToolSpec(
            "read_file",
            "Read a file.\n\nAll of it.",
            SCHEMA,
            tags=["files"],
            annotations=ToolAnnotations(read_only_hint=True),
        ),
        origin=FILES,
    ),
    Tool(
        ToolSpec("remove", "Remove a file.", SCHEMA, annotations=ToolAnnotations(destructive_hint=True)), origin=FILES
    ),
    Tool(ToolSpec("weather", "Tell the weather."), origin=Origin("weather", "pegboard-weather", "2")),
]


class Toolset:
    """Tools that only asking shows."""

    name = "live"

    def __init__(self) -> None:
        self.closed = 0

    async def tools(self, context):
        return [Tool(ToolSpec("live_tool", f"For {context.user}."))]

    async def close(self):
        self.closed += 1


def hang(registry, *problems):
    records = [PluginRecord(name, f"pegboard-{name}", "1") for name in ("files", "weather")]

    def change(catalogue):
        hung, _ = catalogue.with_tools(TOOLS, "error")
        return hung.evolve(plugins={record.name: record for record in records}, problems=problems)

    registry.change(change)
    return registry


@pytest.fixture
def board(registry):
    return hang(registry)


@pytest.mark.usefixtures("board")
class TestList:
    @pytest.mark.parametrize("argv", [(), ("list",)])
    def test_a_pipe_gets_plain_lines(self, say, argv):
        assert say(*argv) == (0, listing_plain(TOOLS), "")

    def test_json(self, say):
        assert say("list", "--json") == (0, listing_json(TOOLS), "")

    def test_names(self, say):
        assert say("list", "--names") == (0, "read_file\nremove\nweather\n", "")

    def test_a_table_into_a_pipe_is_uncut_and_plain(self, say):
        code, out, _ = say("list", "--table")
        assert code == 0
        assert out.splitlines()[:2] == ["TOOL       PLUGIN   SUMMARY", "read_file  files    Read a file."]

    def test_with_schemas(self, say):
        _, out, _ = say("list", "weather", "read_file", "--input-schema")
        first, second = out.split("\n\n")
        assert first.startswith("read_file\n{")
        assert json.loads(first.removeprefix("read_file\n")) == SCHEMA
        assert second.startswith("weather\n{")

    @pytest.mark.parametrize(
        ("argv", "names"),
        [
            (["weather", "remove"], ["remove", "weather"]),
            (["re*"], ["read_file", "remove"]),
            (["nothing*"], []),
            (["--where", "read_only"], ["read_file"]),
            (["--where", "not read_only", "re*"], ["remove"]),
            (["--plugin", "files"], ["read_file", "remove"]),
            (["--plugin", "f*", "weather"], []),
            (["-T", "weather,rea*"], ["read_file", "weather"]),
            (["-T", "plugin:files", "-T", "weather", "--where", "not destructive"], ["read_file", "weather"]),
            (["-T", ""], ["read_file", "remove", "weather"]),
        ],
    )
    def test_some_of_them(self, say, argv, names):
        code, out, _ = say("list", "--names", *argv)
        assert (code, out.split()) == (0, names)

    def test_for_a_context(self, say):
        where = "user:ann and agent:a and model:m and provider:p and state.tier:gold"
        context = ["--user", "ann", "--agent", "a", "--model", "m", "--provider", "p", "--state", "tier=gold"]
        assert say("list", "--where", where)[1] == ""
        assert say("list", "--names", "--where", where, *context)[1].split() == ["read_file", "remove", "weather"]

    @pytest.mark.parametrize(
        ("argv", "told"),
        [
            (["wether"], "no tool is called 'wether'. Did you mean 'weather'?"),
            (["--plugin", "file"], "no plugin is called 'file'. Did you mean 'files'?"),
            (["--where", "reed_only"], "Did you mean 'read_only'?"),
            (["-T", "plugn:files"], "Did you mean 'plugin'?"),
            (["--state", "tier"], "'tier' is no argument"),
            (["--colour"], "No such option '--colour'"),
        ],
    )
    def test_wrong_use_is_told_in_clear_lines(self, say, argv, told):
        code, out, err = say("list", *argv)
        assert (code, out) == (2, "")
        assert told in err
        assert "Traceback" not in err

    def test_a_name_that_a_predicate_leaves_out_is_no_error(self, say):
        code, out, err = say("list", "weather", "--where", "read_only")
        assert (code, out) == (0, "")
        assert "no tool fits 'weather' with --where 'read_only'" in err

    @pytest.mark.parametrize(
        ("argv", "told"),
        [
            (["-T", "wether"], "-T: no tool is called 'wether'. Did you mean 'weather'?\nno tool fits -T 'wether'; "),
            (["zz*"], "no tool fits 'zz*'; "),
            (["--where", "tag:none", "--plugin", "files"], "no tool fits --plugin 'files' with --where 'tag:none'; "),
        ],
    )
    @pytest.mark.parametrize("form", ["--names", "--table", None])
    def test_where_nothing_fits_standard_error_says_what(self, say, argv, told, form):
        code, out, err = say("list", *argv, *([form] if form else []))
        assert (code, out.startswith("TOOL")) == (0, form == "--table")
        assert err.startswith(told)
        assert err.endswith("'registry explain NAME' shows why one is left out\n")


def test_a_wrong_predicate_of_the_configuration_names_its_file(board, say, home):
    (home / "config" / "pegboard").mkdir()
    (home / "config" / "pegboard" / "pegboard.toml").write_text('where = "not destructive"')
    file = home / "here" / "pegboard.toml"
    file.write_text('where = "reed_only"')
    for argv in (["list"], ["list", "--live"], ["call", "remove"]):
        code, out, err = say(*argv)
        assert (code, out) == (2, "")
        assert err.startswith(f"error: {file}: where: ")
        assert "Did you mean 'read_only'" in err


def test_an_empty_board_says_how_to_fill_it(registry, say):
    code, out, err = say("list")
    assert (code, out) == (0, "")
    assert "registry install" in err
    assert say("list", "--json")[1] == '{"tools":[],"problems":[]}\n'


def test_problems_are_told(registry, say):
    hang(registry, Problem("bad", "pegboard-bad", "broke\x1b[31m"))
    _, out, err = say("list")
    assert out == listing_plain(TOOLS)
    assert err == "plugin bad: broke\\u{1b}[31m\n"
    assert json.loads(say("list", "--json")[1])["problems"] == [
        {"plugin": "bad", "distribution": "pegboard-bad", "cause": "broke\x1b[31m"}
    ]


def test_the_configurations_predicate_holds(board, say, home):
    (home / "config" / "pegboard").mkdir()
    (home / "config" / "pegboard" / "pegboard.toml").write_text('where = "not destructive"')
    assert say("list", "--names")[1].split() == ["read_file", "weather"]
    code, out, err = say("list", "remove")
    assert (code, out) == (0, "")
    assert err.startswith("no tool fits 'remove'")
    assert say("show", "remove")[0] == 0


def test_a_file_given_counts_before_and_behind_the_command(board, say, home):
    (home / "own.toml").write_text('where = "read_only"')
    assert say("--config", "../own.toml", "list", "--names")[1] == "read_file\n"
    assert say("list", "--names", "--config", "../own.toml")[1] == "read_file\n"


def test_a_configuration_that_is_wrong(board, say, home):
    (home / "own.toml").write_text("blok = []")
    code, _, err = say("list", "--config", "../own.toml")
    assert code == 2
    assert "blok: unknown key. Did you mean 'block'?" in err


def test_what_a_project_wants_and_does_not_get_is_told(board, say, home):
    (home / "here" / "pegboard.toml").write_text('[plugins.files]\nroot = "/"')
    _, _, err = say("list")
    assert "plugins.files is ignored until you trust the file (registry config trust)" in err


@pytest.mark.usefixtures("board")
class TestOneTool:
    def test_show(self, say):
        assert say("show", "read_file") == (0, show_text(TOOLS[0]), "")
        assert say("show", "read_file", "--json") == (0, show_json(TOOLS[0]), "")

    def test_schema(self, say):
        assert say("schema", "read_file") == (0, schema_text(TOOLS[0]), "")

    @pytest.mark.parametrize("command", ["show", "schema", "explain"])
    def test_unknown(self, say, command):
        code, out, err = say(command, "read_fil")
        assert (code, out) == (2, "")
        assert err == "error: no tool is called 'read_fil'. Did you mean 'read_file'?\n"

    def test_a_limit_hides_it(self, say):
        code, _, err = say("show", "read_file", "-T", "w*")
        assert (code, err) == (2, "error: no tool is called 'read_file'.\n")

    def test_explain(self, say):
        code, out, _ = say("explain", "remove", "--where", "not destructive or user:ann")
        assert code == 0
        assert out.splitlines()[0] == "remove: not offered"
        assert "where" in out.splitlines()[-1]
        _, out, _ = say("explain", "remove", "--where", "not destructive or user:ann", "--user", "ann")
        assert out.splitlines()[0] == "remove: offered"


class TestToolsets:
    @pytest.fixture
    def toolset(self, board):
        toolset = Toolset()
        board.register(toolset)
        return toolset

    def test_a_plain_list_asks_none(self, say, toolset):
        assert "live_tool" not in say("list")[1]
        assert toolset.closed == 0

    def test_live_asks_and_closes_them(self, say, toolset):
        assert "live_tool" in say("list", "--live", "--names")[1].split()
        assert toolset.closed == 1

    @pytest.mark.parametrize("command", ["list", "show", "schema", "explain"])
    def test_a_name_that_only_they_can_have_is_asked_for(self, say, toolset, command):
        code, out, _ = say(command, "live_tool")
        assert code == 0
        assert out
        assert toolset.closed == 1

    def test_the_context_reaches_them(self, say, toolset):
        assert "For ann." in say("list", "--live", "--user", "ann")[1]

    def test_one_that_fails_is_told(self, say, board):
        class Broken:
            name = "broken"

            async def tools(self, context):
                raise PegboardError("no route")

        board.register(Broken())
        code, out, err = say("list", "--live")
        assert (code, out) == (0, listing_plain(TOOLS))
        assert "broken" in err
        assert "no route" in err
        assert "no route" in json.loads(say("list", "--live", "--json")[1])["problems"][0]["cause"]


class TestPredicatesOfPlugins:
    @pytest.fixture
    def sleeping(self, board):
        """A plugin that brings a predicate once it is imported."""
        from pegboard.catalogue import LazyPlugin

        record = PluginRecord("files", hooks=("pegboard_register_predicates",))
        board.change(lambda catalogue: catalogue.evolve(plugins={"files": record}))
        board.lazy_plugins.add(
            "files",
            LazyPlugin(
                frozenset(["register_predicates"]),
                lambda: board.add("predicates", "short", lambda tool, _context: len(tool.name) < 8),
            ),
        )

    @pytest.mark.usefixtures("sleeping")
    def test_a_word_that_a_plugin_brings_imports_it(self, say):
        assert say("list", "--names", "--where", "short")[1].split() == ["remove", "weather"]

    @pytest.mark.usefixtures("sleeping")
    def test_a_word_that_nobody_brings(self, say):
        code, _, err = say("list", "--where", "shart")
        assert code == 2
        assert "Did you mean 'short'" in err


# What a list leaves behind for the warm command ----------------------------------------------------------------------

BROKEN = "raise RuntimeError('no \\x1b[31m luck')"


class TestWhatAListLeavesBehind:
    @pytest.fixture
    def settled(self, monkeypatch):
        """Time enough since the files were written."""
        monkeypatch.setattr("pegboard.plugins.cache._SETTLED_NS", 0)

    @pytest.mark.usefixtures("settled")
    def test_the_next_one_is_warm_and_the_same(self, say, site, capsys):
        answers = {}
        for argv in (["list"], ["list", "--json"], ["list", "--names"], ["show", "wipe"], ["schema", "wipe"]):
            answers[tuple(argv)] = say(*argv)
        for argv, (code, out, err) in answers.items():
            assert warm.answer(list(argv)) == code
            printed = capsys.readouterr()
            assert (printed.out, printed.err) == (out, err)

    @pytest.mark.usefixtures("settled")
    def test_the_help_reads_commands_from_it(self, say, site, monkeypatch):
        say("list")
        monkeypatch.setattr("pegboard.cli.session.open_session", None)
        assert "  greet  From plugin demo." in say("--help")[1]

    @pytest.mark.usefixtures("settled")
    @pytest.mark.parametrize(
        "argv",
        [
            ["list", "--live"],
            ["list", "-T", "wipe"],
            ["list", "--where", "read_only"],
            ["list", "wipe"],
            ["list", "--user", "ann"],
        ],
    )
    def test_only_a_plain_list_leaves_it(self, say, site, argv):
        assert say(*argv)[0] == 0
        assert warm.answer(["list"]) is None

    @pytest.mark.usefixtures("settled")
    def test_while_a_plugin_is_quarantined_it_holds_for_an_hour(self, say, site, capsys, monkeypatch):
        site.add("broken", BROKEN)
        _, out, err = say("list")
        assert "plugin broken: RuntimeError" in err
        assert warm.answer(["list"]) == 0
        assert capsys.readouterr() == (out, err)
        now = time.time()
        for later in (3700, -3700):
            monkeypatch.setattr("pegboard.plugins.snapshot.time.time", lambda later=later: now + later)
            assert warm.answer(["list"]) is None

    @pytest.mark.usefixtures("settled")
    def test_the_environment_is_searched_once(self, say, site, monkeypatch):
        searched = []

        def counted(*arguments):
            searched.append(arguments)
            return discover(*arguments)

        for module in ("cli.commands.look", "plugins.discovery"):
            monkeypatch.setattr(f"pegboard.{module}.discover", counted)
        assert "wipe" in say("list")[1]
        assert len(searched) == 1

    @pytest.mark.usefixtures("settled")
    def test_nothing_is_kept_of_a_configuration_that_changed_meanwhile(self, say, site, home, monkeypatch):
        start = SnapshotWriter.start

        def changing():
            keeping = start()
            (home / "here" / "pegboard.toml").write_text('block = ["demo"]')
            return keeping

        monkeypatch.setattr(SnapshotWriter, "start", changing)
        say("list")
        assert warm.answer(["list"]) is None

    def test_where_nothing_can_be_kept_a_list_still_lists(self, say, site, monkeypatch):
        monkeypatch.setattr("pegboard.cli.commands.look.environment", lambda: None)
        assert "wipe" in say("list")[1]
