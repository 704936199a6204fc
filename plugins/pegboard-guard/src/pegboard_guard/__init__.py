"""pegboard-guard: guards round the calls of tools, each usable alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard_guard.doom_loop import DoomLoop
from pegboard_guard.guard import Guard
from pegboard_guard.log import CallLog
from pegboard_guard.order import ComesAfter, ComesBefore, Cooldown, Exclusive, OrderRules, Required
from pegboard_guard.rules import CallLimits, Limit

if TYPE_CHECKING:
    from pegboard_guard.journal import Journal
    from pegboard_guard.journal_file import Broken, Report, verify, verify_all

__all__ = (
    "Broken",
    "CallLimits",
    "CallLog",
    "ComesAfter",
    "ComesBefore",
    "Cooldown",
    "DoomLoop",
    "Exclusive",
    "Guard",
    "Journal",
    "Limit",
    "OrderRules",
    "Report",
    "Required",
    "verify",
    "verify_all",
)


def __getattr__(name: str) -> object:
    """The journal's names, imported at first use: it loads asyncio and hashlib."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{'journal' if name == 'Journal' else 'journal_file'}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
