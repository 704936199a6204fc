"""Every check of this checkout. `nox -l` lists them; `nox` runs those that CI runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
APART = "tests/request", "tests/vendors", "tests/model_server", "plugins"
COVERED = ("tests", *(f"--ignore={folder}" for folder in APART), "--", *APART)
LEAST_COVERAGE = 98  # per cent, branches included; what is left out is named in pyproject.toml

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests", "lint", "layers", "types", "docs", "wheels"]
nox.options.error_on_missing_interpreters = False

PYPROJECT = nox.project.load_toml("pyproject.toml")


def install_checkout(session: nox.Session, *groups: str) -> None:
    """Installs this checkout and its plugins, editable, with some dependency groups."""
    requirements = nox.project.dependency_groups(PYPROJECT, *groups)
    plugins = [part for plugin in PLUGINS for part in ("-e", str(plugin))]
    session.install("-e", ".", *plugins, *requirements)


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of the core and of every plugin, with branch coverage."""
    install_checkout(session, "test")
    session.run("coverage", "erase")
    if session.posargs:
        session.run("coverage", "run", "-m", "pytest", *session.posargs)
    else:
        session.run("python", "scripts/side_by_side.py", *COVERED)
    session.run("coverage", "combine", "--quiet")
    if not session.posargs:
        session.run("coverage", "report", "--skip-covered", f"--fail-under={LEAST_COVERAGE}")


@nox.session(python=PYTHONS)
def pythons(session: nox.Session) -> None:
    """The tests on every supported Python that is installed."""
    install_checkout(session, "test")
    session.run("pytest", *(session.posargs or ("tests", "plugins")))


@nox.session
def lint(session: nox.Session) -> None:
    """Style and formatting."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def layers(session: nox.Session) -> None:
    """The rooms import one way only."""
    install_checkout(session, "lint")
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """pyright, strict, on the sources; mypy, strict, and pyright on what users of either see."""
    install_checkout(session, "types", "test")
    session.run("pyright", "--pythonpath", str(Path(session.bin) / "python"))
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Every code block of README and docs, run; and the site, built."""
    install_checkout(session, "test", "docs")
    session.run("pytest", "-p", "code_blocks", "README.md", "docs", env={"PYTHONPATH": "docs"})
    session.run("zensical", "build", "--clean", silent=True)


@nox.session
def wheels(session: nox.Session) -> None:
    """README's first command in an empty virtual environment, from built wheels."""
    session.install("build", "hatchling", *(["uv"] if shutil.which("uv") is None else []))
    session.run("python", "scripts/try_wheels.py", *session.posargs)


@nox.session
def downstream(session: nox.Session) -> None:
    """Each plugin's own tests, with nothing installed but what the plugin asks for."""
    for plugin in PLUGINS:
        session.install("-e", ".", "-e", str(plugin), "pytest")
        session.run("pytest", str(plugin), "-o", "filterwarnings=default")


@nox.session
def bench(session: nox.Session) -> None:
    """The figures, beside the floor and the peers; see benchmarks/README.md."""
    install_checkout(session, "bench")
    session.run("python", "benchmarks/run.py", *session.posargs)
