"""The project that attempts are made in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from attacker import (
    grow,
    installed,
    looks,
)
from pegboard import ToolRegistry


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> Path:
    return grow(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def root(project) -> Path:
    """A project for attempts that shall change nothing; what one has changed all the same disturbs no other."""
    before = looks(project)
    yield project
    if looks(project) != before:
        shutil.rmtree(project)
        grow(project.parent)


@pytest.fixture(scope="session")
def everything(project) -> ToolRegistry:
    return installed(project, "files", "shell", "memory", "agents", "hooks", "search", "guard")
