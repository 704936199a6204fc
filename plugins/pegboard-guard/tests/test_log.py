from __future__ import annotations

import logging

import pytest

from pegboard_guard.log import log, warn


@pytest.fixture
def last_resort(monkeypatch):
    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    monkeypatch.setattr(logging, "lastResort", handler)
    return told


def test_where_the_program_has_set_up_no_logging_it_goes_where_python_puts_it(last_resort, monkeypatch):
    monkeypatch.setattr(log, "propagate", False)
    warn("it is full")
    assert last_resort == ["pegboard.guard: it is full"]


def test_where_it_has_it_goes_there_only(last_resort, caplog):
    warn("it is full: 100%s")
    assert [record.getMessage() for record in caplog.records] == ["it is full: 100%s"]
    assert last_resort == []


def test_a_program_that_wants_nothing_gets_nothing(monkeypatch):
    monkeypatch.setattr(log, "propagate", False)
    monkeypatch.setattr(logging, "lastResort", None)
    warn("it is full")
