"""Functions that run a turn: `run_turn`, `stream_turn`, `resume_turn`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pegboard.dispatch.approval.resume import Answers
from pegboard.request.model_request import Model, ModelRequest
from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.turn.events import TurnOutcome
from pegboard.turn.loop import Turn
from pegboard.turn.options import TurnOptions, split_options

if TYPE_CHECKING:
    from typing import Unpack

    from pegboard.registry import ToolRegistry
    from pegboard.turn.events import TurnEvent


def turn_of(
    model: Model,
    request: ModelRequest | str,
    registry: ToolRegistry,
    context: ReadonlyContext = NOBODY,
    **options: Unpack[TurnOptions],
) -> Turn:
    """A turn that is ready to run: by `run()` or `events()`; `steer()` and `interrupt()` act on it meanwhile.

    Args:
        model: The model.
        request: The request; a text is a message of the user.
        registry: Where tools, callbacks and processors are registered.
        context: The user and session; its `state` is read, and `TurnOutcome.state` is what became of it.
        options: See `TurnOptions`.

    Raises:
        TypeError: An option that there isn't, with near misses; or something that is no model.
        ValueError: A value that isn't allowed.
    """
    return _turn(model, request, registry, context, options)


async def run_turn(
    model: Model,
    request: ModelRequest | str,
    registry: ToolRegistry,
    context: ReadonlyContext = NOBODY,
    **options: Unpack[TurnOptions],
) -> TurnOutcome:
    """Asks a model, runs the calls that it makes, gives it their results, and so on until it has answered.

    Arguments as for `turn_of`.

    Returns:
        The whole conversation, why the turn ended, and what its calls ask of the host.

    Raises:
        TurnAbortedError: A callback aborted the turn.
        FatalToolError: A tool ended it.
        ModelError: The model can't be asked, or its provider answered with an error.
        CallbackError: A callback round the model or the turn failed.
        ProcessorError: A request processor of the host's failed.
        asyncio.CancelledError: The caller was cancelled.

    All but the last carry the `outcome`, whose history is complete.
    """
    return await turn_of(model, request, registry, context, **options).run()


async def stream_turn(
    model: Model,
    request: ModelRequest | str,
    registry: ToolRegistry,
    context: ReadonlyContext = NOBODY,
    **options: Unpack[TurnOptions],
) -> AsyncGenerator[TurnEvent]:
    """`run_turn` as a stream of events; the last is `TurnEnded`, with the outcome. Leaving early cancels the turn."""
    async with aclosing(turn_of(model, request, registry, context, **options).events()) as events:
        async for event in events:
            yield event


def resumed_turn_of(  # noqa: PLR0913  as `turn_of`, and what it goes on from
    model: Model,
    request: ModelRequest,
    registry: ToolRegistry,
    context: ReadonlyContext = NOBODY,
    *,
    suspended: TurnOutcome | Mapping[str, Any],
    answers: Answers,
    **options: Unpack[TurnOptions],
) -> Turn:
    """A turn that goes on from where it was suspended for an approval, in this process or another.

    Args:
        model: The model.
        request: As at the beginning (instructions, config, tools); its messages are those of the outcome.
        registry: As at the beginning.
        context: Of the same session and user.
        suspended: The outcome, or its JSON.
        answers: By the pending call's id, as `registry.resume` takes them. They may come in parts: while any call
            waits, the turn is suspended again.
        options: See `TurnOptions`.

    Raises:
        PendingError: It is no outcome of a turn.
        ValueError: Nothing waits in it.
    """
    before = suspended if isinstance(suspended, TurnOutcome) else TurnOutcome.from_json(suspended)
    if not len(before.pending):
        raise ValueError(f"nothing waits in this outcome, which ended by {before.ended!r}; run_turn(...) goes on")
    return _turn(model, request, registry, context, options, suspended=(before, answers))


async def resume_turn(  # noqa: PLR0913  as above
    model: Model,
    request: ModelRequest,
    registry: ToolRegistry,
    context: ReadonlyContext = NOBODY,
    *,
    suspended: TurnOutcome | Mapping[str, Any],
    answers: Answers,
    **options: Unpack[TurnOptions],
) -> TurnOutcome:
    """Runs on from where a turn was suspended. Arguments as for `resumed_turn_of`, errors as for `run_turn`."""
    turn = resumed_turn_of(model, request, registry, context, suspended=suspended, answers=answers, **options)
    return await turn.run()


def _turn(
    model: Model,
    request: ModelRequest | str,
    registry: ToolRegistry,
    context: ReadonlyContext,
    options: TurnOptions,
    **more: Any,
) -> Turn:
    missing = [name for name in ("name", "provider", "respond") if not hasattr(model, name)]
    if missing:
        raise TypeError(f"{model!r:.80} is no model: it has no {', '.join(missing)}")
    own, batch = split_options(options)
    request = request if isinstance(request, ModelRequest) else ModelRequest(request)
    return Turn(model=model, request=request, registry=registry, context=context, batch=batch, **own, **more)


__all__ = ["resume_turn", "resumed_turn_of", "run_turn", "stream_turn", "turn_of"]
