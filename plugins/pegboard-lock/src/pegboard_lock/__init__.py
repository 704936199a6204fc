"""pegboard-lock: a lock file for definitions of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_lock.check import Comparison, Present
    from pegboard_lock.code import CodeDigests
    from pegboard_lock.compare import SchemaChange, compare_arguments
    from pegboard_lock.drift import Drift
    from pegboard_lock.lock_file import Lock, LockError, parse_lock, read_lock, write_lock
    from pegboard_lock.plugin import LockPlugin
    from pegboard_lock.present import lock_of
    from pegboard_lock.servers import accept_toolset, pins_of
    from pegboard_lock.settings import LockSettings, lock_path, read_settings

__all__ = (
    "CodeDigests",
    "Comparison",
    "Drift",
    "Lock",
    "LockError",
    "LockPlugin",
    "LockSettings",
    "Present",
    "SchemaChange",
    "accept_toolset",
    "compare_arguments",
    "lock_of",
    "lock_path",
    "parse_lock",
    "pins_of",
    "read_lock",
    "read_settings",
    "write_lock",
)

_MODULES = {
    **dict.fromkeys(("Comparison", "Present"), "check"),
    "CodeDigests": "code",
    **dict.fromkeys(("SchemaChange", "compare_arguments"), "compare"),
    "Drift": "drift",
    **dict.fromkeys(("Lock", "LockError", "parse_lock", "read_lock", "write_lock"), "lock_file"),
    "LockPlugin": "plugin",
    "lock_of": "present",
    **dict.fromkeys(("accept_toolset", "pins_of"), "servers"),
    **dict.fromkeys(("LockSettings", "lock_path", "read_settings"), "settings"),
}
"""Names that are imported at first use."""
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
