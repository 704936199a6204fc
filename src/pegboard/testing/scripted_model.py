"""`ScriptedModel`: a model whose answers are known beforehand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

from pegboard.messages.message import CallPart, Message, Part, ReasoningPart, TextPart, Writable
from pegboard.messages.response import CallDelta, Delta, ModelResponse, ReasoningDelta, TextDelta
from pegboard.request.model_request import ModelRequest
from pegboard.schema.json import json_text
from pegboard.tools.call import ToolCall

Step: TypeAlias = "ModelResponse | Message | Writable | Sequence[Writable] | Exception | Callable[[ModelRequest], Any]"
"""One answer: a whole response, a message, a text, a call, a list of either; an error to raise; or a function of the
request that gives one of these."""


class ScriptedModel:
    """Answers as its script says, one request after the other.

    A request beyond the script fails, and fails the test when the model is closed; so does a step that nobody asked
    for. Use it as a context manager, or call `close()` at the end:

        with ScriptedModel([ToolCall("add", {"a": 1, "b": 2}, "c1"), "It is 3."]) as model:
            outcome = await run_turn(model, "What is 1 + 2?", registry)

    Calls without an id get one: `call_1`, `call_2` and so on, through the whole script. Where the turn streams, texts
    come word by word, and arguments in two pieces.

    Args:
        steps: The answers, in order.
        name: The model's name.
        provider: The name of the exporter that would write for it.
        loads_deferred: Whether it loads deferred tools itself.

    Attributes:
        requests: What was asked, in order, as the processors made it.
    """

    def __init__(
        self,
        steps: Iterable[Step],
        *,
        name: str = "scripted",
        provider: str = "scripted",
        loads_deferred: bool = False,
    ) -> None:
        self.name = name
        self.provider = provider
        self.loads_deferred = loads_deferred
        self.requests: list[ModelRequest] = []
        self._left: list[Step] = list(steps)
        self._unexpected = 0
        self._calls = 0

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The next answer of the script.

        Raises:
            AssertionError: There is none.
            Exception: The one that the script has here.
        """
        self.requests.append(request)
        if not self._left:
            self._unexpected += 1
            raise AssertionError(f"nobody expected request {len(self.requests)}: the script has no more steps")
        step: Any = self._left.pop(0)
        if callable(step) and not isinstance(step, Exception):
            step = step(request)
        if isinstance(step, Exception):
            raise step
        return self._with_ids(_as_response(step))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """The same answer, piece by piece."""
        response = await self.respond(request)
        index = 0
        for part in response.parts:
            for delta in _pieces(part, index):
                yield delta
            index += isinstance(part, CallPart)
        yield response

    def close(self) -> None:
        """Checks that everything went as the script says.

        Raises:
            AssertionError: Something else was asked, or a step is left.
        """
        faults: list[str] = []
        if self._unexpected:
            faults.append(f"requests beyond the script: {self._unexpected}")
        if self._left:
            faults.append(f"steps that nobody asked for: {self._left!r:.300}")
        if faults:
            raise AssertionError("\n".join(faults))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()

    def _with_ids(self, response: ModelResponse) -> ModelResponse:
        parts: list[Part] = []
        for part in response.parts:
            if isinstance(part, CallPart) and not part.call.id:
                self._calls += 1
                part = CallPart(_with_id(part.call, f"call_{self._calls}"))  # noqa: PLW2901  the same part, named
            parts.append(part)
        return response.evolve(message=response.message.evolve(parts=parts))


def _with_id(call: ToolCall, id_: str) -> ToolCall:
    import attrs

    return attrs.evolve(call, id=id_)


def _as_response(step: Any) -> ModelResponse:
    if isinstance(step, ModelResponse):
        return step
    message = step if isinstance(step, Message) else Message("assistant", step)
    return ModelResponse(message, "tool_calls" if message.calls else "stop")


def _pieces(part: Part, index: int) -> Iterator[Delta]:
    if isinstance(part, TextPart):
        yield from (TextDelta(word) for word in _words(part.text))
    elif isinstance(part, ReasoningPart) and part.text:
        yield ReasoningDelta(part.text)
    elif isinstance(part, CallPart):
        call = part.call
        text = _written(call.arguments)
        yield CallDelta(index, text[: len(text) // 2], call.id, call.name)
        yield CallDelta(index, text[len(text) // 2 :], call.id, call.name)


def _words(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find(" ", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _written(arguments: object) -> str:
    if isinstance(arguments, bytes):
        return arguments.decode(errors="replace")
    return arguments if isinstance(arguments, str) else str(json_text(dict(cast("dict[str, Any]", arguments))))


__all__ = ["ScriptedModel", "Step"]
