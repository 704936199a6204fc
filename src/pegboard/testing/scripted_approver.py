"""`ScriptedApprover`: a person whose answers are known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import ClassVar, Self, TypeAlias

from pegboard.dispatch.approval.request import Answer, ApprovalRequest
from pegboard.tools.context import ToolContext

Said: TypeAlias = Answer | None
Script: TypeAlias = Sequence[Said] | Mapping[str, Answer | Sequence[Said]] | Callable[[ApprovalRequest], Said]
"""Answers in order, by the tool's name, or by a function of the request; `None` where nobody can be asked."""


class ScriptedApprover:
    """Answers as its script says, one request after the other, as a person at a terminal would.

    A request that the script doesn't know is denied, and fails the test when the approver is closed; so does an answer
    that nobody asked for. Use it as a context manager, or call `close()` at the end:

        with ScriptedApprover([Once(), Reject("not this one")]) as approver:
            ...

    Args:
        script: A sequence of answers, each given once; a mapping from a tool's name to its answer, given each time, or
            to a sequence, each given once; or a function of the request.

    Attributes:
        requests: What was asked, in order.
    """

    one_at_a_time: ClassVar[bool] = True

    def __init__(self, script: Script) -> None:
        self.requests: list[ApprovalRequest] = []
        self._by_name = isinstance(script, Mapping)
        self._function = script if callable(script) else None
        self._each_time: dict[str, Answer] = {}
        self._left: dict[str, list[Said]] = {}
        self._unexpected: list[str] = []
        if isinstance(script, Mapping):
            named: Mapping[str, Answer | Sequence[Said]] = script  # pyright: ignore[reportUnknownVariableType]
            for name, said in named.items():
                if isinstance(said, Sequence):
                    self._left[name] = list(said)
                else:
                    self._each_time[name] = said
        elif not callable(script):
            self._left[""] = list(script)

    @property
    def names(self) -> list[str]:
        """The names of the tools that were asked about, in order."""
        return [request.call.name for request in self.requests]

    async def approve(self, request: ApprovalRequest, context: ToolContext) -> Answer | None:  # noqa: ARG002  the protocol's
        """What the script says.

        Raises:
            AssertionError: It says nothing of this request.
        """
        self.requests.append(request)
        name = request.call.name
        if self._function is not None:
            return self._function(request)
        if name in self._each_time:
            return self._each_time[name]
        left = self._left.get(name if self._by_name else "")
        if not left:
            self._unexpected.append(request.to_text())
            raise AssertionError(f"nobody expected to be asked about {name}")
        return left.pop(0)

    def close(self) -> None:
        """Checks that everything went as the script says.

        Raises:
            AssertionError: Something else was asked, or an answer is left.
        """
        faults = [f"an unexpected request: {text}" for text in self._unexpected]
        faults += [
            f"answers that nobody asked for{_about(name)}: {left!r:.200}" for name, left in self._left.items() if left
        ]
        faults += [f"nobody asked about {name}" for name in self._each_time if name not in self.names]
        if faults:
            raise AssertionError("\n".join(faults))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()


def _about(name: str) -> str:
    return f" about {name}" if name else ""
