"""Every check of this checkout. `nox -l` lists them; `.ci/run` runs those of CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import nox

ROOT = Path(__file__).parent
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
# One process more than CI has cores: tests wait for processes, locks and time limits a fifth of their time.
SIDE_BY_SIDE = "-n", "3", "--dist", "worksteal"
KEPT, ADDED = "--cov", "--cov-append"
# Per cent, of lines and, in `slow` by itself, of branches; what is left out is named in pyproject.toml. What runs in
# child processes only isn't measured, and counts as not run: the tried faults, `registry serve` over standard input,
# logins, and what loads others' code: the tools of llm's packages and the commands of click programs, 600 lines.
LEAST_COVERAGE = 98


def runs(python: str) -> bool:
    """Whether this Python is there; a shim of pyenv's may stand for one that isn't."""
    command = shutil.which(f"python{python}")
    return command is not None and subprocess.run([command, "-c", ""], capture_output=True, check=False).returncode == 0  # noqa: S603


nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests", "lint", "layers", "house", "types", "docs", "slow", "lowest", "pythons", "wheels"]
nox.options.sessions += ["interop", "torture"]
nox.options.error_on_missing_interpreters = False
nox.options.download_python = "never"

# Where bytecode isn't kept, each of the thousands of processes that the tests start compiles all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# pyenv's commands find the versions that are named here only; one of them names its own to what it starts.
VERSIONS = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
FOUND = [path.name for python in PYTHONS for path in sorted(VERSIONS.glob(f"{python}.*"))[-1:]]
if FOUND:
    os.environ["PYENV_VERSION"] = ":".join(filter(None, dict.fromkeys([os.environ.get("PYENV_VERSION"), *FOUND])))

OTHERS = [each for each in PYTHONS[1:] if runs(each)]
NEWEST = OTHERS[-1] if OTHERS else None
# Asks Python for each line once, from 3.12 on, and costs nothing; tracing costs as much again as the tests.
MONITORED = {"COVERAGE_CORE": "sysmon"} if OTHERS else {}

PYPROJECT = nox.project.load_toml("pyproject.toml")
# The programs of others, by name: what is in each `neighbours/peers.toml`, and the folder of the package that has it.
PEERS = {
    name: (peer, path.parents[2])
    for path in sorted(ROOT.glob("plugins/*/tests/neighbours/peers.toml"))
    for name, peer in nox.project.load_toml(path).items()
}
# The page that ends with the table of the last run of all of them.
PEERS_PAGE = ROOT / "docs" / "how-to" / "use-tools-in-other-frameworks.md"
# Of what peers' direct requirements bring along, nothing newer is installed.
PEERS_BEFORE = "2026-11-29"
CONSTRAINTS = ROOT / "constraints.txt"
# So that no release of a dependency fails a session: by these, both uv and pip install the versions of that file, for
# building, too.
CONSTRAINED = dict.fromkeys(("UV_CONSTRAINT", "UV_BUILD_CONSTRAINT", "PIP_CONSTRAINT"), str(CONSTRAINTS))


def install(session: nox.Session, *what: str, env: Mapping[str, str] = CONSTRAINED) -> None:
    """Installs packages in the versions of `constraints.txt`, unless `env` is empty."""
    session.install(*what, env=env)


def install_checkout(
    session: nox.Session, *groups: str, options: Sequence[str] = (), env: Mapping[str, str] = CONSTRAINED
) -> None:
    """Installs this checkout and its plugins, editable, with some dependency groups."""
    requirements = nox.project.dependency_groups(PYPROJECT, *groups)
    plugins = [part for plugin in (*PLUGINS, *EXAMPLES) for part in ("-e", str(plugin))]
    install(session, "-e", ".", *plugins, *requirements, *options, env=env)


def run_pytest(session: nox.Session, *options: str) -> None:
    """Runs pytest in processes side by side, or on what is named behind `--`."""
    session.run("pytest", *(session.posargs or (*SIDE_BY_SIDE, *options)))


@nox.session
def tests(session: nox.Session) -> None:
    """The tests of the core and of every plugin, but for the slow ones."""
    install_checkout(session, "test")
    run_pytest(session, "-m", "not slow")


@nox.session(python=NEWEST)
def slow(session: nox.Session) -> None:
    """All tests with branch coverage; with `--cov-append`, the slow ones, added to the coverage of `lowest`."""
    install_checkout(session, "test")
    if session.posargs == [ADDED]:
        # coverage leaves its database open: a garbage collection at a bad moment would make an error of that
        options = *SIDE_BY_SIDE, ADDED, KEPT, "--cov-report=", "-W", "ignore:unclosed database:ResourceWarning"
        # In child processes, too, but for tests that list the modules of one.
        session.run("pytest", "-m", "slow", *options, env=MONITORED | {"COVERAGE_PATCH": "subprocess"})
    else:
        run_pytest(session, KEPT, "--cov-branch", "--cov-report=")
    session.run("coverage", "report", f"--fail-under={LEAST_COVERAGE}")  # pytest's own limit fails nothing


@nox.session
def thorough(session: nox.Session) -> None:
    """The properties, on many more examples."""
    install_checkout(session, "test")
    run_pytest(session, "-m", "hypothesis", "--hypothesis-profile=thorough")


@nox.session(python=PYTHONS[1:])
def pythons(session: nox.Session) -> None:
    """The tests, but for the slow ones, on each other supported Python."""
    install_checkout(session, "test")
    run_pytest(session, "-m", "not slow")


@nox.session(python=NEWEST)
def lowest(session: nox.Session) -> None:
    """The tests on the oldest dependencies that are declared, but for the slow ones; on the newest Python there is.

    With `--cov`, what they reach is kept for `slow`.
    """
    install_checkout(session, "test", options=("--resolution", "lowest-direct"), env={})
    if session.posargs == [KEPT]:
        session.run("pytest", *SIDE_BY_SIDE, "-m", "not slow", KEPT, "--cov-report=", env=MONITORED)
    else:
        run_pytest(session, "-m", "not slow")


@nox.session
def newest(session: nox.Session) -> None:
    """The tests on the newest releases of all dependencies, without `constraints.txt`, but for the slow ones.

    Where those are the releases of `constraints.txt`, it says so, as all tests run on them.
    """
    install_checkout(session, "test", options=("--upgrade",), env={})
    code = "import importlib.metadata as m; print(*(f'{each.name}=={each.version}' for each in m.distributions()))"
    installed = split_versions(str(session.run("python", "-c", code, silent=True)).split())
    known = split_versions(line.partition(";")[0] for line in CONSTRAINTS.read_text("utf-8").splitlines())
    others = sorted(installed - known)  # and the packages of this checkout, which aren't in the file
    newer = [f"{name} {version}" for name, version in others if name in dict(known)]
    session.log(f"other releases than in constraints.txt: {', '.join(newer) or 'none'}")
    if newer or session.posargs:
        run_pytest(session, "-m", "not slow")


def split_versions(requirements: Iterable[str]) -> set[tuple[str, str]]:
    """The names, as pip compares them, and versions of lines `NAME==VERSION`."""
    parts = [line.strip().split("==") for line in requirements if "==" in line]
    return {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in parts}


@nox.session
def constraints(session: nox.Session) -> None:
    """Writes `constraints.txt`: the newest releases that fit together, of all that this checkout can ask for."""
    session.install("--upgrade", "uv")
    options = "--upgrade", "--all-packages", "--all-groups", "--all-extras", "--no-emit-workspace"
    plain = "--no-hashes", "--no-annotate", "--no-header"
    found = session.run("uv", "export", *options, *plain, silent=True)
    versions = [line for line in str(found).splitlines() if "==" in line]
    CONSTRAINTS.write_text("\n".join(["# Written by `nox -s constraints`.", *versions, ""]), encoding="utf-8")


@nox.session
def lint(session: nox.Session) -> None:
    """Style and formatting."""
    install(session, *nox.project.dependency_groups(PYPROJECT, "lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def layers(session: nox.Session) -> None:
    """The layers import one way only; packages and examples use public names of the core only."""
    install_checkout(session, "lint")
    session.run("lint-imports")
    session.run("python", "scripts/private_uses.py")


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
    session.run("zensical", "build", "--clean", "--strict", silent=True)


@nox.session
def torture(session: nox.Session) -> None:
    """What may go wrong, tried on the first-party plugins and the examples."""
    install_checkout(session)
    session.run("registry", "torture", "--all", silent=not session.posargs)


@nox.session(default=False)
def executors(session: nox.Session) -> None:
    """All that `check_executor` checks, of each executor: of those that need a server, CI tries a part."""
    install_checkout(session, "test")
    tests = [
        "tests/testing/test_executors.py",
        *(f"plugins/pegboard-{name}" for name in ("nats", "processes", "temporal")),
    ]
    session.run("pytest", "-m", "", *(session.posargs or tests), env={"PEGBOARD_EXECUTORS": "all"})


@nox.session(default=False)
def kills(session: nox.Session) -> None:
    """What `kill -9` at random moments leaves of calls: `-- nats 100`, `-- temporal --rounds 100`, or `-- postgres`."""
    programs = {name: f"benchmarks/{name}_kills.py" for name in ("postgres", "temporal")}
    programs["nats"] = "plugins/pegboard-nats/tests/kill_rounds.py"
    if not session.posargs or session.posargs[0] not in programs:
        session.error(f"say which: {', '.join(sorted(programs))}")
    install_checkout(session, "test")
    session.run("python", programs[session.posargs[0]], *session.posargs[1:])


@nox.session
def wheels(session: nox.Session) -> None:
    """README's first command in an empty virtual environment, from built wheels."""
    install(session, "build", "hatchling", *(["uv"] if shutil.which("uv") is None else []))
    session.run("python", "scripts/try_wheels.py", *session.posargs)


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Builds all packages into `dist`, and checks them: see RELEASING.md. `-- NAME...` installs only these alone."""
    install(session, *nox.project.dependency_groups(PYPROJECT, "release"))
    session.run("python", "scripts/release.py", *session.posargs)


@nox.session
def downstream(session: nox.Session) -> None:
    """Each plugin's own tests, with nothing installed but what it and its tests ask for; `-- NAME...` runs these."""
    local = {plugin.name: plugin for plugin in PLUGINS} | {"fake-vendors": ROOT / "tests" / "fake_vendors"}
    install(session, "uv>=0.8")
    failed: list[str] = []
    for plugin in (each for each in PLUGINS if not session.posargs or each.name in session.posargs):
        asked = nox.project.dependency_groups(nox.project.load_toml(plugin / "pyproject.toml"), "test")
        wanted = (["-e", str(local[name])] if name in local else [name] for name in (plugin.name, *asked))
        folder = ROOT / ".nox" / "alone" / plugin.name
        session.run("uv", "venv", "-q", "--clear", "--python", Path(session.bin, "python"), folder)
        command = "uv", "pip", "install", "-q", "--python", folder, "-e", "."
        try:
            session.run(*command, *(part for parts in wanted for part in parts), env=CONSTRAINED)
            session.run(
                folder / "bin" / "pytest", "-m", "not slow", plugin, "-o", "filterwarnings=default", external=True
            )
        except nox.command.CommandFailed:
            failed.append(plugin.name)
    if failed:
        session.error(f"failed: {', '.join(failed)}")


@nox.session
def interop(session: nox.Session) -> None:
    """Programs of others that speak the Model Context Protocol, with the server and the client of pegboard-mcp."""
    install_checkout(session, "test", "interop")
    session.run("pytest", *(session.posargs or ["plugins/pegboard-mcp/tests/interop"]))


@nox.session
def neighbours(session: nox.Session) -> None:
    """Packages that work with programs of others, each with its newest and its oldest supported release.

    `-- NAME` runs one peer, `-- NAME oldest` one release, and `-- --ci` the newest releases of those that CI runs;
    options behind them are pytest's. A run of all writes its table into the docs. A file
    `plugins/PACKAGE/tests/neighbours/peers.toml` has a table for each peer:

        [langchain]
        extra = "langchain"  # of the package, if there is one
        test = "test_langchain.py"  # beside this file
        newest = ["langchain==1.5.2"]
        oldest = ["langchain==1.0.0"]  # left out where only one release works
        ci = true
    """
    named, options = list(session.posargs), []
    if first := next((word for word in named if word.startswith("-") and word != "--ci"), None):
        named, options = named[: named.index(first)], named[named.index(first) :]
    releases = [each for each in ("newest", "oldest") if each in named]
    releases = releases or (["newest"] if "--ci" in named else ["newest", "oldest"])
    asked = [word for word in named if word not in ("newest", "oldest", "--ci")]
    if unknown := [name for name in asked if name not in PEERS]:
        session.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    peers = asked or [name for name, (peer, _) in PEERS.items() if peer.get("ci") or "--ci" not in named]
    chosen = [(name, release) for name in peers for release in releases if release in PEERS[name][0]]
    if not chosen:
        session.error("no peers.toml has a peer with this release")
    install(session, "uv>=0.8")
    passed: dict[tuple[str, str], int] = {}
    for name, release in chosen:
        with suppress(nox.command.CommandFailed):
            passed[name, release] = run_peer(session, name, release, options)
    if failed := [" ".join(each) for each in chosen if each not in passed]:
        session.error(f"failed: {', '.join(failed)}")
    if not named and not options:
        write_peers(passed)


def run_peer(session: nox.Session, name: str, release: str, options: Sequence[str]) -> int:
    """Runs the tests of a package with one release of a peer, in a new environment; gives how many have passed."""
    peer, plugin = PEERS[name]
    folder = ROOT / ".nox" / "peers" / f"{name}-{release}"
    extra = f"[{peer['extra']}]" if "extra" in peer else ""
    tests = nox.project.dependency_groups(nox.project.load_toml(plugin / "pyproject.toml"), "test")
    local = [str(path) for path in PLUGINS if path.name in tests]
    others = [each for each in tests if not (ROOT / "plugins" / each).exists()]
    wanted = [part for path in (".", f"{plugin}{extra}", *local) for part in ("-e", path)]
    session.run("uv", "venv", "-q", "--clear", "--python", Path(session.bin, "python"), folder)
    command = "uv", "pip", "install", "-q", "--python", folder, "--exclude-newer", PEERS_BEFORE
    session.run(*command, *wanted, *others, *peer[release])
    # `default`: other programs warn.
    test = plugin / "tests" / "neighbours" / peer["test"]
    report = folder / "report.xml"
    command = folder / "bin" / "pytest", test, "-o", "filterwarnings=default", f"--junitxml={report}"
    session.run(*command, *options, external=True)
    (suite,) = ET.parse(report).getroot()  # noqa: S314  pytest has written it
    return int(suite.attrib["tests"]) - int(suite.attrib["skipped"])


def write_peers(passed: Mapping[tuple[str, str], int]) -> None:
    """Writes the table of all peers, with the tests that each release has passed, to the end of its page."""
    rows = ["| program | oldest release | tests passed | newest release | tests passed |", "|---|---|---|---|---|"]
    for name, (peer, _) in PEERS.items():
        cells = [name]
        for release in ("oldest", "newest"):
            cells += [peer[release][0].replace("==", " "), str(passed[name, release])] if release in peer else ["-"] * 2
        rows.append(f"| {' | '.join(cells)} |")
    text = PEERS_PAGE.read_text("utf-8")
    head = text[: text.index("On 20")]
    PEERS_PAGE.write_text(f"{head}On {datetime.now(UTC):%Y-%m-%d}:\n\n" + "\n".join([*rows, ""]), "utf-8")


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmarks' own tests, then the figures, beside the floor and the peers; see benchmarks/README.md."""
    install_checkout(session, "test", "bench")
    session.run("pytest", "benchmarks")
    if session.posargs != ["--tests-only"]:
        session.run("python", "benchmarks/run.py", *session.posargs)
