"""A root to work in, kept apart from the machine's own git settings."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pegboard_files.tools import FileTools, Settings

RG = Path(sysconfig.get_path("scripts")) / "rg"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """An empty home: no global excludes but those that a test writes."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for kind in ("CONFIG", "STATE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    return folder


@pytest.fixture
def top(tmp_path) -> Path:
    """The root's folder; what stands beside it must never be reached."""
    (tmp_path / "secret.txt").write_text("secret\n")
    folder = tmp_path / "top"
    folder.mkdir()
    return folder


@pytest.fixture
def files(top) -> FileTools:
    """The tools at `top`."""
    return FileTools(Settings(root=str(top)))


@pytest.fixture
def write(top) -> Callable[[Mapping[str, str | bytes]], None]:
    """Writes files below `top` by their relative paths."""

    def run(contents: Mapping[str, str | bytes]) -> None:
        for name, content in contents.items():
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return run


@pytest.fixture(scope="session")
def ripgrep() -> Callable[..., list[str]]:
    """The real ripgrep, run in a folder: its lines."""

    def run(folder: Path, *arguments: str) -> list[str]:
        command = [str(RG), "--no-config", "--no-messages", "--sort", "path", *arguments]
        ran = subprocess.run(command, cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        return ran.stdout.decode().splitlines()

    return run
