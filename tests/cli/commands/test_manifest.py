"""`registry manifest write` and `check`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cli_demo import DEMO
from installed import install
from pegboard.cli.commands.manifest import FIRST_PARTY, package_files, package_names
from pegboard.plugins.manifest import FILE_NAME


@pytest.mark.slow
def test_a_manifest_is_up_to_date_until_the_code_changes(run, empty_site):
    package = empty_site.add("demo", DEMO, editable=True).parent
    path = package / FILE_NAME
    assert run("manifest", "check", "pegboard-demo")[0] == 1
    assert run("manifest", "write", "pegboard_demo") == (0, f"{path}: 2 tools\n", "")
    assert [tool["name"] for tool in json.loads(path.read_text())["plugins"]["demo"]["tools"]] == [
        "count_words",
        "wipe",
    ]
    assert run("manifest", "check", "pegboard-demo") == (0, f"{path}: up to date\n", "")
    changed = DEMO.replace("Remove a file", "Remove one").replace("count_words", "words").replace('"list"', '"lost"')
    (package / "__init__.py").write_text(changed)
    code, out, err = run("manifest", "check", "pegboard-demo")
    assert (code, out) == (1, "")
    changes = "tool 'count_words' is gone, tool 'wipe' has changed, tool 'words' is new, its commands differ"
    assert err == f"error: {path}: plugin 'demo': {changes}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "isn't JSON"),
        (
            '{"format":1,"distribution":"x","version":"1.0","plugins":{}}',
            "it was written for x 1.0, and pegboard-demo 1.0 is installed",
        ),
        ('{"format":1,"distribution":"pegboard-demo","version":"1.0","plugins":{}}', "plugin 'demo' is missing"),
        ('{"format":1,"distribution":"pegboard-demo","version":"1.0","plugins":{"x":3}}', "has no such plugin"),
        (
            '{"format":1,"distribution":"pegboard-demo","version":"1.0","plugins":{"demo":3}}',
            "plugins.demo: must be an object",
        ),
    ],
)
def test_errors_of_a_broken_manifest(run, site, content, message):
    (site.root / "demo_tools" / FILE_NAME).write_text(content)
    code, _, err = run("manifest", "check", "pegboard-demo")
    assert code == 1
    assert message in err


@pytest.mark.slow
def test_an_invalid_manifest_is_reported_once(run, site):
    path = site.root / "demo_tools" / FILE_NAME
    path.write_text("{")
    findings = json.loads(run("doctor", "--json")[1])["findings"]
    assert sum("isn't JSON" in finding["cause"] for finding in findings) == 1


@pytest.mark.slow
def test_a_package_can_be_given_by_folder_or_plugin(run, site, home):
    assert run("manifest", "check", "demo") == run("manifest", "check", "pegboard-demo")
    (home / "here" / "demo").mkdir()  # a folder of a plugin's name, and no package's
    assert run("manifest", "check", "demo")[0] == 0
    (home / "here" / "pyproject.toml").write_text('[project]\nname = "pegboard.demo"')
    assert run("manifest", "check")[0] == 0
    assert run("manifest", "check", str(home / "here"))[0] == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["check"], "pyproject.toml: No such file or directory; name the distribution"),
        (["check", "pegboard-dmo"], "no installed distribution 'pegboard-dmo' brings a plugin. Did you mean"),
        (["check", "zzz"], "Is it installed?"),
        (["write", "pegboard-demo"], "isn't installed in editable mode"),
    ],
)
def test_wrong_use(run, site, argv, message):
    code, _, err = run("manifest", *argv)
    assert code == 2
    assert message in err


def test_no_manifest_is_written_for_a_failing_plugin(run, empty_site):
    empty_site.add("bad", "raise RuntimeError('no luck')", editable=True)
    code, _, err = run("manifest", "write", "pegboard-bad")
    assert code == 1
    assert "plugin 'bad' failed to load: RuntimeError: no luck" in err


@pytest.mark.slow
def test_the_doctor_reports_an_outdated_manifest(run, site):
    path = site.root / "demo_tools" / FILE_NAME
    path.write_text(path.read_text().replace("Remove a file", "Remove one"))
    code, out, _ = run("doctor")
    assert code == 1
    assert f"{path}\n  plugin 'demo': tool 'wipe' has changed\n" in out


@pytest.mark.slow
def test_a_package_that_is_not_found_has_no_manifest(run, site):
    """Its entry point is left, its code was deleted."""
    for file in (site.root / "demo_tools").iterdir():
        file.unlink()
    (site.root / "demo_tools").rmdir()
    record = site.root / "pegboard_demo-1.0.dist-info" / "RECORD"
    record.write_text("")
    code, _, err = run("manifest", "check", "pegboard-demo")
    assert code == 1
    assert "can't find the file of module 'demo_tools'" in err
    assert "there is no module 'demo_tools'" in run("doctor")[1]


# `registry new` writes a package that installs, lists, runs and passes its own test ----------------------------------


@pytest.mark.parametrize("name", ["word-count", "word_count", "pegboard-word-count", "pegboard_word_count"])
def test_the_names_of_a_package(name):
    assert package_names(name) == {
        "plugin": "word-count",
        "distribution": "pegboard-word-count",
        "module": "pegboard_word_count",
        "title": "Word count",
        "tool": "word_count_count_words",
    }


@pytest.mark.parametrize("name", ["", "Word", "1a", "a--b", "-a", "a-", "a b", "é", "x" * 41, "pegboard-", "../a"])
def test_invalid_names(run, home, name):
    code, _, err = run("new", "--", name)
    assert code == 2
    assert "isn't valid as a plugin's name" in err
    assert list((home / "here").iterdir()) == []


@pytest.mark.parametrize("name", ["files", "pegboard-openai", "demo"])
def test_a_name_that_another_package_has_is_refused(run, site, home, name):
    code, _, err = run("new", name)
    assert (code, [*(home / "here").iterdir()]) == (2, [])
    assert "is another package's name; choose another" in err


def test_the_names_of_all_first_party_packages_are_taken():
    folder = Path(__file__).parents[3] / "plugins"
    assert {path.parent.name for path in folder.glob("*/pyproject.toml")} == {*FIRST_PARTY}


def test_no_placeholder_is_left():
    for path, text in package_files(package_names("weather")):
        assert "{{" not in path + text, path


@pytest.fixture
def made(run, home) -> Path:
    code, out, err = run("new", "weather", "--path", "deep/below")
    assert (code, err) == (0, "")
    folder = Path("deep/below/pegboard-weather")
    for path in folder.rglob("*.*"):
        assert f"{path}\n" in out or path.is_dir()
    assert f"pip install -e '{folder}[test]'" in out
    return (home / "here" / folder).resolve()


def test_an_existing_package_is_not_overwritten(run, made):
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    code, _, err = run("new", "weather", "--path", "deep/below")
    assert code == 2
    assert "already exists" in err
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before


def installed(made: Path, site: Path) -> None:
    """As an installer leaves it: the wheel's packages and the entry points that pyproject names."""
    project = tomllib.loads((made / "pyproject.toml").read_text())
    (points,) = project["project"]["entry-points"]["pegboard"].items()
    install(site, project["project"]["name"], project["project"]["version"], "[pegboard]\n{} = {}\n".format(*points))
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        (site / Path(package).name).symlink_to(made / package)


def test_it_lists_and_runs(run, made, empty_site, monkeypatch):
    installed(made, empty_site.root)
    monkeypatch.syspath_prepend(str(empty_site.root))
    assert run("list", "--names", "--plugin", "weather") == (0, "weather_count_words\n", "")
    assert run("call", "weather_count_words", "text=one two", "min_length=3") == (0, "2\n", "")


@pytest.mark.slow
def test_it_passes_its_own_test(made, empty_site):
    installed(made, empty_site.root)
    environ = {**os.environ, "PYTHONPATH": str(empty_site.root), "PEGBOARD_BLOCK": ""}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(made)],
        env=environ,
        cwd=made,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
