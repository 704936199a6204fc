"""An agent for expenses and time off, which asks a manager: the confirmation example of ADK, on pegboard.

Small requests are granted at once. A larger one asks a manager from inside the tool, who answers with data: the number
of days. An expense of 1,000 and more is confirmed before the tool runs. The manager may answer later: the turn is
suspended, stored as JSON, and resumes with the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pegboard import Model, ModelRequest, ToolContext, ToolError, ToolRegistry, TurnOutcome, run_turn, tool
from pegboard.approval import ask_later

INSTRUCTIONS = "You help employees with expenses and time off. If a manager rejects something, say so."
AT_ONCE = 2  # days that need no manager


@tool
async def request_time_off(days: Annotated[int, "How many days."], context: ToolContext) -> dict[str, Any]:
    """Request days off for the employee."""
    if days <= 0:
        raise ToolError("days have to be more than 0")
    if days <= AT_ONCE:
        return {"status": "ok", "approved_days": days}
    question = f"May they take {days} days off? Say how many in approved_days."
    answer = await context.request_confirmation(question, {"approved_days": 0})
    granted = min(int(answer.payload["approved_days"]), days) if answer.confirmed else 0
    return {"status": "ok" if granted else "rejected", "approved_days": granted}


def is_large(arguments: Mapping[str, Any]) -> bool:
    """Whether a manager has to confirm an expense."""
    return arguments["amount"] >= 1000


@tool(requires_confirmation=is_large)
def reimburse(amount: Annotated[int, "In dollars."], purpose: str) -> str:
    """Reimburse the employee for an expense."""
    return f"reimbursed ${amount} for {purpose}"


def made_registry() -> ToolRegistry:
    """The registry with the agent's tools; questions to the manager suspend the turn."""
    registry = ToolRegistry(approver=ask_later)
    registry.register(request_time_off, reimburse)
    return registry


async def ask(model: Model, text: str) -> TurnOutcome:
    """Runs the agent with an employee's message; if a manager is needed, the turn ends as `"suspended"`."""
    return await run_turn(model, ModelRequest(text, instructions=INSTRUCTIONS), made_registry())


async def answer(model: Model, stored: str, answers: Mapping[str, Any]) -> TurnOutcome:
    """Resumes with the manager's answers, in this process or another.

    Args:
        model: The model.
        stored: The result of `TurnOutcome.dumps`.
        answers: By the id of the waiting call: `{"answer": "once", "payload": {"approved_days": 3}}`, or
            `{"answer": "reject", "feedback": "not this week"}`.
    """
    request = ModelRequest(instructions=INSTRUCTIONS)
    return await run_turn(model, request, made_registry(), resume=TurnOutcome.loads(stored), answers=answers)
