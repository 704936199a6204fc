"""`fault_of`: what a failure of PostgreSQL means, in words for models and users, which show no address or data."""

from __future__ import annotations

from typing import Final

from pegboard import ToolError

_LATER: Final = "Try again later."
_TELL: Final = "Continue without it, and tell the user to run: registry doctor"
_UNCHANGED: Final = "Nothing was changed."
_UNKNOWN: Final = "If something was to be changed, it isn't known whether it was."
# By SQLSTATE, or its first two letters, which are its class: what happened, and whether it passes.
_STATES: Final = {
    "57014": ("took longer than {seconds:g} s", True),
    "55P03": ("took longer than {seconds:g} s", True),
    "40": ("was changed by another program at the same time", True),
    "53": ("has no room or connection left", True),
    "57P": ("is being stopped or started", True),
    "58": ("failed to use its disk", False),
    "XX": ("is damaged", False),
    "25006": ("can't be written: it is a copy, or read-only", False),
    "42501": ("refuses the program's user", False),
    "42P01": ("lacks tables", False),
    "3F000": ("lacks tables", False),
    "22": ("can't store this value", False),
    "54": ("can't store so much", False),
}


class DatabaseError(ToolError):
    """The shared database can't be used.

    Attributes:
        is_outcome_known: Whether nothing was changed for sure.
    """

    is_outcome_known: bool = True


def fault_of(error: Exception, seconds: float, *, has_begun: bool) -> DatabaseError:
    """The error for a failure.

    Args:
        error: psycopg's error, or one of the system.
        seconds: The time limit.
        has_begun: Whether statements may have run; else no connection was made.
    """
    state: str = getattr(error, "sqlstate", None) or ""
    if not has_begun and not state:
        what, passes = "can't be reached", True
        if isinstance(error, TimeoutError):
            what = f"didn't answer within {seconds:g} s, or all connections to it are in use"
    else:
        found = next((_STATES[key] for key in (state, state[:3], state[:2]) if key and key in _STATES), None)
        what, passes = found or (f"failed (SQLSTATE {state})", False) if state else ("was lost", True)
    is_known = not has_begun or bool(state)
    text = f"The shared database {what.format(seconds=seconds)}. {_UNCHANGED if is_known else _UNKNOWN}"
    fault = DatabaseError(text, retryable=passes, hint=_LATER if passes else _TELL)
    fault.is_outcome_known = is_known
    return fault
