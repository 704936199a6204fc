from __future__ import annotations

import logging

import pytest

from pegboard_guard.log import log, warn


@pytest.fixture
def last_resort(monkeypatch):
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    monkeypatch.setattr(logging, "lastResort", handler)
    return messages


def test_without_logging_a_warning_goes_to_the_last_resort(last_resort, monkeypatch):
    monkeypatch.setattr(log, "propagate", False)
    warn("it is full")
    assert last_resort == ["pegboard.guard: it is full"]


def test_with_logging_a_warning_goes_to_the_handlers_only(last_resort, caplog):
    warn("it is full: 100%s")
    assert [record.getMessage() for record in caplog.records] == ["it is full: 100%s"]
    assert last_resort == []


def test_without_a_last_resort_nothing_is_written(monkeypatch):
    monkeypatch.setattr(log, "propagate", False)
    monkeypatch.setattr(logging, "lastResort", None)
    warn("it is full")
