"""A server for all tests, and a schema of its own for each."""

from __future__ import annotations

from itertools import count

import pytest

from pegboard_postgres import Database
from postgres_server import PostgresServer

_numbers = count(1)


@pytest.fixture(scope="session")
def server():
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def empty(server):
    """A database without tables."""
    database = Database(server.url, f"schema_{next(_numbers)}", seconds=30.0)
    yield database
    database.close()


@pytest.fixture
def database(empty):
    empty.migrate()
    return empty


@pytest.fixture
def opened(empty, server):
    """Makes further databases over the same schema, as other processes have."""
    others = []

    def make(url=server.url, **options):
        others.append(Database(url, empty.schema, **({"seconds": 30.0} | options)))
        return others[-1]

    yield make
    for other in others:
        other.close()
