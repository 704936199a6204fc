"""`registry list`, `show`, `schema` and `explain`, run in this process with a registry that the test makes."""

from __future__ import annotations

import json
import sys
import time

import pytest

from installed import write
from pegboard import Origin, PluginRecord, Problem, Tool, ToolAnnotations, ToolSpec
from pegboard.cli import Screen, session, warm
from pegboard.cli.commands import look
from pegboard.cli.table import tool_table
from pegboard.cli.tool_texts import listing_json, listing_plain, listing_rows, schema_text, show_json, show_text
from pegboard.errors import PegboardError
from pegboard.testing import discover
from pegboard_clients.listing import MCP

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


def fill(registry, *problems):
    records = [PluginRecord(name, f"pegboard-{name}", "1") for name in ("files", "weather")]

    def change(catalogue):
        filled, _ = catalogue.with_tools(TOOLS, "error")
        return filled.evolve(plugins={record.name: record for record in records}, problems=problems)

    registry.contributions.change(change)
    return registry


@pytest.fixture
def filled_registry(registry):
    return fill(registry)


@pytest.mark.usefixtures("filled_registry")
class TestList:
    @pytest.mark.parametrize(
        ("argv", "out"),
        [
            ((), listing_plain(TOOLS)),
            (("list",), listing_plain(TOOLS)),
            (("list", "--json"), listing_json(TOOLS)),
            (("list", "--names"), "read_file\nremove\nweather\n"),
            (("show", "read_file"), show_text(TOOLS[0])),
            (("show", "read_file", "--json"), show_json(TOOLS[0])),
            (("schema", "read_file"), schema_text(TOOLS[0])),
            (("search", "read", "file"), listing_plain(TOOLS[:2])),
            (("search", "remove a file"), listing_plain(TOOLS[1::-1])),
            (("search", "weath", "--json"), listing_json([TOOLS[2]])),
            (("search", "file", "read", "--limit", "1"), listing_plain(TOOLS[:1])),
        ],
    )
    def test_output_into_a_pipe(self, run, argv, out):
        assert run(*argv) == (0, out, "")

    def test_a_table_into_a_pipe_is_neither_cut_nor_coloured(self, run):
        code, out, _ = run("list", "--table")
        assert code == 0
        assert out.splitlines()[:2] == ["TOOL       PLUGIN   SUMMARY", "read_file  files    Read a file."]

    def test_with_schemas(self, run):
        _, out, _ = run("list", "weather", "read_file", "--input-schema")
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
    def test_tools_can_be_filtered(self, run, argv, names):
        code, out, _ = run("list", "--names", *argv)
        assert (code, out.split()) == (0, names)

    def test_for_a_context(self, run):
        where = "user:ann and agent:a and model:m and provider:p and state.tier:gold"
        context = ["--user", "ann", "--agent", "a", "--model", "m", "--provider", "p", "--state", "tier=gold"]
        assert run("list", "--where", where)[1] == ""
        assert run("list", "--names", "--where", where, *context)[1].split() == ["read_file", "remove", "weather"]

    def test_request_processors_apply_if_a_model_is_given(self, run, filled_registry):
        def leave_out(request, context):
            return request.evolve(tools=request.tools.without("taste", {"weather": f"{context.model} has its own"}))

        filled_registry.pipeline = filled_registry.pipeline.append("taste", leave_out)
        assert run("list", "--names", "--model", "m")[1].split() == ["read_file", "remove"]
        assert run("list", "--names")[1].split() == ["read_file", "remove", "weather"]
        assert "- taste: m has its own" in run("explain", "weather", "--model", "m")[1]

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            (["wether"], "no tool is called 'wether'. Did you mean 'weather'?"),
            (["--plugin", "file"], "no plugin is called 'file'. Did you mean 'files'?"),
            (["--where", "reed_only"], "Did you mean 'read_only'?"),
            (["-T", "plugn:files"], "Did you mean 'plugin'?"),
            (["--state", "tier"], "'tier' is not an argument"),
            (["--colour"], "No such option '--colour'"),
        ],
    )
    def test_usage_errors(self, run, argv, message):
        code, out, err = run("list", *argv)
        assert (code, out) == (2, "")
        assert message in err
        assert "Traceback" not in err

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            (["-T", "wether"], "-T: no tool is called 'wether'. Did you mean 'weather'?\n"),
            (["-T", "files"], "-T: no tool is called 'files'. Did you mean 'plugin:files'?\n"),
            (["zz*"], ""),
            (["--where", "tag:none", "--plugin", "files", "--names"], ""),
            (["weather", "--where", "read_only"], ""),  # a name that a predicate leaves out is no error
        ],
    )
    def test_no_match_is_reported_on_standard_error(self, run, argv, message):
        code, out, err = run("list", *argv)
        assert (code, out) == (0, "")
        assert err == f"{message}no tool matches; 'registry explain NAME' shows why a tool is excluded\n"


def test_a_wrong_predicate_of_the_configuration_names_its_file(filled_registry, run, home):
    write(home / "config/pegboard/pegboard.toml", 'where = "not destructive"')
    file = home / "here" / "pegboard.toml"
    file.write_text('where = "reed_only"')
    for argv in (["list"], ["list", "--live"], ["call", "remove"]):
        code, out, err = run(*argv)
        assert (code, out) == (2, "")
        assert f"{file}: where: " in err
        assert "Did you mean 'read_only'" in err


def test_an_empty_list_says_how_to_add_tools(registry, run):
    code, out, err = run("list")
    assert (code, out) == (0, "")
    assert "registry install" in err
    assert run("list", "--json")[1] == '{"tools":[],"problems":[]}\n'


@pytest.mark.parametrize(("argv", "tools"), [(["list"], TOOLS), (["search", "weather"], [TOOLS[2]])])
def test_list_and_search_report_problems_of_plugins(registry, run, argv, tools):
    problem = Problem("broke\x1b[31m", plugin="bad", distribution="pegboard-bad")
    fill(registry, problem)
    assert run(*argv) == (0, listing_plain(tools), "plugin bad: broke\\u{1b}[31m\n")
    assert run(*argv, "--json") == (0, listing_json(tools, [problem]), "")


def test_the_predicate_of_the_configuration_applies(filled_registry, run, home):
    write(home / "config/pegboard/pegboard.toml", 'where = "not destructive"')
    assert run("list", "--names")[1].split() == ["read_file", "weather"]
    code, out, err = run("list", "remove")
    assert (code, out) == (0, "")
    assert err.startswith("no tool matches")
    assert run("show", "remove")[0] == 0


def test_config_is_accepted_before_and_after_the_command(filled_registry, run, home):
    (home / "own.toml").write_text('where = "read_only"')
    assert run("--config", "../own.toml", "list", "--names")[1] == "read_file\n"
    assert run("list", "--names", "--config", "../own.toml")[1] == "read_file\n"
    (home / "own.toml").write_text("blok = []")
    code, _, err = run("list", "--config", "../own.toml")
    assert (code, "blok: unknown key. Did you mean 'block'" in err) == (2, True)


@pytest.mark.parametrize("words", [("list",), ("call", "list_directory")])
def test_ignored_settings_of_a_project_are_reported(filled_registry, run, home, words):
    (home / "here" / "pegboard.toml").write_text('[plugins.files]\nroot = "/"')
    _, _, err = run(*words)
    assert "plugins.files is ignored until you trust the file (registry config trust)" in err


@pytest.mark.usefixtures("filled_registry")
class TestOneTool:
    @pytest.mark.parametrize("command", ["show", "schema", "explain"])
    def test_unknown(self, run, command):
        code, out, err = run(command, "read_fil")
        assert (code, out) == (2, "")
        assert (
            err == "error: no tool is called 'read_fil'. Did you mean 'read_file'?\n'registry list' lists the tools.\n"
        )

    def test_a_limit_hides_it(self, run):
        code, _, err = run("show", "read_file", "-T", "w*")
        assert (code, err) == (2, "error: no tool is called 'read_file'.\n'registry list' lists the tools.\n")

    def test_explain(self, run):
        code, out, _ = run("explain", "remove", "--where", "not destructive or user:ann")
        assert code == 0
        assert out.splitlines()[0] == "remove: not offered"
        assert "where" in out.splitlines()[-1]
        _, out, _ = run("explain", "remove", "--where", "not destructive or user:ann", "--user", "ann")
        assert out.splitlines()[0] == "remove: offered"


class TestToolsets:
    @pytest.fixture
    def toolset(self, filled_registry):
        filled_registry.add("exporters", "mine", MCP)
        toolset = Toolset()
        filled_registry.register(toolset)
        return toolset

    @pytest.mark.parametrize("argv", [["list"], ["search", "weather"], ["export", "--to", "mine"]])
    def test_toolsets_are_not_queried_by_default(self, run, toolset, argv):
        _, out, err = run(*argv)
        assert "live_tool" not in out
        assert "toolsets of 1 plugin not queried (live): --live queries them\n" in err
        assert toolset.closed == 0

    def test_live_queries_and_closes_them(self, run, toolset):
        assert run("list", "--live", "--names") == (0, "live_tool\nread_file\nremove\nweather\n", "")
        assert toolset.closed == 1

    @pytest.mark.parametrize("command", ["list", "show", "schema", "explain"])
    def test_they_are_queried_for_an_unknown_name(self, run, toolset, command):
        code, out, _ = run(command, "live_tool")
        assert code == 0
        assert out
        assert toolset.closed == 1

    def test_the_context_reaches_them(self, run, toolset):
        assert "For ann." in run("list", "--live", "--user", "ann")[1]

    def test_a_failure_is_reported(self, run, filled_registry):
        class Broken:
            name = "broken"

            async def tools(self, context):
                raise PegboardError("no route")

        filled_registry.register(Broken())
        code, out, err = run("list", "--live")
        assert (code, out) == (0, listing_plain(TOOLS))
        assert "broken" in err
        assert "no route" in err
        assert "no route" in json.loads(run("list", "--live", "--json")[1])["problems"][0]["cause"]


class TestPredicatesOfPlugins:
    @pytest.fixture
    def lazy_plugin(self, filled_registry):
        """A plugin that registers a predicate when it is imported."""

        def load():
            filled_registry.add("predicates", "short", lambda tool, _context: len(tool.name) < 8)
            filled_registry.contributions.change(lambda catalogue: catalogue.evolve(plugins={}))

        record = PluginRecord("files", hooks=("pegboard_register_predicates",), load=load)
        filled_registry.contributions.change(lambda catalogue: catalogue.evolve(plugins={"files": record}))

    @pytest.mark.usefixtures("lazy_plugin")
    @pytest.mark.parametrize(
        ("where", "code", "out", "message"),
        [("short", 0, "remove\nweather\n", ""), ("shart", 2, "", "Did you mean 'short'")],
    )
    def test_an_unknown_predicate_imports_plugins_that_bring_predicates(self, run, *, where, code, out, message):
        ended, shown, err = run("list", "--names", "--where", where)
        assert (ended, shown, message in err) == (code, out, True)


# What a list leaves behind for the warm command ----------------------------------------------------------------------

BROKEN = "raise RuntimeError('no \\x1b[31m luck')"


class TestSnapshot:
    @pytest.fixture(autouse=True)
    def _settled(self, monkeypatch):
        """Files count as unchanged for long enough to be cached."""
        monkeypatch.setattr("pegboard.plugins.cache._SETTLED_NS", 0)

    def test_the_next_list_is_warm_with_the_same_output(self, run, site, capsys):
        answers = {}
        for argv in (["list"], ["list", "--json"], ["list", "--names"], ["show", "wipe"], ["schema", "wipe"]):
            answers[tuple(argv)] = run(*argv)
        for argv, (code, out, err) in answers.items():
            assert warm.answer(list(argv)) == code
            printed = capsys.readouterr()
            assert (printed.out, printed.err) == (out, err)

    def test_the_help_reads_commands_from_the_snapshot(self, run, site, monkeypatch):
        run("list")
        monkeypatch.setattr("pegboard.cli.session.open_session", None)
        assert "  greet  Greet somebody.\n" in run("--help")[1]

    def test_only_a_plain_list_writes_a_snapshot(self, run, site):
        for more in (["--live"], ["-T", "wipe"], ["--where", "read_only"], ["wipe"], ["--user", "ann"]):
            assert run("list", *more)[0] == 0
            assert warm.answer(["list"]) is None

    def test_a_snapshot_with_a_quarantined_plugin_is_valid_for_an_hour(self, run, site, capsys, monkeypatch):
        site.add("broken", BROKEN)
        _, out, err = run("list")
        assert "plugin broken: RuntimeError" in err
        assert warm.answer(["list"]) == 0
        assert capsys.readouterr() == (out, err)
        now = time.time()
        for later in (3700, -3700):
            monkeypatch.setattr("pegboard.plugins.snapshot.time.time", lambda later=later: now + later)
            assert warm.answer(["list"]) is None

    @pytest.mark.parametrize("is_there", [False, True])
    def test_no_snapshot_is_written_while_a_secret_is_missing(self, run, site, home, monkeypatch, is_there):
        write(home / "config/pegboard/pegboard.toml", '[plugins.demo]\nroot = { env = "LATE_ROOT" }')
        monkeypatch.setenv("LATE_ROOT" if is_there else "OTHER", "/tmp/x")
        assert ("the environment has no LATE_ROOT" in run("list")[2]) is not is_there
        assert (warm.answer(["list"]) is not None) is is_there

    def test_the_environment_is_searched_once(self, run, site, monkeypatch):
        searched = []

        def counted(*arguments):
            searched.append(arguments)
            return discover(*arguments)

        monkeypatch.setattr("pegboard.plugins.discovery.discover", counted)
        assert "wipe" in run("list")[1]
        assert len(searched) == 1

    def test_no_snapshot_is_written_if_the_configuration_changed_during_the_list(self, run, site, home, monkeypatch):
        def changing(options, read=session.merge_configuration):
            config = read(options)
            (home / "here" / "pegboard.toml").write_text('block = ["demo"]')
            return config

        monkeypatch.setattr(session, "merge_configuration", changing)
        run("list")
        assert warm.answer(["list"]) is None

    def test_a_list_works_without_snapshots(self, run, site, monkeypatch):
        monkeypatch.setattr("pegboard.cli.commands.look.snapshot_place", lambda: None)
        assert "wipe" in run("list")[1]


# Search --------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("filled_registry")
class TestSearch:
    @pytest.mark.parametrize("options", [("--where", "not read_only"), ("-T", "remove,weather"), ("--user", "ann")])
    def test_only_among_tools_that_are_offered(self, run, options):
        code, out, err = run("search", "remove", "file", *options)
        assert (code, out.splitlines()[0], err) == (0, "remove\tfiles\tRemove a file.", "")
        assert len(out.splitlines()) == (2 if options[0] == "--user" else 1)

    def test_tools_of_toolsets_are_searched_with_live(self, run, filled_registry):
        filled_registry.register(Toolset())
        assert "live_tool" not in run("search", "tool")[1]
        assert run("search", "live", "--live", "--user", "ann") == (0, "live_tool\t\tFor ann.\n", "")

    @pytest.mark.parametrize(("word", "near"), [("wether", "Did you mean 'weather'?"), ("raed_fiel", "'read_file'")])
    def test_near_names_are_suggested_if_nothing_matches(self, run, word, near):
        code, out, err = run("search", word)
        assert (code, out) == (0, "")
        assert err.startswith(f"no tool matches {word!r}.")
        assert near in err
        assert run("search", "zzzz", "--json") == (0, listing_json([]), "no tool matches 'zzzz'.\n")

    @pytest.mark.parametrize("words", ['"', "*", "NEAR(", "a AND", "\udcff", "天气", "x" * 10_000])
    def test_words_have_no_syntax(self, run, words):
        assert run("search", words, "--where", "name:*")[0] == 0

    @pytest.mark.parametrize("argv", [[], ["x", "--limit", "0"], ["x", "--limit", "many"], ["x", "--where", "tag:"]])
    def test_wrong_use(self, run, argv):
        code, out, err = run("search", *argv)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")

    def test_unknown_names_in_t_are_reported(self, run):
        assert "-T: no tool is called 'wheather'. Did you mean 'weather'?" in run("search", "x", "-T", "wheather")[2]


def test_a_terminal_gets_a_table(run, filled_registry, monkeypatch):
    monkeypatch.setattr(look, "stdout_screen", lambda: Screen(width=30))
    assert run("search", "weather")[1] == tool_table(listing_rows([TOOLS[2]]), width=30, colour=False)


# `registry export`, run in this process ------------------------------------------------------------------------------

OF_READ = {"type": "object", "properties": {"path": {"type": "string", "minLength": 1}}, "required": ["path"]}
EXPORTED = [
    Tool(
        ToolSpec("read", "Reads.", OF_READ, annotations=ToolAnnotations(read_only_hint=True)),
        origin=Origin("files", "pegboard-files", "1"),
    ),
    Tool(ToolSpec("search", kind="provider", provider_id="google.google_search")),
]


@pytest.fixture
def exported(registry, monkeypatch):
    monkeypatch.delenv("PEGBOARD_BLOCK")  # exporters are found in the installed packages
    registry.contributions.change(lambda catalogue: catalogue.with_tools(EXPORTED, "error")[0])
    return registry


@pytest.fixture
def on_terminal(monkeypatch):
    monkeypatch.setattr(look, "stdout_screen", lambda: Screen(width=200))


@pytest.mark.usefixtures("exported")
class TestExport:
    def test_a_pipe_gets_one_entry_per_line(self, run):
        code, out, err = run("export", "--to", "gemini")
        assert (code, err) == (0, "")
        functions, native = json.loads(out)["tools"]
        assert [each["name"] for each in functions["functionDeclarations"]] == ["read"]
        assert native == {"googleSearch": {}}
        assert len(out.splitlines()) == 4

    @pytest.mark.usefixtures("on_terminal")
    def test_a_terminal_gets_indented_json(self, run):
        laid_out, as_pipe = (run("export", "--to", "gemini", *more)[1] for more in ((), ("--json",)))
        assert json.loads(laid_out) == json.loads(as_pipe)
        assert laid_out.splitlines()[1:3] == ['  "tools": [', "    {"]
        assert len(as_pipe.splitlines()) == 4

    def test_tools_that_are_refused_are_named_on_standard_error(self, run):
        code, out, err = run("export", "--to", "mcp")
        assert code == 0
        assert [each["name"] for each in json.loads(out)["tools"]] == ["read"]
        assert err == "left out: search; 'registry export --to mcp --check' shows why\n"

    def test_of_many_that_are_refused_the_first_are_named(self, run, exported):
        more = [Tool(ToolSpec(f"s{number}", kind="provider", provider_id="google.x")) for number in range(6)]
        exported.contributions.change(lambda catalogue: catalogue.with_tools(more, "error")[0])
        assert run("export", "--to", "mcp")[2].startswith("left out: s0, s1, s2, s3, s4 and 2 more;")

    def test_only_some_tools(self, run):
        assert [
            each["name"] for each in json.loads(run("export", "--to", "mcp", "--where", "read_only")[1])["tools"]
        ] == ["read"]
        assert json.loads(run("export", "--to", "mcp", "-T", "search", "--where", "read_only")[1])["tools"] == []
        code, out, err = run("export", "--to", "mcp", "-T", "raed")
        assert (code, json.loads(out)) == (0, {"tools": []})
        assert "no tool is called 'raed'. Did you mean 'read'?" in err

    def test_hidden_characters_are_escaped(self, run, exported):
        exported.contributions.change(
            lambda catalogue: catalogue.with_tools([Tool(ToolSpec("odd", "a\u202eb"))], "error")[0]
        )
        out = run("export", "--to", "mcp", "-T", "odd")[1]
        assert "\u202e" not in out
        assert json.loads(out)["tools"][0]["description"] == "a\u202eb"

    @pytest.mark.parametrize(
        ("argv", "causes"),
        [
            (["--to", "gemnii"], ["provides 'gemnii'. Did you mean 'gemini'?", "Known exporters: anthropic"]),
            (["--to", "google"], ["provides 'google'. Did you mean 'gemini' or 'gemini-schema'? Known exporters: "]),
            ([], ["--to"]),
            (["--to", "mcp", "--where", "tags:x"], ["'tags'"]),
        ],
    )
    def test_wrong_use(self, run, argv, causes):
        code, out, err = run("export", *argv)
        assert (code, out) == (2, "")
        assert [cause for cause in causes if cause not in err] == []

    def test_an_export_without_tools(self, run, registry):
        registry.contributions.change(lambda catalogue: catalogue.without_tools(EXPORTED))
        code, out, err = run("export", "--to", "gemini")
        assert (code, out) == (0, '{"tools":[]}\n')
        assert "no tools are installed" in err


@pytest.mark.usefixtures("exported")
class TestExportList:
    def test_json_has_installed_and_other_exporters(self, run, monkeypatch):
        there = {row["name"]: row for row in json.loads(run("export", "--list")[1])["exporters"]}
        monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
        without = {row["name"]: row for row in json.loads(run("export", "--list", "--json")[1])["exporters"]}
        assert there["openai"] == {"name": "openai", "installed": True, "package": "pegboard-openai"}
        assert without["openai"] == {"name": "openai", "installed": False, "package": "pegboard-openai"}

    def test_an_exporter_of_a_third_party_has_its_package(self, run, registry):
        """Whether its plugin was imported or is listed only."""
        registry.add("exporters", "mine", print, origin=Origin("loaded", "dist-loaded"))
        record = PluginRecord("listed", "dist-listed", offers=frozenset({("exporters", "late")}), load=print)
        registry.contributions.change(lambda each: each.evolve(plugins={"listed": record}))
        rows = {row["name"]: row.get("package") for row in json.loads(run("export", "--list")[1])["exporters"]}
        assert (rows["mine"], rows["late"]) == ("dist-loaded", "dist-listed")

    @pytest.mark.parametrize("other", [("--to", "openai"), ("--where", "bad(("), ("--check",), ("--strict",)])
    def test_options_of_an_export_are_refused(self, run, other):
        code, _, err = run("export", "--list", *other)
        assert (code, "can't be combined with" in err) == (2, True)

    @pytest.mark.usefixtures("on_terminal")
    def test_a_terminal_gets_a_table(self, run, monkeypatch):
        assert "openai            installed" in run("export", "--list")[1]
        monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
        assert "openai            pip install pegboard-openai" in run("export", "--list")[1]


@pytest.mark.usefixtures("exported")
class TestExportCheck:
    @pytest.mark.parametrize(
        ("argv", "code", "keywords"),
        [
            (["--to", "ollama", "-T", "read"], 0, ["minLength"]),
            (["--to", "ollama", "-T", "search"], 1, ["providerId"]),  # refused
            (["--to", "gemini", "--strict", "-T", "read"], 0, ["strict"]),
            (["--to", "mcp", "-T", "read"], 0, []),
        ],
    )
    def test_losses_as_json(self, run, argv, code, keywords):
        ended, out, err = run("export", "--check", *argv)
        losses = {loss["keyword"]: (loss["tool"], loss["path"]) for loss in json.loads(out)["losses"]}
        assert (ended, err, bool(losses)) == (code, "", bool(keywords))
        assert [keyword for keyword in keywords if keyword not in losses] == []
        assert losses.get("minLength") in (None, ("read", "/inputSchema/properties/path"))

    @pytest.mark.usefixtures("on_terminal")
    def test_a_terminal_gets_a_table(self, run):
        code, out, _ = run("export", "--to", "ollama", "--check")
        assert code == 1
        assert [line.split()[0] for line in out.splitlines()] == ["TOOL", "read", "search"]
        assert "refused: " in out.splitlines()[2]

    @pytest.mark.usefixtures("on_terminal")
    def test_no_losses_on_a_terminal_and_json_on_request(self, run):
        assert run("export", "--to", "mcp", "--check", "-T", "read") == (0, "", "nothing is lost\n")
        assert json.loads(run("export", "--to", "ollama", "--check", "--json")[1])["losses"]


class Failing(MCP):
    def tools(self, specs, *, strict=None):
        raise ZeroDivisionError("oh")


class Refusing(MCP):
    def tools(self, specs, *, strict=None):
        self.request(None)


@pytest.mark.parametrize(
    ("exporter", "message"),
    [
        (Failing(), "mine: failed: ZeroDivisionError: oh"),
        (Refusing(), "mcp: it only lists tools; no model takes requests in this format"),  # it says so itself
    ],
)
def test_a_failing_exporter_is_reported_by_name(run, exported, exporter, message):
    exported.add("exporters", "mine", exporter)
    assert run("export", "--to", "mine") == (1, "", f"error: {message}\n")


class TestPlugins:
    @pytest.mark.usefixtures("site", "bringing")
    def test_only_the_plugin_of_the_exporter_is_imported(self, run):
        code, out, _ = run("export", "--to", "mine")
        assert code == 0
        assert [each["name"] for each in json.loads(out)["tools"]] == ["count", "count_words", "wipe"]
        assert "demo_tools" not in sys.modules

    @pytest.mark.usefixtures("bringing")
    def test_prints_of_a_plugins_exporter_are_not_output(self, run):
        code, out, _ = run("export", "--to", "mine")
        assert code == 0
        assert [each["name"] for each in json.loads(out)["tools"]] == ["count"]

    @pytest.mark.slow
    @pytest.mark.usefixtures("bringing")
    def test_names_are_completed_without_importing(self, run, monkeypatch):
        monkeypatch.setenv("_REGISTRY_COMPLETE", "complete")
        monkeypatch.setenv("COMP_WORDS", "registry export --to m")
        assert run() == (0, "plain,mine\n", "")
        assert "mine_tools" not in sys.modules
