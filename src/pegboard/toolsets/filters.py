"""Filtering of tools by a predicate, within a time limit, and what failed or decided for one; texts of errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pegboard.errors import PegboardError, cause_of
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.tool import Tool

if TYPE_CHECKING:
    from pegboard.toolsets.predicates import Predicate

Faults: TypeAlias = dict[str, str]  # name of a tool for which a predicate failed -> why
PREDICATE_SECONDS: Final = 5.0  # for the functions of a predicate, all tools together


def error_text(error: BaseException) -> str:
    """An error in one short line, without the type for pegboard's own."""
    text = cause_of(error)
    return text.removeprefix(f"{type(error).__name__}: ") if isinstance(error, PegboardError) else text


async def filter_tools(
    tools: Sequence[Tool], predicate: Predicate, context: ReadonlyContext, seconds: float = PREDICATE_SECONDS
) -> tuple[list[Tool], Faults]:
    """The tools for which the predicate is true, in their order; and those for which it failed.

    Functions are called off the event loop. Tools without an answer after so many seconds are out; the thread of a
    function that never returns is abandoned.
    """
    if not predicate.calls_functions:
        return filter_now(tools, predicate, context)
    import asyncio

    from pegboard.threads import run_in_thread

    answers: dict[Tool, Any] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await run_in_thread(_ask, answers, tools, predicate, context, seconds)
    return _split(tools, answers.copy())  # the thread may still be adding to it


def filter_now(tools: Sequence[Tool], predicate: Predicate, context: ReadonlyContext) -> tuple[list[Tool], Faults]:
    """`filter_tools` in this thread; a function that never returns is waited for."""
    answers: dict[Tool, Any] = {}
    _ask(answers, tools, predicate, context, PREDICATE_SECONDS)
    return _split(tools, answers)


def _ask(
    answers: dict[Tool, Any], tools: Sequence[Tool], predicate: Predicate, context: ReadonlyContext, seconds: float
) -> None:
    """Records the answer or the error for each tool, until the time is up."""
    deadline = time.monotonic() + seconds
    try:
        test = predicate.bound(context)
    except BaseException as error:  # noqa: BLE001  any error drops only these tools
        answers.update(dict.fromkeys(tools, _cause(error)))
        return
    is_timed = predicate.calls_functions
    for tool in tools:
        try:
            answer: object = test(tool)
            if answer is not True and answer is not False:
                answer = f"the answer is of type {type(answer).__name__}, neither True nor False"
        except BaseException as error:  # noqa: BLE001  any error drops only the tool
            answer = _cause(error)
        if is_timed and time.monotonic() > deadline:
            return
        answers[tool] = answer


def _cause(error: BaseException) -> str:
    """The error's text; re-raises a `KeyboardInterrupt` in the main thread, where it is the user's."""
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        raise error
    return error_text(error)


def _split(tools: Sequence[Tool], answers: Mapping[Tool, Any]) -> tuple[list[Tool], Faults]:
    """The tools with the answer true, and the causes for those with a text or none."""
    kept = [tool for tool in tools if answers.get(tool) is True]
    late = "no answer in time (predicate_timeout)"
    return kept, {tool.spec.name: cause for tool in tools if isinstance(cause := answers.get(tool, late), str)}


def explain_filter(predicate: Predicate, tool: Tool, context: ReadonlyContext, faults: Faults) -> str:
    """The part of the predicate that decides for this tool, and the tool's facts; functions aren't called again."""
    if (fault := faults.get(tool.spec.name)) is not None:
        return f"{predicate} failed: {fault}"
    if predicate.calls_functions:
        return str(predicate)
    try:
        part = predicate.deciding(tool, context)
        facts = part.facts(tool, context)
    except BaseException as error:  # noqa: BLE001  any error affects only the explanation
        return f"{predicate} failed: {_cause(error)}"
    return f"{part} ({facts})" if facts else str(part)
