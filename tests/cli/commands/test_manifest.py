"""`registry manifest write` and `check`."""

from __future__ import annotations

import json

import pytest

from cli_demo import DEMO
from pegboard.plugins.manifest import FILE_NAME


@pytest.fixture
def package(empty_site):
    """The demo plugin, installed from its sources."""
    return empty_site.add("demo", DEMO, editable=True).parent


def test_written_then_true_until_the_code_changes(say, package):
    path = package / FILE_NAME
    assert say("manifest", "check", "pegboard-demo")[0] == 1
    assert say("manifest", "write", "pegboard_demo") == (0, f"{path}: 2 tools\n", "")
    assert [tool["name"] for tool in json.loads(path.read_text())["plugins"]["demo"]["tools"]] == [
        "count_words",
        "wipe",
    ]
    assert say("manifest", "check", "pegboard-demo") == (0, f"{path}: true\n", "")
    changed = DEMO.replace("Remove a file", "Remove one").replace("count_words", "words").replace('"list"', '"lost"')
    (package / "__init__.py").write_text(changed)
    code, out, err = say("manifest", "check", "pegboard-demo")
    assert (code, out) == (1, "")
    told = "tools: 'wipe' changed; 'words' not in it; 'count_words' gone from the code"
    assert err == f"error: {path}: plugin 'demo': {told}\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "isn't JSON"),
        ('{"format":1,"distribution":"x","version":"1.0","plugins":{}}', "for distribution 'x', and 'pegboard-demo'"),
        ('{"format":1,"distribution":"pegboard-demo","version":"0","plugins":3}', "plugin 'demo' is not in it"),
        ('{"format":1,"distribution":"pegboard-demo","version":"1.0","plugins":{"x":3}}', "has none of that name"),
        ('{"format":1,"distribution":"pegboard-demo","version":"1.0","plugins":{"demo":3}}', "not in it"),
    ],
)
def test_what_a_broken_one_says(say, site, content, told):
    (site.root / "demo_tools" / FILE_NAME).write_text(content)
    code, _, err = say("manifest", "check", "pegboard-demo")
    assert code == 1
    assert told in err


def test_a_plugins_name_stands_for_its_distribution(say, site):
    assert say("manifest", "check", "demo") == say("manifest", "check", "pegboard-demo")
    assert say("manifest", "check", "demo")[0] == 0


def test_a_void_manifest_is_one_finding(say, site):
    path = site.root / "demo_tools" / FILE_NAME
    path.write_text("{")
    findings = json.loads(say("doctor", "--json")[1])
    assert sum("isn't JSON" in finding["cause"] for finding in findings) == 1


def test_commands_that_changed_are_told_without_tools(say, site):
    path = site.root / "demo_tools" / FILE_NAME
    path.write_text(path.read_text().replace('"greet"', '"meet"'))
    assert "what it brings besides tools has changed" in say("manifest", "check", "pegboard-demo")[2]


def test_a_folder_names_its_distribution(say, site, home):
    (home / "here" / "pyproject.toml").write_text('[project]\nname = "pegboard.demo"')
    assert say("manifest", "check")[0] == 0
    assert say("manifest", "check", str(home / "here"))[0] == 0


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["check"], "pyproject.toml names no project; name the distribution"),
        (["check", "pegboard-dmo"], "no installed distribution 'pegboard-dmo' brings a plugin. Did you mean"),
        (["check", "zzz"], "Is it installed?"),
        (["write", "pegboard-demo"], "isn't installed from its sources"),
    ],
)
def test_wrong_use(say, site, argv, told):
    code, _, err = say("manifest", *argv)
    assert code == 2
    assert told in err


def test_a_plugin_that_fails_has_none(say, empty_site):
    empty_site.add("bad", "raise RuntimeError('no luck')", editable=True)
    code, _, err = say("manifest", "write", "pegboard-bad")
    assert code == 1
    assert "plugin 'bad' failed to load: RuntimeError: no luck" in err


def test_the_doctor_finds_one_that_is_not_true(say, site):
    path = site.root / "demo_tools" / FILE_NAME
    path.write_text(path.read_text().replace("Remove a file", "Remove one"))
    code, out, _ = say("doctor")
    assert code == 1
    assert f"{path}\n  plugin 'demo': tools: 'wipe' changed\n" in out


def test_a_package_that_is_not_found_has_no_manifest(say, site):
    """The entry point stands, its code is gone."""
    for file in (site.root / "demo_tools").iterdir():
        file.unlink()
    (site.root / "demo_tools").rmdir()
    record = site.root / "pegboard_demo-1.0.dist-info" / "RECORD"
    record.write_text("")
    code, _, err = say("manifest", "check", "pegboard-demo")
    assert code == 1
    assert "can't find where module 'demo_tools' lies" in err
    assert "ModuleNotFoundError" in say("doctor")[1]
