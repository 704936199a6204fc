"""pegboard-guard: guards round the calls of tools, each usable alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard_guard.guard import Guard as Guard

if TYPE_CHECKING:
    from pegboard_guard.call_log import CallLog as CallLog
    from pegboard_guard.doom_loop import DoomLoop as DoomLoop
    from pegboard_guard.journal.guard import Journal as Journal
    from pegboard_guard.journal.verify import (
        Broken as Broken,
        Report as Report,
        verify as verify,
        verify_all as verify_all,
    )
    from pegboard_guard.limit import Limit as Limit
    from pegboard_guard.limits import CallLimits as CallLimits
    from pegboard_guard.order.after import ComesAfter as ComesAfter, ComesBefore as ComesBefore
    from pegboard_guard.order.cooldown import Cooldown as Cooldown
    from pegboard_guard.order.exclusive import Exclusive as Exclusive
    from pegboard_guard.order.required import Required as Required
    from pegboard_guard.order.rules import OrderRules as OrderRules

_HOME = {
    "Broken": "journal.verify",
    "CallLimits": "limits",
    "CallLog": "call_log",
    "ComesAfter": "order.after",
    "ComesBefore": "order.after",
    "Cooldown": "order.cooldown",
    "DoomLoop": "doom_loop",
    "Exclusive": "order.exclusive",
    "Journal": "journal.guard",
    "Limit": "limit",
    "OrderRules": "order.rules",
    "Report": "journal.verify",
    "Required": "order.required",
    "verify": "journal.verify",
    "verify_all": "journal.verify",
}
"""Where each name lives; it is imported at first use: the plugin costs what its settings switch on."""

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
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
