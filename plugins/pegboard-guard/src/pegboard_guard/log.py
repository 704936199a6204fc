"""Logging: one line for each call, and warnings that only the operator should see."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from pegboard import Tool, ToolContext, ToolResult, hookimpl
from pegboard_guard.redact import Redactor
from pegboard_guard.settings import flag

log: Final = logging.getLogger("pegboard.guard")
log.addHandler(logging.NullHandler())  # silent where the program has set up no logging


def warn(text: str) -> None:
    """Warns the operator that something doesn't work as configured.

    If the program has set up no logging, it goes to standard error, as in Python's own logging: a journal that silently
    isn't written would be worse than none.
    """
    log.warning("%s", text)
    if not _has_handler() and logging.lastResort is not None:
        logging.lastResort.handle(
            log.makeRecord(log.name, logging.WARNING, __file__, 0, f"{log.name}: {text}", (), None)
        )


def _has_handler() -> bool:
    """Whether this logger has any handler but a `NullHandler`."""
    logger: logging.Logger | None = log
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def warn_of_unknown_turn(rule: str) -> None:
    """Warns that a rule can't be applied to calls without a turn."""
    warn(
        f"{rule} counts by turns, and a call has none (invocation or message in its context): "
        "it was let through, as are all such calls"
    )


STARTED: Final = "pegboard_guard.log.started"
RAISED: Final = "pegboard_guard.log.raised"
MOST_LOGGED: Final = 2000
"""Characters of arguments in one line of the log."""


@define(eq=False)
class CallLog:
    """Writes one line a call to the logger `pegboard.guard`: `INFO` if it succeeded, `WARNING` if it failed.

    Attributes:
        log_arguments: Whether the arguments are logged, with what looks like a secret redacted.
    """

    log_arguments: bool = field(default=False, validator=flag)
    _redactor: Redactor | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._redactor = Redactor() if self.log_arguments else None

    @hookimpl(tryfirst=True)
    async def pegboard_before_tool(self, context: ToolContext) -> None:
        """Starts the clock."""
        context.values[of_call(STARTED, context)] = time.monotonic()

    @hookimpl(tryfirst=True)
    async def pegboard_on_tool_error(self, context: ToolContext, error: BaseException) -> None:
        """Stores the type of the error for the line; its text may hold anything."""
        context.values[of_call(RAISED, context)] = type(error).__name__

    @hookimpl(tryfirst=True)
    async def pegboard_after_tool(
        self, context: ToolContext, tool: Tool | None, arguments: Mapping[str, Any], result: ToolResult
    ) -> None:
        """Writes the line."""
        level = logging.WARNING if result.is_error else logging.INFO
        started, raised = (context.values.pop(of_call(key, context), None) for key in (STARTED, RAISED))
        if not log.isEnabledFor(level):
            return
        facts: dict[str, Any] = {
            # An unknown name comes from the model: escaped, so that it can't forge a line of the log.
            "tool": tool.name if tool is not None else ascii(context.tool[:80]),
            "outcome": (result.kind or "error") if result.is_error else "ok",
            "raised": raised if result.kind == "tool_failure" else None,
            "seconds": None if started is None else time.monotonic() - started,
            "session": context.session,
        }
        if self._redactor is not None:
            facts["arguments"] = json.dumps(self._redactor.data(arguments, MOST_LOGGED)[0])[:MOST_LOGGED]
        log.log(level, _line(facts), extra={"pegboard": facts})


def of_call(key: str, context: ToolContext) -> str:
    """A key in the values of a turn for this call only."""
    return f"{key}.{id(context)}"


def _line(facts: Mapping[str, Any]) -> str:
    """The facts as one line: `read_file: tool_failure (OSError) in 0.012 s, session 'a1'`."""
    line = f"{facts['tool']}: {facts['outcome']}"
    if facts["raised"] is not None:
        line += f" ({facts['raised']})"
    if facts["seconds"] is not None:
        line += f" in {facts['seconds']:.3f} s"
    if facts["session"] is not None:
        line += f", session {facts['session']!a}"
    return line if "arguments" not in facts else f"{line}, arguments {facts['arguments']}"
