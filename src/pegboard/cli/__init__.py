"""The `registry` command."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_MODULES = {
    "FILE": "options",
    "OPEN_QUESTIONS": "output",
    "Options": "options",
    "Screen": "output",
    "Session": "session",
    "Status": "output",
    "approver_for": "run",
    "call_options": "options",
    "configuration_of": "session",
    "context_of": "options",
    "context_options": "options",
    "dialogue": "run",
    "flush_input": "run",
    "interruptible": "run",
    "json_line": "output",
    "json_pretty": "output",
    "json_rows": "output",
    "one_line": "output",
    "open_session": "session",
    "pictures": "output",
    "plugins_of": "commands.manifest",
    "quiet": "output",
    "read_stdin": "output",
    "registry_options": "options",
    "remark": "output",
    "report_error": "output",
    "rows_text": "output",
    "show_progress": "run",
    "show_request": "run",
    "stderr_screen": "output",
    "stdin_is_terminal": "output",
    "stdout_screen": "output",
    "tool_options": "options",
    "tools_text": "output",
    "unanswered": "run",
    "where_option": "session",
    "write": "output",
    "write_event": "run",
    "write_through": "output",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
