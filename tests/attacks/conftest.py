"""The project that is attacked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from attacker import grow, installed, looks
from pegboard import ToolRegistry


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> Path:
    return grow(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def root(project) -> Path:
    """A project for attacks that must change nothing; it is restored after one that did."""
    before = looks(project)
    yield project
    if looks(project) != before:
        shutil.rmtree(project)
        grow(project.parent)


@pytest.fixture(scope="session")
def everything(project) -> ToolRegistry:
    return installed(project, "files", "shell", "memory", "agents", "hooks", "search", "guard")
