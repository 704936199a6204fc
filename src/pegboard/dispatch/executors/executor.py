"""`Executor`: whatever runs calls somewhere else, and what a call there may tell and ask while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from attrs import field, frozen

from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.dispatch.executors.response import ExecutionResponse
from pegboard.tools.context import ToolContext
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject


class Executor(Protocol):
    """Runs calls somewhere: in a container, on another machine, in another language.

    It knows the tool by its name alone. `aclose()`, where it has one, is awaited when the registry is closed.
    """

    async def execute(self, request: ExecutionRequest) -> ExecutionResponse:
        """Runs one call.

        It answers for whatever happens to the call. What it raises costs this call: an error result, kind `crashed`.
        When it is cancelled, it ends the call.

        Raises:
            FatalToolError: The tool ends the turn.
        """
        ...


Answer: TypeAlias = Callable[[JsonObject], Awaitable[Any]]
"""Answers one question with JSON data, or raises."""


def _no_answers() -> Mapping[str, Answer]:
    return {}


@frozen(eq=False)
class Talk:
    """What a call that runs elsewhere may tell and ask while it runs. All of it happens in the caller's event loop.

    Attributes:
        tell: Gets each `Progress`, each `Told` and each partial result; `None`: nobody listens. Must not raise.
        answers: Who answers a question: its name (`"ask"`, `"call"`, `"request_confirmation"`, ...) -> a function.
    """

    tell: Callable[[object], None] | None = None
    answers: Mapping[str, Answer] = field(factory=_no_answers)


SILENCE: Final = Talk()


class AnswerError(Exception):
    """A call ended with what its tool was told by an answer to one of its questions.

    Attributes:
        error: What that answer raised.
    """

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(repr(error))


class ToolExecutor(Protocol):
    """An executor that is handed the tool itself, and through which the running tool can talk with its host.

    It keeps to the request's time limit by itself; the tool's time stands still while a person is asked.
    """

    async def execute_tool(
        self, tool: Tool, request: ExecutionRequest, context: ToolContext, talk: Talk
    ) -> ExecutionResponse:
        """Runs one call of this tool.

        Args:
            tool: With its handler.
            request: The call.
            context: The call's; what the tool's parameters are filled from.
            talk: What the call may tell and ask.

        Raises:
            FatalToolError: The tool ends the turn.
            StructureError: The tool's types refuse the arguments.
            AnswerError: An answer to one of the tool's questions raised, and that ended the call.
        """
        ...
