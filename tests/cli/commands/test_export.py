"""`registry export`, run in this process."""

from __future__ import annotations

import json
import sys

import pytest

from pegboard import Tool
from pegboard.cli.commands import export
from pegboard.cli.terminal import Screen
from pegboard.plugins.discovery import FoundPlugin
from pegboard.plugins.manifest import manifest_text
from pegboard.plugins.probe import probe
from pegboard.request.listing import MCP
from pegboard.tools.spec import Origin, ToolAnnotations, ToolSpec

SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "minLength": 1}}, "required": ["path"]}
TOOLS = [
    Tool(
        ToolSpec("read", "Reads.", SCHEMA, annotations=ToolAnnotations(read_only_hint=True)),
        origin=Origin("files", "pegboard-files", "1"),
    ),
    Tool(ToolSpec("search", kind="provider", provider_id="google.google_search")),
]


@pytest.fixture
def board(registry, monkeypatch):
    monkeypatch.delenv("PEGBOARD_BLOCK")  # exporters are found in the installed packages
    registry.change(lambda catalogue: catalogue.with_tools(TOOLS, "error")[0])
    return registry


@pytest.fixture
def on_terminal(monkeypatch):
    monkeypatch.setattr(export, "stdout_screen", lambda: Screen(width=200))


@pytest.mark.usefixtures("board")
class TestTools:
    def test_a_pipe_gets_an_entry_a_line(self, say):
        code, out, err = say("export", "--to", "gemini")

        assert (code, err) == (0, "")
        functions, native = json.loads(out)
        assert [each["name"] for each in functions["functionDeclarations"]] == ["read"]
        assert native == {"googleSearch": {}}
        assert len(out.splitlines()) == 4

    @pytest.mark.usefixtures("on_terminal")
    def test_a_terminal_gets_it_laid_out_and_json_as_a_pipe(self, say):
        laid_out, as_pipe = (say("export", "--to", "gemini", *more)[1] for more in ((), ("--json",)))

        assert json.loads(laid_out) == json.loads(as_pipe)
        assert laid_out.splitlines()[1:3] == ["  {", '    "functionDeclarations": [']
        assert len(as_pipe.splitlines()) == 4

    def test_tools_that_are_refused_are_named_on_standard_error(self, say):
        code, out, err = say("export", "--to", "mcp")

        assert code == 0
        assert [each["name"] for each in json.loads(out)] == ["read"]
        assert err == "left out: search; 'registry export --to mcp --check' shows why\n"

    def test_of_many_that_are_refused_the_first_are_named(self, say, board):
        more = [Tool(ToolSpec(f"s{number}", kind="provider", provider_id="google.x")) for number in range(6)]
        board.change(lambda catalogue: catalogue.with_tools(more, "error")[0])

        assert say("export", "--to", "mcp")[2].startswith("left out: s0, s1, s2, s3, s4 and 2 more;")

    def test_only_some_tools(self, say):
        assert [each["name"] for each in json.loads(say("export", "--to", "mcp", "--where", "read_only")[1])] == [
            "read"
        ]
        assert json.loads(say("export", "--to", "mcp", "-T", "search", "--where", "read_only")[1]) == []
        code, out, err = say("export", "--to", "mcp", "-T", "raed")
        assert (code, json.loads(out)) == (0, [])
        assert "no tool is called 'raed'. Did you mean 'read'?" in err

    def test_hidden_characters_stand_escaped(self, say, board):
        board.change(lambda catalogue: catalogue.with_tools([Tool(ToolSpec("odd", "a\u202eb"))], "error")[0])

        out = say("export", "--to", "mcp", "-T", "odd")[1]

        assert "\u202e" not in out
        assert json.loads(out)[0]["description"] == "a\u202eb"

    def test_an_unknown_exporter(self, say):
        code, out, err = say("export", "--to", "gemnii")

        assert (code, out) == (2, "")
        assert "No installed plugin provides 'gemnii'. Did you mean 'gemini'?" in err
        assert "anthropic" in err

    def test_without_an_exporter(self, say):
        code, _, err = say("export")

        assert code == 2
        assert "--to" in err

    def test_an_exporter_that_is_not_installed_names_its_package(self, say, monkeypatch):
        monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
        said = say("export", "--to", "openai")[2]

        assert said.endswith("No installed plugin provides 'openai': pip install pegboard-openai\n")

    def test_a_wrong_predicate(self, say):
        assert say("export", "--to", "mcp", "--where", "tags:x")[0] == 2

    def test_a_host_is_told_where_there_is_nothing(self, say, registry):
        registry.change(lambda catalogue: catalogue.without_tools(TOOLS))

        code, out, err = say("export", "--to", "gemini")

        assert (code, out) == (0, "[]\n")
        assert "no tools are installed" in err


@pytest.mark.usefixtures("board")
class TestList:
    def test_json_has_what_there_is_and_what_could_be_installed(self, say, monkeypatch):
        there = {row["name"]: row for row in json.loads(say("export", "--list")[1])}
        monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
        without = {row["name"]: row for row in json.loads(say("export", "--list", "--json")[1])}

        assert there["openai"] == {"name": "openai", "installed": True, "package": "pegboard-openai"}
        assert without["openai"] == {"name": "openai", "installed": False, "package": "pegboard-openai"}
        assert there["mcp"] == without["mcp"] == {"name": "mcp", "installed": True, "package": None}

    @pytest.mark.usefixtures("on_terminal")
    def test_a_terminal_gets_a_table(self, say, monkeypatch):
        assert "openai            installed" in say("export", "--list")[1]
        monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")
        assert "openai            pip install pegboard-openai" in say("export", "--list")[1]


@pytest.mark.usefixtures("board")
class TestCheck:
    def test_losses_are_told_as_json(self, say):
        code, out, _ = say("export", "--to", "ollama", "--check", "-T", "read")

        assert code == 0
        (loss,) = json.loads(out)
        assert loss == {
            "tool": "read",
            "path": "/inputSchema/properties/path",
            "keyword": "minLength",
            "what": loss["what"],
        }

    def test_a_refusal_is_the_exit_code_1(self, say):
        code, out, err = say("export", "--to", "ollama", "--check", "-T", "search")

        assert (code, err) == (1, "")
        assert [each["keyword"] for each in json.loads(out)] == ["providerId"]

    def test_strictly_more_may_be_lost(self, say):
        code, out, _ = say("export", "--to", "gemini", "--check", "--strict", "-T", "read")

        assert code == 0
        assert "strict" in [each["keyword"] for each in json.loads(out)]

    def test_nothing_lost(self, say):
        assert say("export", "--to", "mcp", "--check", "-T", "read") == (0, "[]\n", "")

    @pytest.mark.usefixtures("on_terminal")
    def test_a_terminal_gets_a_table(self, say):
        code, out, _ = say("export", "--to", "ollama", "--check")

        assert code == 1
        assert [line.split()[0] for line in out.splitlines()] == ["TOOL", "read", "search"]
        assert "refused: " in out.splitlines()[2]

    @pytest.mark.usefixtures("on_terminal")
    def test_a_terminal_is_told_that_nothing_is_lost(self, say):
        assert say("export", "--to", "mcp", "--check", "-T", "read") == (0, "", "nothing is lost\n")

    @pytest.mark.usefixtures("on_terminal")
    def test_json_in_a_terminal(self, say):
        assert json.loads(say("export", "--to", "ollama", "--check", "--json")[1])


class TestExportersOfTheHost:
    def test_one_that_fails_is_named(self, say, board):
        class Failing(MCP):
            def tools(self, specs, *, strict=None):
                raise ZeroDivisionError("oh")

        board.add("exporters", "mine", Failing())

        code, out, err = say("export", "--to", "mine")

        assert (code, out) == (1, "")
        assert err == "error: mine: it failed: ZeroDivisionError: oh\n"

    def test_one_that_refuses_says_so_itself(self, say, board):
        class Refusing(MCP):
            def tools(self, specs, *, strict=None):
                self.request(None)

        board.add("exporters", "mine", Refusing())

        assert say("export", "--to", "mine")[2] == "error: mcp: it lists tools; no model takes requests in this form\n"


PLUGIN = """
from pegboard import hookimpl, tool
from pegboard.request.listing import MCP


@tool
def count(text: str) -> int:
    "Counts."
    return len(text)


@hookimpl
def pegboard_register_tools(register):
    register(count)


@hookimpl
def pegboard_register_exporters(register):
    print("noise")
    register("mine", MCP())
"""


class TestPlugins:
    @pytest.fixture
    def bringing(self, empty_site, tmp_path):
        """A plugin with an exporter, and a manifest that says so."""
        folder = tmp_path / "probed"
        folder.mkdir()
        (folder / "mine_tools.py").write_text(PLUGIN)
        sys.path.insert(0, str(folder))
        try:
            found = FoundPlugin("mine", "mine_tools", None, "pegboard-mine", "1.0", str(folder / "x"))
            (probed,) = probe([found], {})
        finally:
            sys.path.remove(str(folder))
        empty_site.add("mine", PLUGIN, manifest=manifest_text([probed.manifest]))
        return empty_site

    @pytest.mark.usefixtures("site")
    def test_no_plugin_is_imported_for_a_built_in_exporter(self, say):
        code, out, _ = say("export", "--to", "mcp")

        assert code == 0
        assert [each["name"] for each in json.loads(out)] == ["count_words", "wipe"]
        assert "demo_tools" not in sys.modules

    @pytest.mark.usefixtures("bringing")
    def test_an_exporter_of_a_plugin_is_found_and_its_prints_are_no_output(self, say):
        code, out, _ = say("export", "--to", "mine")

        assert code == 0
        assert [each["name"] for each in json.loads(out)] == ["count"]

    @pytest.mark.usefixtures("bringing")
    def test_names_are_completed_without_importing(self, say, monkeypatch):
        monkeypatch.setenv("_REGISTRY_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", "registry export --to m")
        monkeypatch.setenv("COMP_CWORD", "3")

        assert say() == (0, "plain,mcp\nplain,mine\n", "")
        assert "mine_tools" not in sys.modules
