"""The stage `find`: the name becomes a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from typing import Final

from pegboard.dispatch.limits import CallError
from pegboard.dispatch.work import Work
from pegboard.errors import PluginError, StaleSpecError, did_you_mean, suggest
from pegboard.tools.call import ToolCall
from pegboard.tools.handler import LateHandler

MOST_LISTED: Final = 50
_MOST_OF_A_NAME: Final = 80


class UnknownNameError(CallError):
    """No tool of that name: kind `unknown_tool`.

    Attributes:
        available: The names that there are, in order.
    """

    def __init__(self, text: str, available: Sequence[str] = ()) -> None:
        self.available = available
        super().__init__("unknown_tool", text)


def find(work: Work) -> Awaitable[None] | None:
    """Fills in `work.tool`; a handler that is found late is found once what is given back has been awaited.

    Raises:
        CallError: `unknown_tool`, `not_offered`, or `tool_failure` where the tool's plugin failed; `not_executed` for
            a call that the provider has executed; for a call marked invalid, what it is marked with.
    """
    call = work.call
    if call.error is not None or call.provider_executed:
        raise _not_to_run(call)
    if not isinstance(call.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  hosts may pass on anything
        raise UnknownNameError("The call names no tool: its name is no text.")
    tool = work.around.find(call.name)
    if isinstance(tool.handler, LateHandler):
        return _load(work, tool.handler)
    work.tool = tool
    return None


async def _load(work: Work, late: LateHandler) -> None:
    try:
        work.tool = await work.around.threads.run(late.load)
    except StaleSpecError as error:
        text = f"{work.call.name} has changed since it was listed and was not run."
        raise CallError("tool_failure", text, detail=str(error)) from error
    except PluginError as error:
        text = f"{work.call.name} can't be run: what brings it failed to load."
        raise CallError("tool_failure", text, detail=str(error)) from error


def _not_to_run(call: ToolCall) -> CallError:
    if call.error is not None:
        return CallError(call.error.kind, call.error.text, problems=call.error.problems)
    return CallError("not_executed", f"{call.name} was not run here: the model's provider has executed it.")


def unknown(name: str, available: Sequence[str]) -> UnknownNameError:
    """No tool of that name: what is available, and up to three near misses."""
    listed = ", ".join(available[:MOST_LISTED]) or "none"
    more = f" and {len(available) - MOST_LISTED} more" if len(available) > MOST_LISTED else ""
    near = did_you_mean(suggest(name, available))
    return UnknownNameError(
        f"No tool is called {name[:_MOST_OF_A_NAME]!r}.{near} Available: {listed}{more}.", available
    )


def not_offered(name: str, offered: Collection[str]) -> CallError:
    """The tool exists, but this request doesn't offer it."""
    listed = ", ".join(list(offered)[:MOST_LISTED]) or "none"
    more = f" and {len(offered) - MOST_LISTED} more" if len(offered) > MOST_LISTED else ""
    return CallError("not_offered", f"{name} is not available for this request. Available: {listed}{more}.")
