"""Tools, requests and states for the tests of approval."""

from __future__ import annotations

import asyncio

from attrs import evolve

from pegboard import (
    ApprovalRequest,
    Limits,
    Permissions,
    ReadonlyContext,
    Tool,
    ToolAnnotations,
    ToolCall,
    ToolContext,
    ToolSpec,
)
from pegboard.approval import MemoryGrants, PendingCall, tool_key
from pegboard.dispatch.approval.pending import ResumedCall, digest_of_call
from pegboard.dispatch.approval.queue import ApprovalQueue
from pegboard.dispatch.approve import asking_of
from pegboard.dispatch.state import CallSnapshot, CallState, CurrentPermissions, Runtime, Settings
from pegboard.json import json_text

NOW = 1_700_000_000.0


def a_tool(name="delete", **facts):
    names = ("description", "title", "permission", "permission_arguments", "requires_confirmation")
    spec = {name: facts.pop(name) for name in names if name in facts}
    hints = ToolAnnotations(destructive_hint=facts.pop("destructive", None))
    return Tool(ToolSpec(name, input_schema={"type": "object"}, annotations=hints, **spec), **facts)


def a_request(name="delete", arguments=None, *, tool=None, **facts):
    tool = tool or a_tool(name)
    arguments = {"path": "a.txt"} if arguments is None else arguments
    call = ToolCall(tool.name, str(json_text(arguments)), "call-1")
    facts = {"permission": "delete", "patterns": ("a.txt",), "always": ("a.txt",), **facts}
    return ApprovalRequest(call, digest_of_call(tool_key(tool), arguments), tool=tool, **facts)


def a_pending(name="delete", arguments=None, *, tool=None, approved=False, earlier=(), created=NOW, **facts):
    request = a_request(name, arguments, tool=tool, **facts)
    return PendingCall.of(request, tool_key(request.tool), created=created, approved=approved, earlier=tuple(earlier))


def resumed(pending, answer, grants=None):
    """The approval and the confirmation of a pending call."""
    return authorized(ResumedCall(pending, answer), grants or MemoryGrants(), ReadonlyContext(session="s"))


def authorized(resumed, grants, context, tool=None):
    async def run(function, *given):
        return function(*given)

    return asyncio.run(resumed.authorize(grants, context, tool, run))


def shared_by_calls(approver=None, *, seconds=60.0, grants=None, approvals=None, rules=(), **changes):
    """What calls share: the snapshot and the settings."""
    grants = MemoryGrants() if grants is None else grants
    limits = evolve(Limits(), approval_timeout=seconds, **changes.pop("limits", {}))
    current = CurrentPermissions(changes.pop("permissions", Permissions(rules)))
    snapshot = CallSnapshot(Runtime(grants=grants), a_tool)
    vars(snapshot.runtime)["approvals"] = approvals or ApprovalQueue()
    return snapshot, Settings(limits, current, approver, **changes)


def a_work(shared, tool=None, arguments=None, *, session="s", user=None, call_id="call-1"):
    """The state of a call before the rules decide."""
    tool = tool or a_tool(destructive=True)
    context = ToolContext(ReadonlyContext(session=session, user=user), call_id, tool.name)
    state = CallState(tool.name, {}, call_id, context, *shared)
    context.internals.frame = state
    state.tool, state.arguments = tool, {"path": "a.txt"} if arguments is None else arguments
    return state


async def approved(state):
    """Lets the rules decide on a call, and asks the user if they don't allow it."""
    asking = asking_of(state)
    await asking.decide()
    await asking.ask("call")
    return state


async def consumed(state):
    """Consumes the approval, right before the tool would run."""
    state.arguments = await asking_of(state).check_answer(state.arguments)
