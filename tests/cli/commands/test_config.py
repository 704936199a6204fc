"""`registry plugins`, `processors`, `install`, `uninstall`, `config` and `keys`."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from cli_demo import DEMO
from installed import install, own_keyring, write
from pegboard import PluginRecord, Problem
from pegboard.cli.commands import config
from pegboard.cli.commands.config import installer, run_installer

BROKEN = "raise RuntimeError('no \\x1b[31m luck')"


def plugins_of(out: str) -> dict[str, dict]:
    return {plugin["name"]: plugin for plugin in json.loads(out)["plugins"]}


def test_plugins_are_listed_with_their_status(run, site):
    site.add("broken", BROKEN)
    code, out, _ = run("plugins", "--json")
    assert code == 0
    found = plugins_of(out)
    assert found["demo"] == {
        "name": "demo",
        "distribution": "pegboard-demo",
        "version": "1.0",
        "status": "listed",
        "hooks": ["pegboard_register_commands", "pegboard_register_tools"],
        "tools": ["count_words", "wipe"],
    }
    assert found["broken"]["status"] == "quarantined"
    assert "RuntimeError: no" in found["broken"]["cause"]
    assert "demo_tools" not in sys.modules


@pytest.mark.slow
def test_as_a_table(run, site, monkeypatch):
    monkeypatch.setenv("PEGBOARD_BLOCK", "demo")
    row = next(line for line in run("plugins")[1].splitlines() if line.startswith("demo "))
    assert row.split()[:4] == ["demo", "pegboard-demo", "1.0", "blocked"]


def test_live_imports_them(run, site):
    assert plugins_of(run("--live", "plugins", "--json")[1])["demo"]["status"] == "loaded"
    assert "demo_tools" in sys.modules


def test_problems_of_a_plugin_are_its_cause(run, registry):
    records = {"a": PluginRecord("a", cause="its own"), "b": PluginRecord("b"), "c": PluginRecord("c")}
    problems = [Problem(f"{name} lost {number}", plugin=name) for name in "ab" for number in (1, 2)]
    registry.contributions.change(lambda catalogue: catalogue.evolve(plugins=records, problems=problems))
    causes = {name: plugin.get("cause") for name, plugin in plugins_of(run("plugins", "--json")[1]).items()}
    assert causes == {"a": "its own", "b": "b lost 1; b lost 2", "c": None}
    assert "\na: its own\nb: b lost 1; b lost 2\n" in run("plugins")[1]


CONFLICTING = """
from pegboard import hookimpl, tool

@tool
def wipe() -> str:
    "Wipe too."
    return ""

@hookimpl
def pegboard_register_tools(register):
    register(wipe)
"""


@pytest.mark.slow
def test_a_conflict_that_is_an_error_stops_all_commands_but_doctor_and_config(run, site, home):
    site.add("conflicting", CONFLICTING)
    file = write(home / "config/pegboard/pegboard.toml", 'conflicts = "error"')
    message = f'{file}: conflicts: is "error", but plugin'
    for command in ("list", "plugins", "processors"):
        code, out, err = run(command)
        assert (code, out, err.startswith(f"error: {message}")) == (2, "", True)
    code, out, _ = run("doctor")
    assert (code, message in out, "tool 'wipe' is held back: plugin " in out) == (1, True, True)
    shown = json.loads(run("config")[1])
    assert (shown["conflicts"], shown["rename"]) == ("error", {})


@pytest.mark.parametrize("name", ["demo", "pegboard-demo", "Pegboard_Demo"])
def test_one_plugin_is_shown(run, site, name):
    code, out, _ = run("plugins", name)
    assert (code, out.splitlines()[:2]) == (0, ["demo", "  from: pegboard-demo 1.0"])
    assert "  status: listed\n" in out
    assert "  tools: count_words wipe\n" in out
    for words in ((name, "--json"), ("--json", name), ("--json", "show", name)):
        (plugin,) = json.loads(run("plugins", *words)[1])["plugins"]
        assert plugin["name"] == "demo"
    code, _, err = run("plugins", "dem")
    assert (code, "no plugin is called 'dem'. Did you mean 'demo'" in err) == (2, True)


def test_built_in_plugins_are_listed_with_all(run, registry):
    records = {name: PluginRecord(name, name) for name in ("pegboard", "other")}
    problems = (Problem("has no METADATA", distribution="odd"), Problem("reported there", plugin="other"))
    registry.contributions.change(lambda catalogue: catalogue.evolve(plugins=records, problems=problems))
    code, out, _ = run("plugins", "--json")
    assert (code, list(plugins_of(out))) == (0, ["other"])
    assert list(plugins_of(run("plugins", "--all", "--json")[1])) == ["pegboard", "other"]
    assert run("plugins")[2] == "odd: has no METADATA\n"


# `registry processors` -----------------------------------------------------------------------------------------------

STEPS = """
from pegboard import Position, hookimpl


def remember(request):
    '''Adds what is \\x1b[31m remembered.

    And more.
    '''


@hookimpl
def pegboard_register_processors(register):
    print("while registering")
    register("memory", remember)
    register("last", Position(lambda request: None, after="pack_tools"))
    register("odd", lambda nosuch: None)
"""


def test_processors_are_listed_in_order_with_their_plugins(run, site):
    site.add("steps", STEPS)
    code, out, err = run("processors")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.split() == ["STEP", "BY", "WHAT", "IT", "DOES"]
    assert [line.split()[:2] for line in lines] == [
        ["tool_requests", "pegboard"],
        ["instructions", "pegboard"],
        ["memory", "steps"],
        ["repair_history", "pegboard"],
        ["limit_results", "pegboard"],
        ["budget_tools", "pegboard"],
        ["pack_tools", "pegboard"],
        ["last", "steps"],
    ]
    assert "\x1b" not in out
    assert "remembered." in lines[2]
    assert "And more" not in out
    assert "while registering" not in out
    assert "steps: request processor 'odd'" in err
    assert "demo_tools" not in sys.modules


def test_only_problems_of_plugins_with_processors_are_reported(run, site):
    site.add("broken", "raise RuntimeError('no luck')")
    assert run("processors")[2] == ""


def test_as_json(run, site):
    site.add("steps", STEPS)
    steps = json.loads(run("processors", "--json")[1])["processors"]
    assert steps[2] == {
        "name": "memory",
        "summary": "Adds what is \x1b[31m remembered.",
        "builtIn": False,
        "plugin": "steps",
        "distribution": "pegboard-steps",
        "version": "1.0",
    }
    assert steps[3]["builtIn"] is True
    assert ("plugin" in steps[3], steps[3]["distribution"]) == (False, "pegboard")


def test_a_processor_of_the_host(run, registry):
    registry.add("processors", "mine", lambda request: None)
    assert "mine            the host" in run("processors")[1]


# `registry install` and `uninstall`, with a fake installer -----------------------------------------------------------


@pytest.fixture
def pip(monkeypatch):
    """Sets whether pip is installed; uv is on the path."""

    def install_pip(*, installed: bool) -> None:
        monkeypatch.setattr(config, "find_spec", lambda _name: object() if installed else None)
        monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")

    return install_pip


@pytest.fixture
def fake_installer(monkeypatch, pip):
    """Replaces the installer by a function and an exit code; returns its command lines."""
    commands: list[list[str]] = []

    def replace(action=lambda: None, code=0):
        def run_installer(command):
            commands.append(command)
            action()
            return code

        monkeypatch.setattr(config, "run_installer", run_installer)
        pip(installed=True)
        return commands

    return replace


def test_the_installer_is_pip_or_else_uv(run, registry, pip, monkeypatch):
    pip(installed=True)
    assert installer(["install", "x"]) == [sys.executable, "-m", "pip", "install", "x"]
    pip(installed=False)
    assert installer(["install", "x"]) == ["/bin/uv", "pip", "install", "--python", sys.executable, "x"]
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    code, _, err = run("install", "x")
    assert (code, "neither pip in" in err) == (2, True)


def test_added_tools_are_shown(run, empty_site, fake_installer, demo_manifest):
    commands = fake_installer(lambda: empty_site.add("demo", DEMO, manifest=demo_manifest))
    assert run("install", "pegboard-demo") == (0, "+ count_words\n+ wipe\n", "")
    assert commands == [[sys.executable, "-m", "pip", "install", "pegboard-demo"]]


def test_removed_tools_are_shown(run, site, fake_installer):
    commands = fake_installer(lambda: shutil.rmtree(site.root / "pegboard_demo-1.0.dist-info"))
    assert run("uninstall", "-y", "pegboard-demo") == (0, "- count_words\n- wipe\n", "")
    assert commands[0][3:] == ["uninstall", "-y", "pegboard-demo"]


def test_uv_gets_no_yes_option(run, registry, fake_installer, pip):
    commands = fake_installer()
    pip(installed=False)
    run("uninstall", "--yes", "x")
    assert "-y" not in commands[0]


def test_changed_tools_and_new_problems_are_shown(run, site, fake_installer):
    manifest = site.root / "demo_tools" / "pegboard-manifest.json"

    def act():
        manifest.write_text(manifest.read_text().replace("Remove a file", "Remove one"))
        site.add("bad", "raise RuntimeError('no luck')")

    fake_installer(act)
    code, out, err = run("install", "--upgrade", "pegboard-demo")
    assert (code, out) == (0, "~ wipe\n")
    assert err.startswith("bad: ")
    assert "no luck" in err


def test_unknown_options_are_passed_to_the_installer(run, registry, fake_installer):
    commands = fake_installer()
    assert run("install", "-e", ".", "--upgrade", "--index-url", "https://x") == (
        0,
        "",
        "no tools were added or removed\n",
    )
    assert commands[0][4:] == ["-e", ".", "--upgrade", "--index-url", "https://x"]


def test_an_installer_that_fails(run, registry, fake_installer):
    fake_installer(code=3)
    code, out, err = run("install", "x")
    assert (code, out, "exit code 3" in err) == (1, "", True)


def test_output_of_the_installer_goes_to_standard_error(capfd):
    assert run_installer([sys.executable, "-c", "print('words'); raise SystemExit(4)"]) == 4
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "words\n")


# Names that two distributions bring ----------------------------------------------------------------------------------


class TestAccept:
    @pytest.fixture
    def rival(self, run, site):
        """A second distribution with the tools of the first, whose names were listed before."""
        assert run("list", "--names") == (0, "count_words\nwipe\n", "")
        site.add("zdemo", DEMO.replace('"greet"', '"zgreet"'))
        site.add("rival", DEMO.replace("a text", "any text"))
        return site

    @pytest.mark.slow
    def test_names_stay_with_the_distribution_that_was_listed_first(self, run, rival):
        for _ in range(2):
            code, out, err = run("list")
            assert (code, [line.split("\t")[:2] for line in out.splitlines()]) == (
                0,
                [["count_words", "demo"], ["wipe", "demo"]],
            )
            assert "plugin rival: tool 'count_words' is held back: pegboard-demo has the name" in err
        assert "pegboard-demo has the name" in run("plugins")[1]
        assert "is held back: pegboard-demo has the name" in run("doctor")[1]

    @pytest.mark.slow
    def test_names_stay_with_a_distribution_that_fails_to_load(self, run, rival):
        install(rival.root, "pegboard-demo", "0")
        for _ in range(2):
            _, out, err = run("list", "--names")
            assert "count_words" not in out
            assert "pegboard-demo: its plugins are left out" in err

    @pytest.mark.slow
    def test_accept_gives_names_to_another_distribution(self, run, rival):
        code, out, _ = run("plugins", "accept", "pegboard_rival")
        assert code == 0
        assert out == "~ count_words\n"
        assert run("list", "count_words")[1] == "count_words\trival\tCount the words of any text.\n"
        assert run("show", "wipe")[1].startswith("wipe\nfrom plugin 'rival'")

    @pytest.mark.slow
    def test_without_an_accepted_owner_a_name_is_held_back(self, run, rival, home):
        (home / "state" / "pegboard" / "accepted.json").unlink()
        assert run("list", "--names", "--refresh")[:2] == (0, "")
        assert run("plugins", "accept", "pegboard-zdemo")[1] == "+ count_words\n+ wipe\n"

    def test_an_unwritable_state_folder_is_ignored(self, run, site, home):
        (home / "state" / "pegboard").touch()
        assert run("list", "--names") == (0, "count_words\nwipe\n", "")

    def test_accept_of_an_unknown_distribution_is_a_usage_error(self, run, site):
        code, _, err = run("plugins", "accept", "pegboard-dmeo")
        assert (code, "Did you mean 'pegboard-demo'" in err) == (2, True)


GUARD = """
from pegboard import Deny, hookimpl

@hookimpl
def pegboard_before_tool(tool):
    return Deny("guarded")
"""


class TestProjectThatIsntTrusted:
    @pytest.mark.slow
    def test_it_may_block_tools_but_not_guards(self, run, empty_site, home):
        tools = DEMO.partition("@hookimpl\ndef pegboard_register_commands")[0]
        empty_site.add("demo", tools)
        empty_site.add("other", tools.replace("count_words", "count").replace("wipe", "drop"))
        empty_site.add("warden", GUARD)
        (home / "here" / "pegboard.toml").write_text(
            'block = ["warden", "other"]\n[rename]\n"demo:wipe" = "run_tests"\n[prefix]\ndemo = "safe_"'
        )
        for more in ([], ["--live"], ["--live", "--refresh"]):
            assert run("list", "--names", *more)[1] == "count_words\nwipe\n"
            code, _, err = run("call", "count_words", "text=a", *more)
            assert (code, "guarded" in err) == (1, True)
        assert "plugin warden: the project's pegboard.toml blocks it and isn't trusted to" in run("list")[2]
        run("config", "trust")
        assert run("list", "--names")[1] == "run_tests\nsafe_count_words\n"


class TestKeys:
    @pytest.fixture
    def keyring(self, monkeypatch):
        return own_keyring(monkeypatch)

    def test_a_key_is_set_listed_and_removed_and_never_shown(self, run, home, keyring, stdin):
        stdin(b"very secret\n")
        code, out, err = run("keys", "set", "mine")
        assert (code, out, err) == (0, "", 'stored; refer to it in pegboard.toml by { keyring = "mine" }\n')
        assert keyring == {("pegboard", "mine"): "very secret"}
        assert run("keys", "list") == (0, "mine\n", "")
        assert run("keys", "remove", "mine") == (0, "", "")
        assert run("keys", "list") == (0, "", "no keys are stored: 'registry keys set NAME' stores one\n")
        code, _, err = run("keys", "remove", "mine")
        assert (code, err) == (2, "error: there is no key 'mine'.\n")

    @pytest.mark.parametrize("data", [b"", b"\n", b"x" * 10_001, b"\xff", None])
    def test_an_invalid_key_is_refused(self, run, home, keyring, stdin, data):
        stdin(data)
        assert run("keys", "set", "mine")[0] == 2
        assert keyring == {}

    def test_a_system_without_a_keyring_is_a_clear_error(self, run, home, keyring, stdin, monkeypatch):
        def fail(*_):
            raise RuntimeError("no backend")

        for name in ("set_password", "get_password"):
            monkeypatch.setattr(sys.modules["keyring"], name, fail)
        stdin(b"very secret")
        assert run("keys", "set", "mine")[::2] == (2, "error: keyring: set_password failed: RuntimeError: no backend\n")
        assert run("keys", "remove", "mine")[0] == 2
        assert run("keys", "list")[1] == ""

    def test_configuration_is_shown_without_keys(self, run, home):
        write(
            home / "config/pegboard/pegboard.toml",
            '[plugins.openai]\napi_key = "very secret"\nother = { env = "NAME" }\nroot = "/x"',
        )
        _, out, err = run("config")
        assert json.loads(out)["plugins"] == {"openai": {"api_key": "(hidden)", "other": {"env": "NAME"}, "root": "/x"}}
        assert "very secret" not in out + err
