"""The stages `validate` and `revalidate`: the schema judges the arguments, then the tool's own check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from pegboard.chains import may_block
from pegboard.dispatch.limits import CallError, Limits
from pegboard.dispatch.timeout import LimitExpiredError, within
from pegboard.dispatch.work import Work
from pegboard.errors import detail_of
from pegboard.schema.problems import MOST_PROBLEMS
from pegboard.tools.tool import Checker, ErrorWriter, Tool

if TYPE_CHECKING:
    from pegboard.dispatch.coerce import Coerced

MOST_OF_A_PROBLEM = 1000
"""Characters of one problem that the model reads; a union of a thousand members would fill pages."""


def validate(work: Work) -> Awaitable[None] | None:
    """Judges `work.arguments`; converts them first where they may be and have to be.

    What the tool's author has written, its check and its wording, may block, and so is asked in a thread.

    Raises:
        CallError: `invalid_arguments`, with every problem; `tool_failure`, where the tool's check takes too long.
    """
    tool = work.tool
    assert tool is not None
    # The short way is for plain JSON; the judge looks at anything else with more care.
    problems = () if work.parsed and tool.validator.accepts(work.arguments) else _judged(work, tool)
    if problems:
        return refused(work, tool, problems)
    return None if tool.checks is None else _check(work, tool, tool.checks)


def revalidate(work: Work) -> Awaitable[None] | None:
    """Judges again what a callback changed."""
    return validate(work) if work.changed else None


def coerces(tool: Tool, limits: Limits) -> bool:
    """Whether arguments of this tool may be converted."""
    return limits.coerce if tool.policy.coerce is None else tool.policy.coerce


def _judged(work: Work, tool: Tool) -> tuple[str, ...]:
    """What the schema finds wrong, once what may be converted has been."""
    problems = tool.validator.problems(work.arguments)
    if problems and coerces(tool, work.around.limits):
        from pegboard.dispatch.coerce import coerced

        converted = coerced(tool, work.arguments)
        if converted is not None:
            _take(work, converted)
            return ()
    return problems


async def _check(work: Work, tool: Tool, check: Checker) -> None:
    try:
        problems = await _asked(work, lambda: _own_problems(check(work.arguments)), check)
    except LimitExpiredError:
        seconds = work.around.limits.callback_timeout
        text = f"{tool.name} was not run: it didn't say within {seconds:g} s whether it takes these arguments."
        raise CallError("tool_failure", text) from None
    if problems:
        await refused(work, tool, problems)


async def _asked(work: Work, ask: Callable[[], Any], asked: Callable[..., Any]) -> Any:
    """What a function of the tool's author gives, off the loop and within the time of a callback."""
    if not may_block(asked):
        return ask()
    limits = work.around.limits
    return await within(limits.callback_timeout, work.around.threads.run(ask), grace=limits.grace)


def _take(work: Work, converted: Coerced) -> None:
    from pegboard.dispatch.note import note

    work.arguments, work.coercions = converted.arguments, (*work.coercions, *converted.changes)
    note(work, "coerced", work.coercions)


def _own_problems(found: Iterable[str] | None) -> tuple[str, ...]:
    """What the tool's own check has found; it may go on without end."""
    if isinstance(found, str):
        return (found,)
    return tuple(f"{problem}" for problem in islice(found or (), MOST_PROBLEMS))


def refused(work: Work, tool: Tool, problems: tuple[str, ...]) -> Awaitable[None]:
    """Refuses the arguments, at once or, where the tool has words of its own for it, when awaited.

    Raises:
        CallError: `invalid_arguments`, which lists what is wrong.
    """
    if tool.format_validation_error is None:
        raise refusal(tool, problems)
    return _refused_in_its_words(work, tool, problems, tool.format_validation_error)


async def _refused_in_its_words(work: Work, tool: Tool, problems: tuple[str, ...], write: ErrorWriter) -> None:
    try:
        error = await _asked(work, partial(refusal, tool, problems), write)
    except LimitExpiredError:
        error = refusal(tool.evolve(format_validation_error=None), problems)
    raise error


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
