"""Measures pegboard beside bare Python and beside its peers, in one run, and writes RESULTS.md.

python benchmarks/peers.py setup      once
python benchmarks/run.py              under ten minutes
python benchmarks/run.py --quick      under a minute, small sizes: to see that it works, not for figures
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import resource
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import ADAPTERS, FULL, QUICK, Bench, namespace_of, tell
from figures import OURS
from listings import command
from peers import SERVERS, VENVS, install_checkout, python_of, read_pins, set_up
from programs import starts
from report import report
from served import served

PAGE = Path(__file__).resolve().with_name("RESULTS.md")
OTHERS = "<!-- What follows is by other programs; `run.py` keeps it. -->"
GROUPS = ("start", "command", "served", "files", *FULL.inside)


def measured(bench: Bench, groups: Sequence[str], servers: Path | None) -> dict[str, Any]:
    """All groups that are asked for, by name; `servers` is the interpreter that has them."""
    found: dict[str, Any] = {}
    if "start" in groups:
        found["start"] = starts(bench)
    if "command" in groups:
        found |= command(bench)
    if "served" in groups and servers is not None:
        found["served"] = served(bench, servers)
    if "files" in groups and find_spec("pegboard_files") is not None:
        from files import RG, in_files  # imports pegboard, which this Python needn't have

        if RG.exists():
            tell("files")
            found["files"] = in_files(*bench.sizes.files)
    return found | bench.inside([group for group in groups if group in bench.sizes.inside])


def interpreters(asked: argparse.Namespace) -> dict[str, Path]:
    """The interpreters of pegboard and of the peers that are there, by name."""
    wanted = (
        [name for name in read_pins() if name not in (OURS, SERVERS)] if asked.peers is None else asked.peers.split(",")
    )
    there = {name: python for name in wanted if (python := python_of(asked.venvs, name)).exists()}
    missing = [name for name in wanted if name and name not in there]
    if missing:
        tell(f"not there: {', '.join(missing)} (python benchmarks/peers.py setup makes them)")
    return {OURS: asked.python or our_interpreter(asked.venvs), **there}


def our_interpreter(venvs: Path, name: str = OURS) -> Path:
    """That of an environment with this checkout as it is now."""
    python = python_of(venvs, name)
    if python.exists():
        install_checkout(python, name)
    else:
        set_up(read_pins()[name], venvs)
    return python


def servers_interpreter(asked: argparse.Namespace) -> Path | None:
    """That of the environment with the servers of the Model Context Protocol; `None` where they aren't wanted."""
    if "served" not in asked.groups or asked.python is not None:
        return None
    return our_interpreter(asked.venvs, SERVERS)


def circumstances(pythons: Mapping[str, Path], servers: Path | None, asked: argparse.Namespace) -> dict[str, Any]:
    """What the page has to say of the run."""
    distributions = {namespace_of(ADAPTERS / f"{name}.py")["DISTRIBUTION"]: python for name, python in pythons.items()}
    if servers is not None:
        distributions |= dict.fromkeys(("mcp", "fastmcp"), servers)
    return {
        "command": "python benchmarks/run.py" + (" --quick" if asked.quick else ""),
        "quick": asked.quick,
        "day": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version_of(name, python) for name, python in distributions.items()},
    }


def version_of(distribution: str, python: Path) -> str:
    """Its version in an environment."""
    ask = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
    done = subprocess.run([python, "-c", ask, distribution], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def arguments() -> argparse.Namespace:
    """What is asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--groups", default=",".join(GROUPS), help="some of %(default)s")
    parser.add_argument("--peers", help="some of the sections of peers.txt; all that are there by default")
    parser.add_argument("--venvs", type=Path, default=VENVS, help="where the environments are (.cache/peers)")
    parser.add_argument("--python", type=Path, help="measure the pegboard that this interpreter has, as it is")
    parser.add_argument("--output", type=Path, help="the page; RESULTS.md by default, the screen with --quick")
    parser.add_argument("--json", type=Path, help="keep all numbers here")
    asked = parser.parse_args()
    asked.groups = asked.groups.split(",")
    if unknown := set(asked.groups) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    return asked


def main() -> None:
    asked = arguments()
    pythons, servers = interpreters(asked), servers_interpreter(asked)
    with tempfile.TemporaryDirectory() as scratch:
        results = measured(Bench(pythons, QUICK if asked.quick else FULL, Path(scratch)), asked.groups, servers)
    results["meta"] = circumstances(pythons, servers, asked)
    if asked.json is not None:
        asked.json.write_text(json.dumps(results, indent=1))
    output = asked.output or (None if asked.quick else PAGE)
    if output is None:
        print(report(results))
    else:
        before = output.read_text(encoding="utf-8") if output.exists() else ""
        output.write_text("\n".join([report(results), *before.partition(OTHERS)[1:]]), encoding="utf-8")
    if missing := [group for group in asked.groups if group not in results]:
        tell(f"left out: {', '.join(missing)}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    tell(f"done, with {used.ru_utime + used.ru_stime:.0f} s of processor time")


if __name__ == "__main__":
    main()
