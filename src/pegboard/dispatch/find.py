"""The stage `find`: the name becomes a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from typing import Final

from pegboard.dispatch.work import CallError, Work
from pegboard.errors import PluginError, StaleSpecError, did_you_mean, suggest
from pegboard.tools.handler import LateHandler

MOST_LISTED: Final = 50


def find(work: Work) -> Awaitable[None] | None:
    """Fills in `work.tool`; a handler that is found late is found once what is given back has been awaited.

    Raises:
        CallError: `unknown_tool`, `not_offered`, or `tool_failure` where the tool's plugin failed.
    """
    tool = work.around.find(work.call.name)
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


def unknown(name: str, available: Sequence[str]) -> CallError:
    """No tool of that name: what is available, and up to three near misses."""
    listed = ", ".join(available[:MOST_LISTED]) or "none"
    more = f" and {len(available) - MOST_LISTED} more" if len(available) > MOST_LISTED else ""
    near = did_you_mean(suggest(name, available))
    return CallError("unknown_tool", f"No tool is called {name[:80]!r}.{near} Available: {listed}{more}.")


def not_offered(name: str, offered: Collection[str]) -> CallError:
    """The tool exists, but this request doesn't offer it."""
    listed = ", ".join(list(offered)[:MOST_LISTED]) or "none"
    return CallError("not_offered", f"{name} is not available for this request. Available: {listed}.")
