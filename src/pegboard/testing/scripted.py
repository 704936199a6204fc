"""`ScriptedModel` and `ScriptedApprover`: fakes of a model and a user that answer by a test's script."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self, TypeAlias

from attrs import define, evolve, field

from pegboard.dispatch.approval.request import Answer, ApprovalRequest
from pegboard.json import json_text
from pegboard.messages import (
    CallDelta,
    CallPart,
    Delta,
    Message,
    ModelResponse,
    Part,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    Writable,
)
from pegboard.request.model_request import ModelRequest
from pegboard.tools.context import ToolContext

_Step: TypeAlias = "ModelResponse | Message | Writable | Sequence[Writable] | Exception | Callable[[ModelRequest], Any]"
"""One answer: a response, a message, a text, a call, or a list of texts and calls; an error to raise; or a function of
the request that returns one of these."""
_Answer: TypeAlias = Answer | None
Script: TypeAlias = Sequence[_Answer] | Mapping[str, Answer | Sequence[_Answer]] | Callable[[ApprovalRequest], _Answer]
"""Answers in order, by the tool's name, or by a function of the request; `None` if the user can't be asked."""


class _Script(AbstractContextManager[Any]):
    """Base of the fakes, which checks that the script was used up."""

    @abstractmethod
    def _faults(self) -> list[str]: ...

    def close(self) -> None:
        """Checks that the script was used up: raises `AssertionError` if not, or if a request was unexpected."""
        if faults := self._faults():
            raise AssertionError("\n".join(faults))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()


@define(eq=False, repr=False, slots=False)
class ScriptedModel(_Script):
    """Fake model that answers by its script, one request after the other.

    A request beyond the script fails, and makes `close()` fail; so does a step that is left over. Use it as a context
    manager, or call `close()` at the end:

        with ScriptedModel([ToolCall("add", {"a": 1, "b": 2}, "c1"), "It is 3."]) as model:
            outcome = await run_turn(model, "What is 1 + 2?", registry)

    Calls without an id are numbered `call_1`, `call_2` and so on, through the whole script. When streamed, texts come
    word by word, and arguments in two pieces.

    Args:
        steps: The answers, in order.
        name: The model's name.
        provider: The name of the exporter that would write for it.
        loads_deferred: Whether it loads deferred tools itself.
        formats: Whether its provider has response formats.

    Attributes:
        requests: The requests, in order, as processors have changed them.
    """

    _left: list[_Step] = field(converter=list[_Step], alias="steps")
    name: str = field(default="scripted", kw_only=True)
    provider: str = field(default="scripted", kw_only=True)
    loads_deferred: bool = field(default=False, kw_only=True)
    _formats: bool = field(default=False, kw_only=True, alias="formats")
    requests: list[ModelRequest] = field(factory=list[ModelRequest], init=False)
    _unexpected: int = field(default=0, init=False)
    _calls: int = field(default=0, init=False)

    def formats(self, request: ModelRequest) -> bool:
        """Whether the answer will be in the format of the request's `output`."""
        return self._formats and request.output is not None

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """The next answer of the script.

        Raises:
            AssertionError: There is none.
            Exception: The next step is this exception.
        """
        self.requests.append(request)
        if not self._left:
            self._unexpected += 1
            raise AssertionError(f"request {len(self.requests)} wasn't expected: the script has no more steps")
        step: Any = self._left.pop(0)
        if callable(step) and not isinstance(step, Exception):
            step = step(request)
        if isinstance(step, Exception):
            raise step
        if not isinstance(step, ModelResponse):
            message = step if isinstance(step, Message) else Message("assistant", step)
            step = ModelResponse(message, "tool_calls" if message.calls else "stop")
        return step.evolve(message=step.message.evolve(parts=[self._with_id(part) for part in step.parts]))

    def _with_id(self, part: Part) -> Part:
        if not isinstance(part, CallPart) or part.call.id:
            return part
        self._calls += 1
        return CallPart(evolve(part.call, id=f"call_{self._calls}"))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | ModelResponse]:
        """The same answer, piece by piece."""
        response = await self.respond(request)
        index = 0
        for place, part in enumerate(response.parts):
            for delta in _pieces(part, index):
                yield delta
            index += isinstance(part, CallPart)
            if request.start_early and isinstance(part, CallPart):
                so_far = response.message.evolve(parts=response.parts[: place + 1])
                yield response.evolve(message=so_far, partial=True, complete=False)
        yield response

    def _faults(self) -> list[str]:
        faults = [f"requests beyond the script: {self._unexpected}"] if self._unexpected else []
        return [*faults, f"unused steps: {self._left!r:.300}"] if self._left else faults


def _pieces(part: Part, index: int) -> Iterator[Delta]:
    if isinstance(part, TextPart):
        yield from (TextDelta(word) for word in re.findall("[^ ]* |[^ ]+$", part.text))
    elif isinstance(part, ReasoningPart) and part.text:
        yield ReasoningDelta(part.text)
    elif isinstance(part, CallPart):
        call, text = part.call, part.call.arguments
        if isinstance(text, bytes):
            text = text.decode(errors="replace")
        text = text if isinstance(text, str) else json_text({**text})
        yield CallDelta(index, text[: len(text) // 2], call.id, call.name)
        yield CallDelta(index, text[len(text) // 2 :], call.id, call.name)


class ScriptedApprover(_Script):
    """Fake approver that answers by its script, one request after the other, as the user at a terminal would.

    A request without an answer in the script is denied, and makes `close()` fail; so does an answer that is left over.
    Use it as a context manager, or call `close()` at the end:

        with ScriptedApprover([Once(), Reject("not this one")]) as approver:
            ...

    Args:
        script: A sequence of answers, each used once; a mapping from a tool's name to its answer, used each time, or
            to a sequence, each used once; or a function of the request.

    Attributes:
        requests: The requests, in order.
    """

    one_at_a_time: ClassVar[bool] = True

    def __init__(self, script: Script) -> None:
        self.requests: list[ApprovalRequest] = []
        self._function = script if callable(script) else None
        named: Any = {} if callable(script) else script if isinstance(script, Mapping) else {"": script}
        self._answers: dict[str, Answer | list[_Answer]] = {
            name: each if isinstance(each, Answer) else list(each) for name, each in named.items()
        }
        self._unexpected: list[str] = []

    @property
    def names(self) -> list[str]:
        """The names of the tools that were asked about, in order."""
        return [request.call.name for request in self.requests]

    async def approve(self, request: ApprovalRequest, context: ToolContext) -> Answer | None:  # noqa: ARG002  the protocol's
        """The script's answer.

        Raises:
            AssertionError: The script has no answer for this request.
        """
        self.requests.append(request)
        if self._function is not None:
            return self._function(request)
        name = request.call.name
        answer = self._answers.get("", self._answers.get(name))
        if isinstance(answer, Answer):
            return answer
        if not answer:
            self._unexpected.append(request.to_text())
            raise AssertionError(f"the request about {name} wasn't expected")
        return answer.pop(0)

    def _faults(self) -> list[str]:
        faults = [f"an unexpected request: {text}" for text in self._unexpected]
        for name, left in self._answers.items():
            if isinstance(left, Answer):
                faults += [f"there was no request about {name}"] * (name not in self.names)
            elif left:
                faults.append(f"unused answers{f' about {name}' if name else ''}: {left!r:.200}")
        return faults
