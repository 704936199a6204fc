"""Every check of this checkout. `nox -l` lists them; `nox` runs those that CI runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
# One process more than CI has cores: tests wait for processes, locks and time limits a fifth of their time.
SIDE_BY_SIDE = "-n", "3", "--dist", "worksteal"
KEPT, ADDED = "--cov", "--cov-append"
# Per cent, branches included; what is left out is named in pyproject.toml. What runs in child processes only isn't
# measured, and counts as not run: the tried faults, `registry serve` over standard input, logins.
LEAST_COVERAGE = 97

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests", "lint", "layers", "house", "types", "docs", "slow", "lowest", "pythons", "wheels"]
nox.options.sessions += ["interop", "torture"]
nox.options.error_on_missing_interpreters = False
nox.options.download_python = "never"

# Where bytecode isn't kept, each of the thousands of processes that the tests start compiles all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# pyenv's commands find the versions that are named here only.
VERSIONS = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
FOUND = [path.name for python in PYTHONS for path in sorted(VERSIONS.glob(f"{python}.*"))[-1:]]
if FOUND:
    os.environ.setdefault("PYENV_VERSION", ":".join(FOUND))

PYPROJECT = nox.project.load_toml("pyproject.toml")


def install_checkout(session: nox.Session, *groups: str, options: Sequence[str] = ()) -> None:
    """Installs this checkout and its plugins, editable, with some dependency groups."""
    requirements = nox.project.dependency_groups(PYPROJECT, *groups)
    plugins = [part for plugin in (*PLUGINS, *EXAMPLES) for part in ("-e", str(plugin))]
    session.install("-e", ".", *plugins, *requirements, *options)


def run_pytest(session: nox.Session, *options: str) -> None:
    """Runs pytest in processes side by side, or on what is named behind `--`."""
    session.run("pytest", *(session.posargs or (*SIDE_BY_SIDE, *options)))


def share(name: str) -> list[str]:
    """The test files of one of the other Pythons that are there, or of `lowest`, where all these share them."""
    there = [*(each for each in PYTHONS[1:] if shutil.which(f"python{each}")), "lowest"]
    files = sorted(path for part in ("tests", "plugins", "examples") for path in ROOT.glob(f"{part}/**/test_*.py"))
    return [str(path) for path in files if "interop" not in path.parts][there.index(name) :: len(there)]


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of the core and of every plugin, but for the slow ones; with `--cov`, what they reach is kept."""
    install_checkout(session, "test")
    if session.posargs == [KEPT]:
        session.run("pytest", *SIDE_BY_SIDE, "-m", "not slow", KEPT, "--cov-report=")
    else:
        run_pytest(session, "-m", "not slow")


@nox.session
def slow(session: nox.Session) -> None:
    """All tests with branch coverage; with `--cov-append`, the slow ones, beside what `tests` has kept."""
    install_checkout(session, "test")
    if session.posargs == [ADDED]:
        options = "-m", "slow", ADDED, "--cov", "--cov-report="
        session.run("pytest", *SIDE_BY_SIDE, *options, env={"COVERAGE_PATCH": "subprocess"})
    else:
        run_pytest(session, "--cov", "--cov-report=")
    session.run("coverage", "report", f"--fail-under={LEAST_COVERAGE}")  # pytest's own limit fails nothing


@nox.session
def thorough(session: nox.Session) -> None:
    """The properties, on many more examples."""
    install_checkout(session, "test")
    run_pytest(session, "-m", "hypothesis", "--hypothesis-profile=thorough")


@nox.session(python=PYTHONS[1:])
def pythons(session: nox.Session) -> None:
    """The tests, but for the slow ones, on each other supported Python; with `--share`, its share of the files."""
    install_checkout(session, "test")
    run_other(session, str(session.python))


@nox.session
def lowest(session: nox.Session) -> None:
    """The tests on the oldest dependencies that are declared, but for the slow ones; `--share` as `pythons` has it."""
    install_checkout(session, "test", options=("--resolution", "lowest-direct"))
    run_other(session, "lowest")


def run_other(session: nox.Session, name: str) -> None:
    """The tests, but for the slow ones, or with `--share` those of one of the sessions that share them."""
    if session.posargs == ["--share"]:
        session.run("pytest", *SIDE_BY_SIDE, "-m", "not slow", *share(name))
    else:
        run_pytest(session, "-m", "not slow")


@nox.session
def lint(session: nox.Session) -> None:
    """Style and formatting."""
    session.install(*nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def layers(session: nox.Session) -> None:
    """The layers import one way only."""
    install_checkout(session, "lint")
    session.run("lint-imports")


@nox.session
def house(session: nox.Session) -> None:
    """The figures of the code's order, and their limits."""
    install_checkout(session)
    session.run("python", "scripts/house.py")


@nox.session
def types(session: nox.Session) -> None:
    """pyright, strict, on the sources; mypy, strict, and pyright on what users of either see."""
    install_checkout(session, "types", "test")
    session.run("pyright", "--pythonpath", str(Path(session.bin) / "python"))
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Every code block of docs, of README and of the plugins' READMEs, run; and the site, built."""
    install_checkout(session, "test", "docs")
    pages = ("README.md", "docs", *(str(plugin / "README.md") for plugin in PLUGINS))
    session.run("pytest", "-p", "code_blocks", *pages, env={"PYTHONPATH": "docs"})
    session.run("zensical", "build", "--clean", silent=True)


@nox.session
def torture(session: nox.Session) -> None:
    """What may go wrong, tried on the first-party plugins and the examples."""
    install_checkout(session)
    session.run("registry", "torture", "--all", silent=not session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """README's first command in an empty virtual environment, from built wheels."""
    session.install("build", "hatchling", *(["uv"] if shutil.which("uv") is None else []))
    session.run("python", "scripts/try_wheels.py", *session.posargs)


@nox.session
def downstream(session: nox.Session) -> None:
    """Each plugin's own tests, with nothing installed but what the plugin and its tests ask for."""
    for plugin in PLUGINS:
        asked = nox.project.dependency_groups(nox.project.load_toml(plugin / "pyproject.toml"), "test")
        fakes = ["-e", "tests/fake_vendors"] if "fake-vendors" in asked else []
        session.install("-e", ".", "-e", str(plugin), *fakes, *(name for name in asked if name != "fake-vendors"))
        session.run("pytest", str(plugin), "-o", "filterwarnings=default")


@nox.session
def interop(session: nox.Session) -> None:
    """Programs of others that speak the Model Context Protocol, with the server and the client of pegboard-mcp."""
    install_checkout(session, "test", "interop")
    session.run("pytest", *(session.posargs or ["plugins/pegboard-mcp/tests/interop"]))


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmarks' own tests, then the figures, beside the floor and the peers; see benchmarks/README.md."""
    install_checkout(session, "test", "bench")
    session.run("pytest", "benchmarks")
    if session.posargs != ["--tests-only"]:
        session.run("python", "benchmarks/run.py", *session.posargs)
