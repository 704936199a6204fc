"""pegboard-guard: guards for tool calls, each usable alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names
from pegboard_guard.counters import Counters
from pegboard_guard.doom_loop import DoomLoop
from pegboard_guard.guard import Guard
from pegboard_guard.limits import CallLimits, Limit
from pegboard_guard.log import CallLog
from pegboard_guard.order import OrderRules
from pegboard_guard.ordering import (
    ComesAfter,
    ComesBefore,
    Cooldown,
    Distinct,
    EndsTurn,
    Exclusive,
    NotAfter,
    Required,
)
from pegboard_guard.telling import TellRules

if TYPE_CHECKING:
    from pegboard_guard.approvals import FileApprovals
    from pegboard_guard.gate import ModelGate
    from pegboard_guard.journal import Journal, JournalSink
    from pegboard_guard.journal_check import Broken, Report, verify, verify_all
    from pegboard_guard.journal_file import encode, time_text

__all__ = (
    "Broken",
    "CallLimits",
    "CallLog",
    "ComesAfter",
    "ComesBefore",
    "Cooldown",
    "Counters",
    "Distinct",
    "DoomLoop",
    "EndsTurn",
    "Exclusive",
    "FileApprovals",
    "Guard",
    "Journal",
    "JournalSink",
    "Limit",
    "ModelGate",
    "NotAfter",
    "OrderRules",
    "Report",
    "Required",
    "TellRules",
    "encode",
    "time_text",
    "verify",
    "verify_all",
)

_MODULES = {
    "FileApprovals": "approvals",
    "ModelGate": "gate",
    **dict.fromkeys(("Journal", "JournalSink"), "journal"),
    **dict.fromkeys(("Broken", "Report", "verify", "verify_all"), "journal_check"),
    **dict.fromkeys(("encode", "time_text"), "journal_file"),
}
"""Names that are imported at first use, as the journal loads asyncio and hashlib, and the gate turns."""
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
