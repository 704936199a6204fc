"""The click front: help, version, commands found late, exit codes, errors in clear lines."""

from __future__ import annotations

import shutil
import sys

import click
import pytest
from hypothesis import example, given, strategies as st

from pegboard import ToolRegistry
from pegboard.cli import main as front, session
from pegboard.cli.main import OWN, SECTIONS, own_command
from pegboard.errors import PluginError


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_the_help_lists_every_command(run, registry, option):
    code, out, _ = run(option)
    assert code == 0
    for section, commands in SECTIONS.items():
        assert f"{section}:" in out
        for name, (_, text) in commands.items():
            assert f"  {name} " in out
            assert text in out


@pytest.mark.parametrize("name", OWN)
def test_the_short_help_of_a_command_is_the_first_sentence_of_its_help(run, registry, name):
    command = own_command(name)
    sentence = " ".join((command.help or "").split("\n\n")[0].split()).partition(". ")[0]
    assert (command.name, OWN[name][1]) == (name, f"{sentence.removesuffix('.')}.")
    code, out, _ = run(name, "--help")
    assert (code, out.startswith(f"Usage: registry {name} "), "\\b" in out) == (0, True, False)


def test_an_unknown_command_names_near_misses(run, registry):
    code, out, err = run("shw")
    assert (code, out) == (2, "")
    assert "no command is called 'shw'. Did you mean 'show'?" in err


@pytest.mark.parametrize("name", ["chat", "torture"])
def test_a_command_of_a_package_that_is_not_installed_names_it(run, name):
    code, _, err = run(name)
    assert code == 2
    assert f"no installed plugin provides {name!r}: pip install pegboard-{name}" in err


def test_a_group_without_a_command_prints_its_usage(run):
    code, _, err = run("manifest")
    assert (code, err.startswith("Usage: registry manifest"), "error" in err) == (2, True, False)


def raising(monkeypatch, error: BaseException) -> None:
    def load_registry(*_):
        raise error

    monkeypatch.setattr(session, "load_registry", load_registry)


def test_debug_shows_the_traceback_and_the_time(run, home, monkeypatch):
    raising(monkeypatch, PluginError("files", "broke"))
    code, _, err = run("--debug", "list")
    assert code == 1
    assert "Traceback" in err
    assert "took " in err
    assert run("list", "--debug")[2].count("Traceback") == 1


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            PluginError("files", "broke\x1b[0m", distribution="pegboard-files"),
            "plugin 'files' (from pegboard-files): broke\\u{1b}[0m\n",
        ),
        (ZeroDivisionError("by zero"), "unexpected ZeroDivisionError: by zero\nThis is a bug in pegboard; "),
        (PermissionError(13, "Permission denied", "/x"), "/x: Permission denied\n"),
        (OSError("odd"), "odd\n"),
    ],
)
def test_an_error_is_reported_without_a_traceback(run, home, monkeypatch, error, message):
    raising(monkeypatch, error)
    code, out, err = run("list")
    assert (code, out, err.startswith(f"error: {message}")) == (1, "", True)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_ctrl_c(run, home, monkeypatch, error):
    raising(monkeypatch, error)
    assert run("list") == (130, "", "")


def test_a_broken_pipe_is_not_an_error(home, monkeypatch):
    raising(monkeypatch, BrokenPipeError())
    quieted = []
    monkeypatch.setattr("pegboard.cli.main.quiet_stdout", lambda: quieted.append(True))
    assert front.main(["list"]) == 0
    assert quieted == [True]


def test_characters_missing_in_the_encoding_are_escaped(home, monkeypatch):
    import io

    from pegboard import Tool, ToolSpec

    bare = ToolRegistry()
    bare.contributions.change(lambda catalogue: catalogue.with_tools([Tool(ToolSpec("x", "Grüße…"))], "error")[0])
    monkeypatch.setattr(session, "load_registry", lambda *_: bare)
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", out)
    assert front.main(["list"]) == 0
    assert out.buffer.getvalue() == b"x\t\tGr\xfc\xdfe\\u2026\n"  # pyright: ignore[reportAttributeAccessIssue]


def test_arguments_default_to_those_of_the_process(home, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["registry", "--version"])
    assert front.main() == 0
    assert capsys.readouterr().out.startswith("registry (pegboard)")


# Commands of plugins: known by their names, imported when they are used ----------------------------------------------

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
    def test_the_help_lists_them_without_importing(self, run, site):
        _, out, _ = run("--help")
        assert "From plugins:\n  greet  Greet somebody.\n" in out
        assert "demo_tools" not in sys.modules

    def test_they_can_not_replace_built_in_commands(self, run, site):
        assert "never" not in run("list")[1]

    def test_a_name_stays_with_its_distribution_until_another_is_accepted(self, run, site):
        site.add("aaa", COMMAND.format(body="click.echo('taken')").replace("odd", "greet"))
        assert "command 'greet' is held back: pegboard-demo brings one, too" in run("greet", "Ann")[2]
        assert run("plugins", "accept", "pegboard-demo")[0] == 0
        assert run("greet", "Ann") == (5, "Hello Ann\n", "")

    def test_a_name_with_hidden_characters_is_ignored(self, run, site):
        manifest = site.root / "demo_tools" / "pegboard-manifest.json"
        manifest.write_text(manifest.read_text().replace('"greet"', '"gr\\u200beet"'))
        assert "eet" not in run("--help")[1]

    def test_they_are_suggested_for_a_misspelt_name(self, run, site):
        code, _, err = run("greeet")
        assert code == 2
        assert "Did you mean 'greet'?" in err

    @pytest.mark.slow
    @pytest.mark.parametrize("error", ["RuntimeError", "GeneratorExit"])
    def test_a_failing_hook_affects_only_its_command(self, run, site, home, error):
        source = "from pegboard import hookimpl\nimport sys\n\n@hookimpl\ndef pegboard_register_commands(group):\n"
        source += f"    group.command('odd')(lambda: None)\n    if 'pytest' in sys.modules:\n        raise {error}\n"
        site.add("odd", source)
        assert run("odd") == (1, "", f"error: plugin 'odd' (from pegboard-odd): {error}\n")
        assert run("greet", "Ann")[0] == 5
        shutil.rmtree(home / "cache" / "pegboard")
        (home / "cache" / "pegboard").touch()  # without a cache the help asks the hook itself
        assert run("--help")[0] == 0
        assert run("greet", "Ann")[0] == 5

    @pytest.mark.slow
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
    def test_an_unexpected_error_names_the_plugin(self, run, site, body, code, err):
        site.add("odd", COMMAND.format(body=body))
        assert run("odd") == (code, "", f"while adding\n{err}")

    def test_output_of_the_import_goes_to_standard_error(self, run, site):
        site.add("odd", "print('at import')\n" + COMMAND.format(body="KEPT.write('its own')"))
        assert run("odd") == (0, "its own", "at import\nwhile adding\n")

    @pytest.mark.slow
    def test_they_are_cached_if_the_manifest_is_invalid(self, run, site):
        manifest = site.root / "demo_tools" / "pegboard-manifest.json"
        manifest.write_text(manifest.read_text().replace('"version": "1.0"', '"version": "0.9"'))
        assert run("--help")[0] == 0
        assert run("greet", "Ann")[0] == 5

    def test_the_help_works_with_a_broken_configuration(self, run, site, home):
        (home / "here" / "pegboard.toml").write_text("blok = 1")
        assert run("--help")[0] == 0


def _lines(*known: str) -> st.SearchStrategy[bytes]:
    """Contents of a metadata file: lines that an installer could have written, any text, any bytes."""
    lines = st.lists(st.sampled_from(known) | st.text(max_size=20), max_size=6)
    return lines.map(lambda parts: "\n".join(parts).encode(errors="surrogatepass")) | st.binary(max_size=60)


POINTS = _lines(*["[pegboard]", "[pegboard", "[pegboard.x]", "[", "a=json", "a=json:x.y[z]", "a=1:", "a", "=b", "a="])
HEADERS = _lines(
    *("Name: demo", "Name: d\u0435mo", "Name:", "Version: 1", "Version: one", "Requires-Dist: attrs<1", "\x00", ""),
    *("Requires-Dist:", "Requires-Dist: a; python_version", "Requires-Dist: ???", "Requires-Dist: demo>0"),
)
RECORDS = _lines("demo-1.dist-info/METADATA,,", "../x-1.dist-info/RECORD,,", "json.py,sha256=,1", '"')
LINKS = _lines(
    '{"url": "file:///x", "dir_info": {"editable": true}}', '{"url": 1}', "[]", "{}", "[[[[", '{"dir_info": 1}'
)
COMMANDS = [
    "list",
    "plugins",
    "doctor",
    "config",
    "processors",
    "--help",
    "show a",
    "manifest check demo",
    "plugins accept demo",
]


@pytest.mark.slow
def test_no_installed_metadata_ends_a_command_in_an_unexpected_error(run, empty_site):
    @given(
        st.sampled_from(["demo-1.dist-info", "demo.egg-info", "d\u0435mo-1.dist-info", "-.dist-info"]),
        st.fixed_dictionaries(
            {}, optional={"entry_points.txt": POINTS, "METADATA": HEADERS, "RECORD": RECORDS, "direct_url.json": LINKS}
        ),
        st.sampled_from(COMMANDS),
    )
    @example("torn-1.dist-info", {"entry_points.txt": b"[x]\nno value"}, "doctor")
    def check(folder, files, command):
        shutil.rmtree(empty_site.root)
        (empty_site.root / folder).mkdir(parents=True)
        for name, content in files.items():
            (empty_site.root / folder / name).write_bytes(content)
        code, _, err = run(*command.split())
        assert code in (0, 1, 2)
        assert "unexpected" not in err, err

    check()


@pytest.mark.parametrize(
    ("program", "name"),
    [("/x/pegboard", "pegboard"), ("/x/registry", "registry"), ("/pegboard/__main__.py", "registry")],
)
def test_usage_lines_have_the_name_that_was_started(run, empty_site, monkeypatch, program, name):
    monkeypatch.setattr("sys.argv", [program])
    assert run("--help")[1].startswith(f"Usage: {name} [OPTIONS]")
    assert run("call")[2].endswith(f"Try '{name} call --help'.\n")
    assert run("--debug", "--version")[1].startswith("registry (pegboard) ")
