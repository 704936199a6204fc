"""The plugin: hooks around calls, model requests and turns, which do nothing until a host has OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pegboard import hookimpl
from pegboard.callbacks import nonblocking
from pegboard.errors import check_keys

if TYPE_CHECKING:
    from pegboard import ModelRequest, ModelResponse, ReadonlyContext, ToolResult, TurnOutcome
    from pegboard.events import WrappedCall
    from pegboard_otel.recorder import Recorder

_NOTHING: Final[Mapping[str, Any]] = {}


class Otel:
    """Spans and metrics of OpenTelemetry, for the providers that the host has set up.

    Args:
        settings: `content = true` adds arguments, results and messages to the spans.

    Raises:
        ValueError: There is no such setting.
        TypeError: `content` isn't true or false.
    """

    def __init__(self, settings: Mapping[str, Any] = _NOTHING) -> None:
        check_keys(settings, ("content",))
        self._content: Final[Any] = settings.get("content", False)
        if type(self._content) is not bool:
            raise TypeError(f"content must be true or false, got a {type(self._content).__name__}")
        self._made: Recorder | None = None
        self._recorder()  # now, as plugins are loaded in a thread

    def _recorder(self) -> Recorder | None:
        """The recorder, once anything has imported OpenTelemetry: before that, no host can have set it up."""
        if self._made is None and "opentelemetry.context" in sys.modules:
            from pegboard_otel.recorder import recorder  # the only import of OpenTelemetry

            self._made = recorder(with_content=self._content)
        return self._made

    @hookimpl(tryfirst=True)
    @nonblocking
    def pegboard_wrap_call(
        self,
        call: WrappedCall,
        context: ReadonlyContext,  # noqa: ARG002  with all arguments, in order, the hook is called directly
        call_next: Callable[[], Awaitable[ToolResult]],
    ) -> Awaitable[ToolResult]:
        """Records a call as a span and a duration."""
        recorder = self._made or self._recorder()
        return call_next() if recorder is None else recorder.call(call, call_next)

    @hookimpl(tryfirst=True)
    async def pegboard_wrap_model(
        self, context: ReadonlyContext, request: ModelRequest, call_next: Callable[[], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Records a request to a model as a span, a duration and its tokens."""
        recorder = self._recorder()
        return await (call_next() if recorder is None else recorder.request(context, request, call_next))

    @hookimpl(tryfirst=True)
    @nonblocking
    def pegboard_before_turn(self, context: ReadonlyContext) -> None:
        """Starts the span of a turn."""
        if (recorder := self._recorder()) is not None:
            recorder.begin_turn(context)

    pegboard_resume_turn = pegboard_before_turn

    @hookimpl(trylast=True)
    @nonblocking
    def pegboard_after_turn(self, context: ReadonlyContext, outcome: TurnOutcome) -> None:
        """Ends the span of a turn."""
        if self._made is not None:
            self._made.end_turn(context, outcome)
