"""`registry torture`, with a fake for the trials; and the audit hook."""

from __future__ import annotations

import json
import signal

import click
import pytest

from cli import conftest as of_commands
from json_page import faults
from pegboard.testing import check_plugin
from pegboard_torture.plugin import pegboard_register_commands
from pegboard_torture.torture import Tried, _Guard

home, others, run = of_commands.home, of_commands.others, of_commands.run
demo_manifest, empty_site, site = of_commands.demo_manifest, of_commands.empty_site, of_commands.site


@pytest.mark.slow
def test_the_plugin_fulfils_the_contract():
    check_plugin("torture")


@pytest.fixture(autouse=True)
def tried(monkeypatch, site):
    """The arguments of the last run; of its faults only the first is survived."""
    group = click.Group()
    pegboard_register_commands(group)
    monkeypatch.setattr("pegboard.cli.main.plugin_command", lambda _context, name: group.commands.get(name))
    asked: dict[str, object] = {}

    def torture(plugins, settings, **options):
        asked.update(options, plugins=[found.name for found in plugins], settings=settings)
        yield Tried("demo", "import", "closed stdin", 0)
        if "import" not in options["groups"]:
            yield Tried("demo", "arguments", "hostile texts", 7, ("broke", "again"), ("erase",))
            yield Tried("demo", "results", "rounds again", 1, ("again", "broke", "burst"))

    monkeypatch.setattr("pegboard_torture.command.torture", torture)
    return asked


def test_paths_outside_of_the_folder_are_recorded(tmp_path):
    guard, inside, outside = _Guard(f"{tmp_path}/1"), f"{tmp_path}/1/file", f"{tmp_path}/12/file"
    guard("os.mkdir", (inside, 0o777, -1))
    guard("os.mkdir", (outside, 0o777, -1))
    guard("os.rename", (f"{tmp_path}/moved", inside, -1, -1))
    guard("os.link", (f"{tmp_path}/linked", inside, -1, -1))
    assert guard.outside == [outside, f"{tmp_path}/moved"]


def test_a_fault_is_a_line_and_one_that_isnt_survived_the_exit_code(run, tried):
    code, out, err = run("torture", "demo")
    assert (code, tried["plugins"], tried["include_mutating"]) == (1, ["demo"], False)
    assert [line.split(maxsplit=4)[-1].strip() for line in out.splitlines()] == [
        *("OUTCOME", "0      survived", "7      broke; again", "1      as hostile texts; burst"),
    ]
    called = "not called, as not marked read-only (--include-mutating calls them): erase\n"
    assert err == f"{called}2 of 3 faults not survived\n"


def test_a_plugin_that_is_named_twice_is_tried_once(run, tried):
    run("torture", "demo", "pegboard-demo")
    assert tried["plugins"] == ["demo"]


def test_sigterm_ends_it_as_ctrl_c_does(run, monkeypatch):
    ended = []

    def torture(*_arguments, **_options):
        try:
            signal.raise_signal(signal.SIGTERM)
            yield
        finally:
            ended.append(True)

    monkeypatch.setattr("pegboard_torture.command.torture", torture)
    before = signal.getsignal(signal.SIGTERM)
    code, _, _ = run("torture", "demo")
    assert (code, ended, signal.getsignal(signal.SIGTERM)) == (130, [True], before)


def test_as_json(run, tried):
    code, out, _ = run("torture", "--all", "--include-mutating", "--json")
    assert faults("registry torture --json", json.loads(out)) == []
    assert (code, tried["include_mutating"], "demo" in tried["plugins"]) == (1, True, True)
    facts = {"plugin": "demo", "group": "arguments", "fault": "hostile texts", "calls": 7, "survived": False}
    assert json.loads(out)["trials"][1] == {**facts, "causes": ["broke", "again"], "notCalled": ["erase"]}


def test_one_group_that_is_survived(run, tried):
    assert run("torture", "pegboard-demo", "--group", "import")[0::2] == (0, "1 faults, all survived\n")
    assert tried["groups"] == ("import",)


@pytest.mark.parametrize(
    ("argv", "cause"),
    [
        ((), "name the packages to try, or give --all"),
        (("demo", "--all"), "name the packages to try, or give --all"),
        (("nosuch",), "no installed distribution 'nosuch' brings a plugin"),
        (("demo", "--group", "names,results"), "there is no group 'names,results': take one of import,"),
    ],
)
def test_wrong_use(run, argv, cause):
    code, _, err = run("torture", *argv)
    assert code == 2
    assert cause in err
