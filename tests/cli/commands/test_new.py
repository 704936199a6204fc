"""`registry new` writes a package that installs, lists, runs and passes its own test."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from installed import install
from pegboard.cli.commands.manifest import Package


@pytest.mark.parametrize("name", ["word-count", "word_count", "pegboard-word-count", "pegboard_word_count"])
def test_the_names_of_a_package(name):
    package = Package.named(name)
    assert (package.plugin, package.distribution, package.module) == (
        "word-count",
        "pegboard-word-count",
        "pegboard_word_count",
    )


@pytest.mark.parametrize("name", ["", "Word", "1a", "a--b", "-a", "a-", "a b", "é", "x" * 41, "pegboard-", "../a"])
def test_what_can_not_be_a_name(say, home, name):
    code, _, err = say("new", "--", name)
    assert code == 2
    assert "can't name a plugin" in err
    assert list((home / "here").iterdir()) == []


def test_no_placeholder_is_left():
    for path, text in Package.named("weather").files().items():
        assert "{{" not in path + text, path


@pytest.fixture
def made(say, home) -> Path:
    code, out, err = say("new", "weather", "--path", "deep/below")
    assert (code, err) == (0, "")
    folder = Path("deep/below/pegboard-weather")
    for path in folder.rglob("*.*"):
        assert f"{path}\n" in out or path.is_dir()
    assert f"pip install -e '{folder}[test]'" in out
    return (home / "here" / folder).resolve()


def test_what_is_there_is_left_alone(say, made):
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    code, _, err = say("new", "weather", "--path", "deep/below")
    assert code == 2
    assert "is there already" in err
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before


def installed(made: Path, site: Path) -> None:
    """As an installer leaves it: the wheel's packages and the entry points that pyproject names."""
    project = tomllib.loads((made / "pyproject.toml").read_text())
    (points,) = project["project"]["entry-points"]["pegboard"].items()
    install(site, project["project"]["name"], project["project"]["version"], "[pegboard]\n{} = {}\n".format(*points))
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        (site / Path(package).name).symlink_to(made / package)


def test_it_lists_and_runs(say, made, empty_site, monkeypatch):
    installed(made, empty_site.root)
    monkeypatch.syspath_prepend(str(empty_site.root))
    assert say("list", "--names", "--plugin", "weather") == (0, "weather_count_words\n", "")
    assert say("call", "weather_count_words", "text=one two", "min_length=3") == (0, "2\n", "")


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
    assert "2 passed" in ran.stdout
