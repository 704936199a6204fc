"""The stage `approve`: what has to be asked is asked; and `take_approval`, the last look before a call runs."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pegboard.dispatch.work import CallError, Work

if TYPE_CHECKING:
    from pegboard.dispatch.permissions.ask import Ask
    from pegboard.dispatch.permissions.rule import Rule
    from pegboard.dispatch.permissions.rules import Decision


def approve(work: Work) -> Awaitable[None] | None:
    """Asks a person where `permit` says so; fills in `work.approval`, or `work.pending` and `work.ends`.

    A call that comes with the approval of an earlier turn isn't asked about again.

    Raises:
        CallError: `rejected`; `denied`, where nobody can be asked or answers; `confirmation_required`, where the answer
            comes later.
    """
    if work.asks is None or work.approval is not None:
        return None
    return _approve(work, work.asks)


def take_approval(work: Work) -> None:
    """Uses the approval up, right before the call runs; the arguments become those that were approved.

    Raises:
        CallError: `denied`: the call isn't what was approved, it was used, or one is needed and there is none.
    """
    if work.approval is not None:
        assert work.tool is not None
        work.arguments = work.approval.consume(work.tool, work.arguments)
    elif work.asks is not None:
        raise CallError("denied", f"{work.call.name} was not run: nobody has approved it. Ask again.")


async def _approve(work: Work, asks: Ask) -> None:
    from pegboard.dispatch.approval.approval import Approval
    from pegboard.dispatch.approval.person import ask_person, request_of, tool_of

    tool, permissions, folder = tool_of(work), work.around.permissions, work.context.work_dir
    request = request_of(
        work, permission=asks.permission, patterns=asks.patterns, always=asks.always, reason=asks.reason
    )
    arguments = json.loads(request.arguments_text)

    def decide(granted: tuple[Rule, ...]) -> Decision:
        if permissions is None:
            return asks.decision
        return permissions.decide(tool, arguments, work_dir=folder, grants=granted)

    await ask_person(work, request, decide)
    work.approval = Approval.of_text(tool.spec.digest, request.arguments_text, request.id)
