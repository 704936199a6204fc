"""The `registry` command, and what commands of plugins use: options, the session with its registry, output."""

from __future__ import annotations

from pegboard.lazy import lazy_names

_NAMES = {
    "commands.manifest": "plugins_of",
    "log": "BoundedHandler log_to_stderr",
    "options": "FILE_PATH Options call_options context_of context_options registry_options tool_options where_option",
    "output": (
        "OPEN_QUESTIONS Screen Status hide_status image_escapes json_line json_pretty json_rows one_line "
        "read_stdin report_error rows_text stderr_screen stdin_is_terminal stdout_screen tools_text write "
        "write_note write_unbuffered"
    ),
    "run": (
        "approval_questions approver_for flush_input handle_interrupts show_progress show_request unanswered_text "
        "write_event"
    ),
    "session": "Session merge_configuration open_session",
}
"""Module -> its public names, imported at first use; scripts/public_types.py generates `__init__.pyi` from it."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = tuple(sorted(_MODULES, key=lambda name: (not name.isupper(), name)))  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
