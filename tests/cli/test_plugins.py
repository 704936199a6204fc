"""`registry plugins`, the commands that plugins bring, and what a first list leaves behind."""

from __future__ import annotations

import json
import sys
import time

import pytest

from pegboard.__main__ import main as registry
from pegboard.catalogue import PluginRecord, Problem
from pegboard.cli import warm
from pegboard.cli.kept import Keeping
from pegboard.plugins.discovery import discover

COMMAND = """
import sys

import click

from pegboard import hookimpl
from pegboard.errors import PegboardError

KEPT = sys.stdout


@hookimpl
def pegboard_register_commands(group):
    print("while adding")

    @group.command("odd")
    def odd():
        {body}
"""
BROKEN = "raise RuntimeError('no \\x1b[31m luck')"


def plugins_of(out: str) -> dict[str, dict]:
    return {plugin["name"]: plugin for plugin in json.loads(out)}


def test_each_plugin_with_how_it_is(say, site):
    site.add("broken", BROKEN)
    code, out, _ = say("plugins", "--json")
    assert code == 0
    found = plugins_of(out)
    assert found["demo"] == {
        "name": "demo",
        "distribution": "pegboard-demo",
        "version": "1.0",
        "status": "listed",
        "hooks": ["pegboard_register_commands", "pegboard_register_tools"],
        "tools": ["count_words", "wipe"],
        "cause": None,
    }
    assert found["broken"]["status"] == "quarantined"
    assert "RuntimeError: no" in found["broken"]["cause"]
    assert "demo_tools" not in sys.modules


def test_as_a_table(say, site, monkeypatch):
    monkeypatch.setenv("PEGBOARD_BLOCK", "demo")
    _, out, _ = say("plugins")
    assert next(line for line in out.splitlines() if line.startswith("demo ")).split()[:4] == [
        "demo",
        "pegboard-demo",
        "1.0",
        "blocked",
    ]


def test_live_imports_them(say, site):
    assert plugins_of(say("--live", "plugins", "--json")[1])["demo"]["status"] == "loaded"
    assert "demo_tools" in sys.modules


def test_one_with_tools_held_back_says_so(say, registry):
    records = {"a": PluginRecord("a", cause="its own"), "b": PluginRecord("b"), "c": PluginRecord("c")}
    problems = [Problem(name, None, f"{name} lost {number}") for name in "ab" for number in (1, 2)]
    registry.change(lambda catalogue: catalogue.evolve(plugins=records, problems=problems))
    causes = {name: plugin["cause"] for name, plugin in plugins_of(say("plugins", "--json")[1]).items()}
    assert causes == {"a": "its own", "b": "b lost 1; b lost 2", "c": None}
    assert "b lost 1; b lost 2" in say("plugins")[1]


CLASHING = """
from pegboard import hookimpl, tool

@tool
def wipe() -> str:
    "Wipe too."
    return ""

@hookimpl
def pegboard_register_tools(register):
    register(wipe)
"""


class TestClashesThatAreErrors:
    @pytest.fixture
    def file(self, site, home):
        site.add("clashing", CLASHING)
        (home / "config" / "pegboard").mkdir()
        file = home / "config" / "pegboard" / "pegboard.toml"
        file.write_text('conflicts = "error"')
        return file

    def test_plugins_are_listed_all_the_same(self, say, file):
        code, out, err = say("plugins")
        assert code == 0
        assert "clashing" in out
        assert f'error: {file}: conflicts: is "error", and plugin' in err

    def test_the_doctor_tells_the_line_and_the_clash(self, say, file):
        code, out, _ = say("doctor")
        assert code == 1
        assert f"configuration: conflicts\n  {file}: conflicts: " in out
        assert "'wipe' is held back" in out

    def test_configuration_is_shown(self, say, file):
        assert json.loads(say("config")[1])["conflicts"] == "error"

    def test_everything_else_is_refused_with_the_line(self, say, file):
        code, out, err = say("list")
        assert (code, out) == (2, "")
        assert f"{file}: conflicts: " in err


def test_our_own_take_all(say, registry):
    records = {name: PluginRecord(name, name) for name in ("pegboard", "other")}
    problems = (Problem(None, "odd", "has no METADATA"), Problem("other", None, "told there"))
    registry.change(lambda catalogue: catalogue.evolve(plugins=records, problems=problems))
    code, out, _ = say("plugins", "--json")
    assert (code, list(plugins_of(out))) == (0, ["other"])
    assert list(plugins_of(say("plugins", "--all", "--json")[1])) == ["pegboard", "other"]
    assert say("plugins")[2] == "odd: has no METADATA\n"


class TestCommandsOfPlugins:
    def test_they_run(self, say, site):
        assert say("greet", "Ann") == (5, "Hello Ann\n", "")

    def test_the_help_names_them_without_importing(self, say, site):
        _, out, _ = say("--help")
        assert "From plugins:\n  greet  From plugin demo." in out
        assert "demo_tools" not in sys.modules

    def test_they_can_not_replace_ours(self, say, site):
        assert "never" not in say("list")[1]

    def test_a_name_that_hides_something_is_no_command(self, say, site):
        manifest = site.root / "demo_tools" / "pegboard-manifest.json"
        manifest.write_text(manifest.read_text().replace('"greet"', '"gr\\u200beet"'))
        assert "eet" not in say("--help")[1]

    def test_a_near_miss_names_them(self, say, site):
        code, _, err = say("greeet")
        assert code == 2
        assert "Did you mean 'greet'?" in err

    def test_a_hook_that_fails_costs_only_its_command(self, say, site):
        source = """
from pegboard import hookimpl
import sys

@hookimpl
def pegboard_register_commands(group):
    group.command("odd")(lambda: None)
    if "pytest" in sys.modules:
        raise RuntimeError("no luck")
"""
        site.add("odd", source)
        code, _, err = say("odd")
        assert code == 1
        assert "plugin 'odd' (from pegboard-odd): RuntimeError: no luck" in err
        assert say("greet", "Ann")[0] == 5

    def test_what_ends_the_process_while_commands_are_added_costs_only_them(self, say, site):
        ends = "from pegboard import hookimpl\nimport sys\n\n@hookimpl\ndef pegboard_register_commands(group):\n"
        ends += "    group.command('odd')(lambda: None)\n    if 'pytest' in sys.modules:\n        raise GeneratorExit\n"
        site.add("odd", ends)
        code, _, err = say("odd")
        assert (code, err) == (1, "error: plugin 'odd' (from pegboard-odd): GeneratorExit\n")

    @pytest.mark.parametrize(
        ("body", "code", "err"),
        [
            (
                "raise ValueError('no luck')",
                1,
                "error: plugin 'odd' (from pegboard-odd): its command 'odd' failed: ValueError: no luck\n",
            ),
            ("raise click.ClickException('mine')", 2, "error: mine\n"),
            ("click.get_current_context().exit(7)", 7, ""),
            ("raise click.Abort", 130, ""),
            ("raise PegboardError('ours')", 1, "error: ours\n"),
        ],
    )
    def test_one_that_raises_names_its_plugin(self, say, site, body, code, err):
        site.add("odd", COMMAND.format(body=body))
        assert say("odd") == (code, "", f"while adding\n{err}")

    def test_what_it_prints_is_its_output_and_what_its_import_prints_is_not(self, say, site):
        site.add("odd", "print('at import')\n" + COMMAND.format(body="KEPT.write('its own')"))
        assert say("odd") == (0, "its own", "at import\nwhile adding\n")

    def test_where_a_manifest_is_void_the_cache_names_them(self, say, site):
        manifest = site.root / "demo_tools" / "pegboard-manifest.json"
        manifest.write_text(manifest.read_text().replace('"version": "1.0"', '"version": "0.9"'))
        assert say("--help")[0] == 0
        assert say("greet", "Ann")[0] == 5

    def test_the_help_is_there_for_those_whose_configuration_is_broken(self, say, site, home):
        (home / "here" / "pegboard.toml").write_text("blok = 1")
        assert say("--help")[0] == 0


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
        monkeypatch.setattr("pegboard.cli.board.open_board", None)
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

        for module in ("cli.kept", "plugins.discovery"):
            monkeypatch.setattr(f"pegboard.{module}.discover", counted)
        assert "wipe" in say("list")[1]
        assert len(searched) == 1

    @pytest.mark.usefixtures("settled")
    def test_nothing_is_kept_of_a_configuration_that_changed_meanwhile(self, say, site, home, monkeypatch):
        start = Keeping.start

        def changing():
            keeping = start()
            (home / "here" / "pegboard.toml").write_text('block = ["demo"]')
            return keeping

        monkeypatch.setattr(Keeping, "start", changing)
        say("list")
        assert warm.answer(["list"]) is None

    def test_where_nothing_can_be_kept_a_list_still_lists(self, say, site, monkeypatch):
        monkeypatch.setattr("pegboard.cli.kept.environment", lambda: None)
        assert "wipe" in say("list")[1]


def test_the_whole_way(site, capsys):
    """The program's own entry: installed, listed, filtered, called."""
    assert registry(["list", "--names", "--where", "read_only and plugin:demo"]) == 0
    assert capsys.readouterr().out == "count_words\n"
    assert "demo_tools" not in sys.modules
    assert registry(["call", "count_words", "text=one two three"]) == 0
    assert capsys.readouterr().out == "3\n"
