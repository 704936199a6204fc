"""The stages `validate` and `revalidate`: the schema judges the arguments, then the tool's own check."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from pegboard.dispatch.failure import detail_of
from pegboard.dispatch.work import CallError, Limits, Work
from pegboard.tools.problem import MOST_PROBLEMS
from pegboard.tools.tool import Tool

if TYPE_CHECKING:
    from pegboard.dispatch.coerce import Coerced

MOST_OF_A_PROBLEM = 1000
"""Characters of one problem that the model reads; a union of a thousand members would fill pages."""


def validate(work: Work) -> None:
    """Judges `work.arguments`; converts them first where they may be and have to be.

    Raises:
        CallError: `invalid_arguments`, with every problem.
    """
    tool = work.tool
    assert tool is not None
    # The short way is for plain JSON; the judge looks at anything else with more care.
    if not (work.parsed and tool.judge.accepts(work.arguments)):
        _judge(work, tool)
    if tool.checks is not None and (problems := _own_problems(tool.checks(work.arguments))):
        raise refusal(tool, problems)


def revalidate(work: Work) -> None:
    """Judges again what a callback changed."""
    if work.changed:
        validate(work)


def coerces(tool: Tool, limits: Limits) -> bool:
    """Whether arguments of this tool may be converted."""
    return limits.coerce if tool.policy.coerce is None else tool.policy.coerce


def _judge(work: Work, tool: Tool) -> None:
    problems = tool.judge.problems(work.arguments)
    if not problems:
        return
    if coerces(tool, work.around.limits):
        from pegboard.dispatch.coerce import coerced

        converted = coerced(tool, work.arguments)
        if converted is not None:
            _take(work, converted)
            return
    raise refusal(tool, problems)


def _take(work: Work, converted: Coerced) -> None:
    from pegboard.dispatch.note import note

    work.arguments, work.coercions = converted.arguments, (*work.coercions, *converted.changes)
    note(work, "coerced", work.coercions)


def _own_problems(found: Iterable[str] | None) -> tuple[str, ...]:
    """What the tool's own check has found; it may go on without end."""
    if isinstance(found, str):
        return (found,)
    return tuple(f"{problem}" for problem in islice(found or (), MOST_PROBLEMS))


def refusal(tool: Tool, problems: tuple[str, ...]) -> CallError:
    """The error that lists what is wrong with the arguments, in the tool's own words where it has some."""
    problems = tuple(_cut(problem) for problem in problems)
    detail = None
    if tool.format_validation_error is not None:
        try:
            return CallError("invalid_arguments", f"{tool.format_validation_error(problems)}", problems=problems)
        except Exception as error:  # noqa: BLE001  its wording failed; the problems are still what they are
            detail = detail_of(error)
    listed = "\n".join(f"- {problem}" for problem in problems)
    text = f"Invalid arguments for {tool.name}:\n{listed}\nCorrect them and call the tool again."
    return CallError("invalid_arguments", text, detail=detail, problems=problems)


def _cut(problem: str) -> str:
    return problem if len(problem) <= MOST_OF_A_PROBLEM else f"{problem[:MOST_OF_A_PROBLEM]}..."
