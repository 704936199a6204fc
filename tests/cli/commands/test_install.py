"""`registry install` and `uninstall`, with an installer that the test stands in for."""

from __future__ import annotations

import shutil
import sys

import pytest

from cli_demo import DEMO
from pegboard.cli.commands import config
from pegboard.cli.commands.config import installer, run_installer


@pytest.fixture
def pip(monkeypatch):
    """Whether there is pip."""

    def there(*, is_there: bool) -> None:
        monkeypatch.setattr(config, "find_spec", lambda _name: object() if is_there else None)

    return there


@pytest.fixture
def done(monkeypatch, pip):
    """What installers were asked to do; they do `act` and end with `code`."""
    asked: list[list[str]] = []

    def does(act=lambda: None, code=0):
        def run(command):
            asked.append(command)
            act()
            return code

        monkeypatch.setattr(config, "run_installer", run)
        pip(is_there=True)
        return asked

    return does


def test_the_environments_pip_does_it(pip):
    pip(is_there=True)
    assert installer(["install", "x"]) == [sys.executable, "-m", "pip", "install", "x"]


def test_without_pip_uv_does_it(pip, monkeypatch):
    pip(is_there=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    assert installer(["install", "x"]) == ["/bin/uv", "pip", "install", "--python", sys.executable, "x"]


def test_with_neither_it_says_so(say, registry, pip, monkeypatch):
    pip(is_there=False)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    code, _, err = say("install", "x")
    assert code == 2
    assert "neither pip is in" in err


def test_what_came_is_shown(say, empty_site, done, demo_manifest):
    asked = done(lambda: empty_site.add("demo", DEMO, manifest=demo_manifest))
    assert say("install", "pegboard-demo") == (0, "+ count_words\n+ wipe\n", "")
    assert asked == [[sys.executable, "-m", "pip", "install", "pegboard-demo"]]


def test_what_went_is_shown(say, site, done):
    asked = done(lambda: shutil.rmtree(site.root / "pegboard_demo-1.0.dist-info"))
    assert say("uninstall", "-y", "pegboard-demo") == (0, "- count_words\n- wipe\n", "")
    assert asked[0][3:] == ["uninstall", "-y", "pegboard-demo"]


def test_uv_is_not_told_not_to_ask(say, registry, done, pip, monkeypatch):
    asked = done()
    pip(is_there=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    say("uninstall", "--yes", "x")
    assert "-y" not in asked[0]


def test_what_changed_and_what_is_wrong_is_shown(say, site, done):
    manifest = site.root / "demo_tools" / "pegboard-manifest.json"

    def act():
        manifest.write_text(manifest.read_text().replace("Remove a file", "Remove one"))
        site.add("bad", "raise RuntimeError('no luck')")

    done(act)
    code, out, err = say("install", "--upgrade", "pegboard-demo")
    assert (code, out) == (0, "~ wipe\n")
    assert err.startswith("bad: ")
    assert "no luck" in err


def test_nothing_may_come(say, registry, done):
    done()
    assert say("install", "x") == (0, "", "no tools came or went\n")


def test_an_installer_that_fails(say, registry, done):
    done(code=3)
    code, out, err = say("install", "x")
    assert (code, out) == (1, "")
    assert "exit code 3" in err


def test_options_that_are_not_ours_go_to_the_installer(say, registry, done):
    asked = done()
    say("install", "-e", ".", "--upgrade", "--index-url", "https://x")
    assert asked[0][4:] == ["-e", ".", "--upgrade", "--index-url", "https://x"]


def test_what_the_installer_says_is_no_output_of_ours(capfd):
    assert run_installer([sys.executable, "-c", "print('words'); raise SystemExit(4)"]) == 4
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "words\n")
