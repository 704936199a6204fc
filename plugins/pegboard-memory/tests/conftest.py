"""A new database for each test."""

from __future__ import annotations

import pytest

from pegboard_memory import Database


@pytest.fixture
def database(tmp_path):
    return Database(tmp_path / "home" / "memory.db", 0.2)
