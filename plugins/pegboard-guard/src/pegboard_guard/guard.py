"""`Guard`: the hooks round each call."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from pegboard import Deny, Tool, ToolContext, ToolResult, hookimpl
from pegboard.tools.json_text import canonical_json, digest_of
from pegboard_guard.settings import GuardSettings
from pegboard_guard.streak import Streaks

STARTED: Final = "pegboard_guard.started"
RAISED: Final = "pegboard_guard.raised"
MOST_LOGGED: Final = 2000
"""Characters of arguments in one line of the log."""

_log: Final = logging.getLogger("pegboard.guard")
_log.addHandler(logging.NullHandler())  # silent where the program has set up no logging
_NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Guard:
    """Logs each call of a tool, and stops a model that makes the same call over and over.

    Each registry has a guard of its own, so that two in one process share nothing. All hooks stand in front
    (`tryfirst`): behind a plugin that answers, they would not be asked, and the clock would start too late.

    Args:
        settings: As `GuardSettings`.

    Raises:
        ValueError: A setting that there isn't, or a value that isn't allowed.
        TypeError: A value of the wrong type.
    """

    def __init__(self, settings: Mapping[str, Any] = _NO_SETTINGS) -> None:
        self._settings = GuardSettings.from_mapping(settings)
        self._streaks = Streaks()

    @hookimpl(tryfirst=True)
    def pegboard_before_tool(self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]) -> Deny | None:
        """Starts the clock; denies a call that the session has just made too often."""
        context.values[STARTED] = time.monotonic()
        most, session = self._settings.doom_loop, context.session
        if not most or session is None:
            return None
        times = self._streaks.count(session, digest_of([tool.name, dict(arguments)]))
        if times < most:
            return None
        return Deny(
            f"this is call number {times} in a row of {tool.name} with the same arguments. "
            "Change the arguments, use another tool, or say what is missing."
        )

    @hookimpl(tryfirst=True)
    def pegboard_on_tool_error(self, context: ToolContext, error: BaseException) -> None:
        """Keeps the type of what was raised for the log; its text may hold anything."""
        context.values[RAISED] = type(error).__name__

    @hookimpl(tryfirst=True)
    def pegboard_after_tool(
        self, context: ToolContext, tool: Tool | None, arguments: Mapping[str, Any], result: ToolResult
    ) -> None:
        """Writes one line for the call."""
        level = logging.WARNING if result.is_error else logging.INFO
        started, raised = context.values.pop(STARTED, None), context.values.pop(RAISED, None)
        if not _log.isEnabledFor(level):
            return
        facts: dict[str, Any] = {
            # An unknown name is the model's own words: escaped, so that it can't forge a line of the log.
            "tool": tool.name if tool is not None else ascii(context.tool[:80]),
            "outcome": (result.kind or "error") if result.is_error else "ok",
            "raised": raised if result.kind == "tool_failure" else None,
            "seconds": None if started is None else time.monotonic() - started,
            "session": context.session,
        }
        if self._settings.log_arguments:
            facts["arguments"] = _shown(arguments)
        _log.log(level, _line(facts), extra={"pegboard": facts})


def _line(facts: Mapping[str, Any]) -> str:
    """The facts as text for people: `read_file: tool_failure (OSError) in 0.012 s, session 'a1'`."""
    line = f"{facts['tool']}: {facts['outcome']}"
    if facts["raised"] is not None:
        line += f" ({facts['raised']})"
    if facts["seconds"] is not None:
        line += f" in {facts['seconds']:.3f} s"
    if facts["session"] is not None:
        line += f", session {facts['session']!a}"
    return line if "arguments" not in facts else f"{line}, arguments {facts['arguments']}"


def _shown(arguments: Mapping[str, Any]) -> str:
    """The arguments as one line of ASCII, cut at 2,000 characters."""
    try:
        text = canonical_json(dict(arguments))
    except (
        TypeError,
        ValueError,
        RecursionError,
    ):  # refused for that very reason, but a call to be logged all the same
        return "(not JSON)"
    return text.encode("ascii", "backslashreplace").decode()[:MOST_LOGGED]
