"""pegboard-lock: a lock file for definitions of tools."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_MODULES = {
    "CodeDigests": "code",
    **dict.fromkeys(("SchemaChange", "compare_arguments"), "compare"),
    **dict.fromkeys(("Comparison", "Present"), "check"),
    "Drift": "drift",
    "lock_of": "present",
    **dict.fromkeys(("Lock", "LockError", "parse_lock", "read_lock", "write_lock"), "lock_file"),
    "LockPlugin": "plugin",
    **dict.fromkeys(("LockSettings", "lock_path", "read_settings"), "settings"),
}
"""Names that are imported at first use."""
__all__ = tuple(sorted(_MODULES))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
