"""What went wrong, in one line."""

from __future__ import annotations


def cause_of(error: BaseException) -> str:
    """The type and the text of what was raised, in one line of at most 500 characters."""
    try:
        text = " ".join(str(error).split())[:500]
    except BaseException:  # noqa: BLE001  an exception whose own text can't be had
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
