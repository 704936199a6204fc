"""The stage `permit`: rules and modes decide whether a call runs, is refused, or has to be asked about."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Final, cast

from pegboard.dispatch.approval.grants import session_key
from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.dispatch.permissions.rules import Decision
from pegboard.dispatch.work import CallError, Work
from pegboard.tools.tool import Tool

MOST_AT_ONCE: Final = 2_000
"""Characters (an item of a list counts as 10 more) that are looked at on the event loop; more are in a thread."""


def permit(work: Work) -> Awaitable[None] | None:
    """Fills in `work.asks` where a person has to be asked.

    Raises:
        CallError: `denied`.
    """
    permissions, tool = work.around.permissions, work.tool
    assert tool is not None
    if permissions is None or permissions.settled(tool):
        return None
    if tool.confirms is not None:
        return _decide_in_time(work, permissions, tool)
    if _is_long(work.arguments):
        return work.around.threads.run(_decide, work, permissions, tool)
    _decide(work, permissions, tool)
    return None


async def _decide_in_time(work: Work, permissions: Permissions, tool: Tool) -> None:
    """Decides in a thread, as the tool's own predicate is asked, which may take long."""
    import asyncio

    try:
        async with asyncio.timeout(work.around.limits.callback_timeout):
            await work.around.threads.run(_decide, work, permissions, tool)
    except TimeoutError:
        text = f"{tool.name} was not run: it didn't say in time whether the call has to be confirmed."
        raise CallError("denied", text) from None


def _is_long(arguments: Mapping[str, Any]) -> bool:
    """Whether there is much to look at."""
    left = MOST_AT_ONCE
    for value in arguments.values():
        left -= len(value) if type(value) is str else _length(value)
    return left < 0


def _length(value: Any) -> int:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return 10 * len(items) + sum(len(each) for each in items if isinstance(each, str))
    return len(value) if isinstance(value, str) else 1


def _decide(work: Work, permissions: Permissions, tool: Tool) -> None:
    request, grants = work.context.request, work.around.grants
    granted = () if grants is None else grants.rules(session_key(request))
    arguments, folder = work.arguments, request.work_dir
    decision = permissions.decide(tool, arguments, work_dir=folder, grants=granted)
    if decision.action == "deny":
        raise denial(permissions, tool, decision)
    if decision.action == "ask":
        work.asks = permissions.ask(tool, arguments, decision, work_dir=folder, grants=granted)


def denial(permissions: Permissions, tool: Tool, decision: Decision, permission: str | None = None) -> CallError:
    """The error of a call that is denied: the model learns that much, the operator which rule it was.

    Args:
        permissions: Who decided.
        tool: What was called.
        decision: What was decided.
        permission: What was asked for, where it isn't the tool's own.
    """
    if decision.rule is None and permissions.mode == "plan":
        why = "in plan mode only tools run that change nothing"
    elif decision.rule is None or decision.rule.action == "ask":
        why = f"it needs the permission {permission or _permission(tool)!r}, and nobody is asked"
    else:
        why = f"the permission {permission or _permission(tool)!r} isn't given for this call"
    detail = f"{tool.name}: {decision.reason}" + (f" ({decision.rule})" if decision.rule else "")
    text = f"{tool.name} was not run: {why}. Go on without it, or tell the user what you need."
    return CallError("denied", text, detail=detail)


def _permission(tool: Tool) -> str:
    return tool.spec.permission or tool.name


__all__ = ["denial", "permit"]
