"""The log of commands that serve for long: bounded, one line a warning."""

from __future__ import annotations

import logging

from pegboard.cli import BoundedHandler, log_to_stderr


def test_the_warnings_of_one_place_are_limited_and_written_on_one_line_each(capsys):
    handler = BoundedHandler()

    def warn(line, text):
        handler.handle(logging.LogRecord("pegboard.mcp", logging.WARNING, "http.py", line, text, (), None))

    for number in range(1_000):
        warn(1, f"number {number}\nof\x1b[31m many" + "x" * 1_000)
    warn(2, "a word")
    *first, last = capsys.readouterr().err.splitlines()
    assert last == "pegboard.mcp: a word"
    assert len(first) == 100
    assert first[0].startswith("pegboard.mcp: number 0 of\\u{1b}[31m many")
    assert first[-1].endswith("(further ones in this minute are left out)")
    assert max(map(len, first)) < 600


def test_a_warning_names_the_error_that_is_logged_with_it(capsys, monkeypatch):
    logger = logging.getLogger("pegboard.mcp")
    monkeypatch.setattr(logger, "handlers", [BoundedHandler()])
    for error in (OSError("gone"), None, False):
        logger.warning("a word", exc_info=error)
    line = "pegboard.mcp: a word"
    assert capsys.readouterr().err.splitlines() == [f"{line}: OSError: gone", line, line]


def test_the_handler_is_installed_once(monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    log_to_stderr()
    log_to_stderr()
    assert [type(each) for each in root.handlers] == [BoundedHandler]
