"""Builds what is released into `dist`, and checks it: `python scripts/release.py [NAME...]`.

1. The sdist of each package, and its wheel from that sdist.
2. Of each: its metadata, as PyPI reads it; the licence, `py.typed`, the files of `src`; one version everywhere, also as
   the least one that packages require of each other.
3. Each package, or those that are named, installed alone into an empty environment, as its README says: nothing it
   needs is missing, it can be imported, and README's first example runs.
4. All together: what they bring along without extras, as `dist/sbom.cdx.json` (CycloneDX).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PROJECTS = {path.parent.name: path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))}
PROJECTS = {"pegboard": ROOT, **PROJECTS}
ENVIRON = {**os.environ, "UV_CONSTRAINT": str(ROOT / "constraints.txt")}
FAKE_VENDORS = ROOT / "tests" / "fake_vendors"
"""The providers' servers that some examples call."""


def main() -> None:
    """Ends with what is wrong, if anything is."""
    build()
    problems = [f"{path.name}: {problem}" for path in sorted(DIST.iterdir()) for problem in check_file(path)]
    versions = {path.name.split("-")[1] for path in DIST.glob("*.whl")}
    problems += [f"there are several versions: {', '.join(sorted(versions))}"] if len(versions) > 1 else []
    for name in sys.argv[1:] or PROJECTS:
        print(f"== {name}, alone", flush=True)
        try:
            try_alone(name)
        except subprocess.CalledProcessError as failure:
            problems.append(f"{name}: {' '.join(map(str, failure.cmd))} failed")
    write_sbom()
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(PROJECTS)} packages are in {DIST.name}, and nothing is wrong with them")


def build() -> None:
    """Builds all anew; each wheel from the sdist."""
    shutil.rmtree(DIST, ignore_errors=True)
    for name, folder in PROJECTS.items():
        print(f"== building {name}", flush=True)
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, folder, quiet=True)
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir())


def check_file(path: Path) -> Iterable[str]:
    """What is wrong with one sdist or wheel."""
    name, version = path.name.removesuffix(".tar.gz").split("-")[:2]
    folder = PROJECTS[name.replace("_", "-")]
    below = f"{name}/"
    sources = {each.removeprefix(f"src/{below}") for each in tracked(folder / "src")}
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = set(wheel.namelist())
            metadata = message_from_bytes(wheel.read(f"{name}-{version}.dist-info/METADATA"))
        licence = f"{name}-{version}.dist-info/licenses/LICENSE"
    else:
        top = f"{name}-{version}/"
        with tarfile.open(path) as sdist:
            names = {each.removeprefix(top) for each in sdist.getnames()}
            metadata = message_from_bytes(sdist.extractfile(f"{top}PKG-INFO").read())  # pyright: ignore[reportOptionalMemberAccess]
        licence, below = "LICENSE", f"src/{below}"
    if licence not in names:
        yield "has no LICENSE"
    found = {each.removeprefix(below) for each in names if each.startswith(below)}
    for what, missing in (("lacks", sources - found), ("has besides what git has", found - sources)):
        if missing:
            yield f"{what} {', '.join(sorted(missing))}"
    if "py.typed" not in found:
        yield "has no py.typed"
    yield from check_metadata(metadata)


def check_metadata(metadata: Message) -> Iterable[str]:
    """What is wrong with the metadata, beyond what twine sees."""
    wanted = ("Summary", "License-Expression", "License-File", "Requires-Python", "Description-Content-Type")
    if missing := [field for field in wanted if not metadata[field]]:
        yield f"its metadata have no {', '.join(missing)}"
    for text in metadata.get_all("Requires-Dist", []):
        bounds = {each.operator: each.version for each in Requirement(text).specifier}
        if re.match(r"pegboard\b", text) and (bounds.get(">=") != metadata["Version"] or "<" not in bounds):
            yield f"it requires {text!r}, which should be of its own version or newer, with an upper bound"


def tracked(folder: Path) -> list[str]:
    """The files below a folder that git has, relative to the folder above."""
    done = subprocess.run(
        ["git", "ls-files", "--", folder.name], cwd=folder.parent, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def try_alone(name: str) -> None:
    """Installs a package as its README says, imports it, and runs README's first example.

    Raises:
        CalledProcessError: A command fails.
    """
    readme = PROJECTS[name] / "README.md"
    said = re.search(r"pip install (?:\. |['\"]?pegboard)[^`#\n]*", readme.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place, "alone")
        python = environment / "bin" / "python"
        run("uv", "venv", "-q", "--python", sys.executable, environment)
        install = "uv", "pip", "install", "-q", "--python", python, "--find-links", DIST
        run(*install, *(wheels_in(said[0]) if said and name != "pegboard" else [wheel_of("pegboard")]))
        run("uv", "pip", "check", "-q", "--python", python)
        run(python, "-I", "-c", f"import {name.replace('-', '_')}", place=place)
        project = tomllib.loads((PROJECTS[name] / "pyproject.toml").read_text("utf-8"))
        servers = (each for each in project["dependency-groups"]["test"] if isinstance(each, str))
        run(*install, "sybil", FAKE_VENDORS, *(each for each in servers if not each.startswith("pegboard")))
        code = "-p", "code_blocks", "-p", "no:cacheprovider", "--first-example", "-q", readme
        run(python, "-m", "pytest", *code, PYTHONPATH=str(ROOT / "docs"))


def wheels_in(command: str) -> list[str]:
    """What a README's `pip install` installs: wheels instead of our packages and of a checkout's folders."""
    return [
        re.sub(
            r"^(?:\./plugins/)?(pegboard(?:-[a-z]+)?|\.)(?=\[|$)",
            lambda found: wheel_of(found[1].replace(".", "pegboard")),
            word,
        )
        for word in shlex.split(command)[2:]
    ]


def wheel_of(name: str) -> str:
    """The wheel of one package."""
    (wheel,) = DIST.glob(f"{name.replace('-', '_')}-*.whl")
    return str(wheel)


def write_sbom() -> None:
    """Lists the packages, and all that they bring along, in `dist`."""
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place, "all")
        run("uv", "venv", "-q", "--python", sys.executable, environment)
        # By name: of a file, the list would say where it is on this machine.
        ours = (f"{name}=={Path(wheel_of(name)).name.split('-')[1]}" for name in PROJECTS)
        run("uv", "pip", "install", "-q", "--python", environment, "--find-links", DIST, *ours)
        sbom = "--of", "JSON", "-o", DIST / "sbom.cdx.json", "--pyproject", ROOT / "pyproject.toml"
        options = *sbom, "--mc-type", "library", "--output-reproducible"
        run(sys.executable, "-m", "cyclonedx_py", "environment", *options, environment / "bin" / "python")


def run(*command: str | Path, place: str | Path = ROOT, quiet: bool = False, **environ: str) -> None:
    """Runs one command; a quiet one prints its output only if it fails."""
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if quiet else {}
    done = subprocess.run(command, cwd=place, env={**ENVIRON, **environ}, check=False, **output)
    if done.returncode:
        sys.stdout.buffer.write(done.stdout or b"")
        raise subprocess.CalledProcessError(done.returncode, command)


if __name__ == "__main__":
    main()
