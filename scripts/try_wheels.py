"""Builds every wheel and runs the README's first command from them in an empty virtual environment.

python scripts/try_wheels.py

Packages that the README installs from the checkout (`.`, `./plugins/NAME`) are installed from wheels; the rest of the
command runs unchanged. Then all other plugins and a package written by `registry new` are installed, listed and tested.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))


def main() -> None:
    """Raises `CalledProcessError` if a command fails."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        wheels = place / "wheels"
        build = sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels)
        for project in (ROOT, *PLUGINS):
            run(*build, str(project), quiet=True)
        environment = environment_of(place)
        shell(first_command(wheels), place, environment)
        try_plugins(place, wheels, environment)
        try_new_package(place, environment)
        print("1 passed, 0 failed")


def first_command(wheels: Path) -> str:
    """The README's command with wheels instead of the checkout's folders."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- first command -->.*?```console\n\$ (.+?)\n```", text, re.DOTALL)
    assert found is not None, "README.md has no first command"
    command = found.group(1)
    assert " . " in command
    command = command.replace(" . ", f" {wheel_of(wheels, 'pegboard')} ", 1)
    for plugin in PLUGINS:
        command = command.replace(f"./plugins/{plugin.name}", str(wheel_of(wheels, plugin.name)))
    assert "./plugins/" not in command, command
    return f"cp -r {ROOT / 'src'} {ROOT / 'constraints.txt'} . && {command}"


def wheel_of(wheels: Path, name: str) -> Path:
    """The wheel of one distribution."""
    (wheel,) = wheels.glob(f"{name.replace('-', '_')}-*.whl")
    return wheel


def try_plugins(place: Path, wheels: Path, environment: dict[str, str]) -> None:
    """Installs all first-party plugins and their shared packages together."""
    names = " ".join(str(wheel_of(wheels, plugin.name)) for plugin in PLUGINS)
    # Not all have one: the tools of pegboard-llm are those of other packages.
    checked = " ".join(plugin.name for plugin in PLUGINS if any(plugin.glob("src/*/pegboard-manifest.json")))
    shell(
        f".venv/bin/pip install -q -c constraints.txt {names} && "
        ".venv/bin/registry plugins && "
        ".venv/bin/registry doctor && "
        f".venv/bin/registry manifest check {checked} && "
        ".venv/bin/registry call update_memory operation=create name=user content=Ann && "
        ".venv/bin/registry call load_artifacts && "
        ".venv/bin/registry call --yes write_file path=made.txt content=made && "
        ".venv/bin/registry call --yes edit_file path=made.txt old_string=made new_string=edited && "
        "grep -q edited made.txt",
        place,
        environment,
    )


def try_new_package(place: Path, environment: dict[str, str]) -> None:
    """The smallest useful plugin: written, installed, listed, tested."""
    shell(
        ".venv/bin/registry new demo --path made && "
        ".venv/bin/pip install -q -c constraints.txt pytest ./made/pegboard-demo && "
        ".venv/bin/registry list --plugin demo && "
        ".venv/bin/python -m pytest -q made/pegboard-demo",
        place,
        environment,
    )


def environment_of(place: Path) -> dict[str, str]:
    """An environment with an empty home, and without an active virtual environment."""
    home = place / "home"
    home.mkdir()
    removed = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "XDG_", "PEGBOARD_")
    return {key: value for key, value in os.environ.items() if not key.startswith(removed)} | {"HOME": str(home)}


def shell(command: str, place: Path, environment: dict[str, str]) -> None:
    """Runs one line in bash."""
    print(f"$ {command}", flush=True)
    subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=place, env=environment, check=True)


def run(*command: str, quiet: bool = False) -> None:
    """Runs one command; a quiet one only prints its output if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE if quiet else None, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.stdout.buffer.write(done.stdout or b"")
        raise subprocess.CalledProcessError(done.returncode, command)


if __name__ == "__main__":
    main()
