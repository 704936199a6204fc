"""The `registry` command."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_MODULES = {
    "FILE_PATH": "options",
    "OPEN_QUESTIONS": "output",
    "Options": "options",
    "Screen": "output",
    "Session": "session",
    "Status": "output",
    "approver_for": "run",
    "call_options": "options",
    "merge_configuration": "session",
    "context_of": "options",
    "context_options": "options",
    "approval_questions": "run",
    "flush_input": "run",
    "handle_interrupts": "run",
    "json_line": "output",
    "json_pretty": "output",
    "json_rows": "output",
    "one_line": "output",
    "open_session": "session",
    "image_escapes": "output",
    "plugins_of": "commands.manifest",
    "hide_status": "output",
    "read_stdin": "output",
    "registry_options": "options",
    "write_note": "output",
    "report_error": "output",
    "rows_text": "output",
    "show_progress": "run",
    "show_request": "run",
    "stderr_screen": "output",
    "stdin_is_terminal": "output",
    "stdout_screen": "output",
    "tool_options": "options",
    "tools_text": "output",
    "unanswered_text": "run",
    "where_option": "options",
    "write": "output",
    "write_event": "run",
    "write_unbuffered": "output",
}
"""Public name -> its module, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
