"""Makes a virtual environment for pegboard and for every peer, each with what `peers.txt` pins.

    python benchmarks/peers.py setup [NAME ...]    makes or completes them
    python benchmarks/peers.py pin [NAME ...]      resolves the newest versions and writes peers.txt anew

Uses uv where it is there, else venv and pip.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parents[1]
PINS = Path(__file__).with_name("peers.txt")
VENVS = ROOT / ".cache" / "peers"
OURS = "pegboard"
SERVERS = "servers"
"""The section of all servers of the Model Context Protocol, which are no peers: they are called from outside."""

_MEASURED = ("anthropic", "bedrock", "clients", "google", "ollama", "openai", "processes")
CHECKOUTS = {
    OURS: {OURS: ROOT} | {f"pegboard-{name}": ROOT / "plugins" / f"pegboard-{name}" for name in _MEASURED},
    SERVERS: {OURS: ROOT, **{name: ROOT / "plugins" / name for name in ("pegboard-clients", "pegboard-mcp")}},
}
"""What the environments of these sections get of this checkout, as wheels: the pins are what these depend on."""


@frozen
class Peer:
    """One section of `peers.txt`.

    Attributes:
        name: Of the section, the environment and the adapter.
        wanted: What is installed for its own sake, as `name==version`.
        needed: What that brings along, pinned too.
    """

    name: str
    wanted: tuple[str, ...]
    needed: tuple[str, ...]

    @property
    def pins(self) -> tuple[str, ...]:
        return (*self.wanted, *self.needed)


def read_pins(path: Path = PINS) -> dict[str, Peer]:
    """The sections of `peers.txt`, by name."""
    sections: dict[str, list[str]] = {}
    lines = sections.setdefault("", [])
    for line in path.read_text().splitlines():
        if line.startswith("["):
            lines = sections.setdefault(line.strip("[]"), [])
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    return {name: _peer(name, lines) for name, lines in sections.items() if name}


def _peer(name: str, lines: list[str]) -> Peer:
    needed = tuple(line.strip() for line in lines if line.startswith(" "))
    return Peer(name, tuple(line for line in lines if not line.startswith(" ")), needed)


def write_pins(peers: dict[str, Peer], path: Path = PINS) -> None:
    """Writes them as they are read; the comment on top stays."""
    parts = ["".join(line for line in path.read_text().splitlines(keepends=True) if line.startswith("#"))]
    for peer in peers.values():
        lines = [f"[{peer.name}]", *peer.wanted, *(f"    {pin}" for pin in peer.needed)]
        parts.append("\n".join(lines) + "\n")
    path.write_text("\n".join(parts))


def python_of(venvs: Path, name: str) -> Path:
    """The interpreter of an environment, whether it is there or not."""
    return venvs / name / "bin" / "python"


def set_up(peer: Peer, venvs: Path) -> None:
    """Makes an environment, or completes one; pegboard's gets the checkout as it is now."""
    python = _made(venvs / peer.name)
    if peer.pins:
        _install(python, peer.pins)
    if peer.name in CHECKOUTS:
        install_checkout(python, peer.name)


def install_checkout(python: Path, name: str = OURS) -> None:
    """Puts this checkout into an environment, as wheels: what is measured is what people get."""
    checkouts = CHECKOUTS[name]
    _install(python, tuple(map(str, checkouts.values())), again=tuple(checkouts))


def pinned(peer: Peer) -> Peer:
    """The same peer at the newest versions that go together."""
    names = tuple(re.split(r"[=\[ ]", pin)[0] for pin in peer.wanted)
    with tempfile.TemporaryDirectory() as folder:
        python = _made(Path(folder) / "venv")
        checkouts = CHECKOUTS.get(peer.name, {})
        _install(python, (*names, *map(str, checkouts.values())))
        listed = _run(python, "-c", _LIST).split()
    wanted = {name.lower() for name in names}
    found = {pin.partition("==")[0]: pin for pin in listed}
    return Peer(
        peer.name,
        tuple(found.pop(name) for name in sorted(wanted)),
        tuple(pin for name, pin in sorted(found.items()) if name not in (*checkouts, "pip", "setuptools")),
    )


_LIST = """
import importlib.metadata, re
for each in importlib.metadata.distributions():
    print(re.sub("[-_.]+", "-", each.metadata["Name"]).lower() + "==" + each.version)
"""


def _made(folder: Path) -> Path:
    python = python_of(folder.parent, folder.name)
    if not python.exists():
        uv = shutil.which("uv")
        make = [uv, "venv", "-q", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
        subprocess.run([*make, str(folder)], check=True)
    return python


def _install(python: Path, what: tuple[str, ...], *, again: tuple[str, ...] = ()) -> None:
    uv = shutil.which("uv")
    if uv:
        argv = [uv, "pip", "install", "-q", "--compile-bytecode", "--python", str(python)]
        argv += [part for name in again for part in ("--reinstall-package", name)]
    else:
        argv = [str(python), "-m", "pip", "install", "-q", *(["--force-reinstall", "--no-deps"] if again else [])]
    subprocess.run([*argv, *what], check=True)


def _run(python: Path, *argv: str) -> str:
    return subprocess.run([str(python), *argv], check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["setup", "pin"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--venvs", type=Path, default=VENVS, help="where the environments are (.cache/peers)")
    asked = parser.parse_args()
    peers = read_pins()
    unknown = set(asked.names) - peers.keys()
    if unknown:
        parser.error(f"{PINS.name} has no section {', '.join(sorted(unknown))}; it has {', '.join(peers)}")
    for name in asked.names or list(peers):
        print(f"{asked.action} {name}", file=sys.stderr)
        if asked.action == "setup":
            set_up(peers[name], asked.venvs)
        else:
            peers[name] = pinned(peers[name])
            write_pins(peers)


if __name__ == "__main__":
    main()
