"""Commands of plugins: known by their names, imported when they are used."""

from __future__ import annotations

import sys

import pytest

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
