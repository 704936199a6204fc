"""`RecordedCalls`: what was called, with what, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

from pegboard.plugins.hookspecs import hookimpl
from pegboard.tools.content import ToolResult
from pegboard.tools.context import ToolContext


@frozen
class RecordedCall:
    """One call that has ended.

    Attributes:
        name: The tool's name as the model wrote it, whether there is such a tool or not.
        arguments: A copy of what the tool got; empty where they couldn't be read.
        result: What the model gets, errors too.
    """

    name: str
    arguments: Mapping[str, Any]
    result: ToolResult


@define(eq=False)
class RecordedCalls:
    """Records each call as it ends. It never answers, and so changes nothing.

    As a plugin (`plugin_registry(calls, ...)`) it is asked first and sees every call. As the host's callback
    (`registry.add_callback("after_tool", calls)`) it stands behind the plugins': one of theirs that replaces the
    result ends the stage before it.

    Attributes:
        calls: In the order in which they ended.
    """

    calls: list[RecordedCall] = field(factory=list[RecordedCall])

    @property
    def names(self) -> list[str]:
        """The names of what was called, in order."""
        return [call.name for call in self.calls]

    @hookimpl(tryfirst=True)
    def pegboard_after_tool(self, context: ToolContext, arguments: Mapping[str, Any], result: ToolResult) -> None:
        """Records one call."""
        self(context, arguments, result)

    def __call__(self, context: ToolContext, arguments: Mapping[str, Any], result: ToolResult) -> None:
        """Records one call, as a callback."""
        self.calls.append(RecordedCall(context.tool, dict(arguments), result))

    def __iter__(self) -> Iterator[RecordedCall]:
        """The calls, in order."""
        return iter(self.calls)

    def __len__(self) -> int:
        """How many there were."""
        return len(self.calls)
