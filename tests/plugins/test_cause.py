"""What went wrong, in one line."""

from __future__ import annotations

from pegboard.plugins.cause import cause_of


class MuteError(Exception):
    """An exception whose text can't be had."""

    def __str__(self) -> str:
        raise RuntimeError


def test_one_line_whatever_the_text() -> None:
    """Line ends become spaces, long texts are cut."""
    assert cause_of(ValueError("a\n  b")) == "ValueError: a b"
    assert cause_of(ValueError()) == "ValueError"
    assert cause_of(MuteError()) == "MuteError"
    assert len(cause_of(ValueError("x" * 10_000))) < 520
