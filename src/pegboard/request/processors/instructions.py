"""`instructions`: what tools and toolsets want to be said before the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from pegboard.callbacks import Callback, ChainError, by_name
from pegboard.request.model_request import ModelRequest
from pegboard.request.problem import ProcessorProblem
from pegboard.request.runner import Runner
from pegboard.tools.call import writable
from pegboard.tools.context import ReadonlyContext
from pegboard.tools.origin import HOST, Origin
from pegboard.tools.tool import Tool
from pegboard.toolsets.toolset import Toolset, described, name_of, speaking

NAME: Final = "instructions"
MOST_CHARACTERS: Final = 100_000
"""Of what one tool or toolset says."""


async def instructions(request: ModelRequest, context: ReadonlyContext, runner: Runner) -> ModelRequest:
    """Adds the instructions of the toolsets that have a tool in the request, and of the tools in it.

    Each is said once, behind what the request says already. A deferred tool's are added once it was found. What one of
    them does wrong costs only its own word.
    """
    if request.tools is None:
        return request
    tools = [tool for tool in request.tools.tools if request.loads_deferred or not tool.spec.deferred]
    present = _present(request.tools.toolsets, tools)
    asked = [_said(origin, each, context, runner) for origin, toolset in present for each in speaking(toolset)]
    said = await asyncio.gather(*asked) if asked else []
    said += [_said_by(tool) for tool in tools if tool.instructions is not None]
    parts = [part for each in said if not isinstance(each, ProcessorProblem) for part in each]
    problems = [each for each in said if isinstance(each, ProcessorProblem)]
    return request.with_instructions(*parts).with_problems(*problems)


def _said_by(tool: Tool) -> tuple[str, ...] | ProcessorProblem:
    try:
        return _checked(tool.instructions)
    except (TypeError, ValueError) as error:
        return ProcessorProblem(NAME, described(error), tool.origin, tool.name, error)


def _present(toolsets: Iterable[Toolset], tools: Iterable[Tool]) -> Iterator[tuple[Origin, Toolset]]:
    """The toolsets that have a tool there, with who brought them."""
    there = {(tool.origin.plugin, tool.origin.toolset) for tool in tools}
    named = {name for _, name in there}
    for toolset in toolsets:
        origin: Origin = getattr(toolset, "origin", HOST)
        name = name_of(toolset)
        # The host's toolsets may pass on tools in plugins' names.
        if (origin.plugin, name) in there or (origin.plugin is None and name in named):
            yield origin, toolset


async def _said(
    origin: Origin, toolset: Toolset, context: ReadonlyContext, runner: Runner
) -> tuple[str, ...] | ProcessorProblem:
    try:
        given: Any = getattr(toolset, "instructions", None)
        if callable(given):
            given = await runner.ask(Callback(by_name(given, ("context",)), str(origin)), context)
        return _checked(given)
    except ChainError as failed:
        error = failed.__cause__ or failed
    except Exception as raised:  # noqa: BLE001  whatever it is, it costs only this toolset's word
        error = raised
    return ProcessorProblem(NAME, f"toolset {name_of(toolset)!r}: {described(error)}", origin, error=error)


def _checked(given: Any) -> tuple[str, ...]:
    """What was given as texts.

    Raises:
        TypeError: It is neither a text nor a list of texts.
        ValueError: It is longer than 100,000 characters.
    """
    parts = (given,) if isinstance(given, str) else () if given is None else given
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in cast("Iterable[Any]", parts)):
        raise TypeError(f"instructions have to be a text or a list of texts, not {type(given).__name__}")
    texts = cast("Iterable[str]", parts)
    if sum(map(len, texts)) > MOST_CHARACTERS:
        raise ValueError(f"instructions may have {MOST_CHARACTERS:,} characters, and have more")
    return tuple(map(writable, texts))


__all__ = ["MOST_CHARACTERS", "instructions"]
