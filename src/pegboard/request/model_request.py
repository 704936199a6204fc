"""`ModelRequest`: what a model is asked, whoever its provider is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import attrs
from attrs import field, frozen

from pegboard.messages.message import Message, Writable
from pegboard.request.model_config import DEFAULT_CONFIG, ModelConfig
from pegboard.request.problem import ProcessorProblem
from pegboard.request.tool_choice import CHOICES, NamedTool, ToolChoice
from pegboard.tools.tool import Tool
from pegboard.toolsets.resolve import ResolvedTools

_NOTHING: Final[Mapping[str, Any]] = {}
_MESSAGES: Final = frozenset({Message})


def _as_messages(given: Any) -> tuple[Message, ...]:
    """Messages of what hosts write for short: a text is the user's.

    Raises:
        TypeError: Something that is no message.
    """
    if type(given) is tuple and _MESSAGES.issuperset(map(type, cast("tuple[object, ...]", given))):
        return cast("tuple[Message, ...]", given)  # as every change of a long conversation's request comes by here
    if isinstance(given, str | Message):
        given = (given,)
    return tuple(_as_message(each) for each in cast("Iterable[Message | Writable]", given))


def _as_message(given: Any) -> Message:
    return given if isinstance(given, Message) else Message.user(given)


def _check_choice(_self: Any, _attribute: Any, choice: object) -> None:
    if not (isinstance(choice, NamedTool) or (isinstance(choice, str) and choice in CHOICES)):
        raise ValueError(f"tool_choice must be {', '.join(map(repr, CHOICES))} or NamedTool(name), got {choice!r:.80}")


def _as_instructions(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


@frozen
class ModelRequest:
    """What a model is asked: frozen, provider-neutral; processors make the next one of it.

    Attributes:
        messages: The conversation, the oldest first. A text, a message or a list of them may be given; a text is the
            user's.
        model: The model's name, or `None`: the client's own.
        instructions: What stands before the conversation, part by part (the system prompt).
        tools: The tools that are offered, with the reason for every one that is in or out; `None` where none have
            been resolved.
        tool_choice: Whether the model may, must, or must not call tools, or which one.
        config: How it shall answer.
        loads_deferred: Whether the provider searches and loads deferred tools itself, so that they are sent too.
        extra: Anything else that processors and clients hand on; never sent.

    Raises:
        ValueError: A tool choice that there isn't; a tool is named by `NamedTool`.
        problems: What went wrong while the request was made ready; for the operator, never sent.
    """

    messages: tuple[Message, ...] = field(default=(), converter=_as_messages)
    model: str | None = None
    instructions: tuple[str, ...] = field(default=(), converter=_as_instructions)
    tools: ResolvedTools | None = field(default=None, repr=False)
    tool_choice: ToolChoice = field(default="auto", validator=_check_choice)
    config: ModelConfig = DEFAULT_CONFIG
    loads_deferred: bool = False
    extra: Mapping[str, Any] = field(default=_NOTHING, repr=False)
    problems: tuple[ProcessorProblem, ...] = field(default=(), converter=tuple, repr=False)

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that a model is sent, in their order.

        Not among them, though they may be resolved: tools that are there to process requests, and deferred ones where
        the provider doesn't load them itself.
        """
        if self.tools is None:
            return ()
        deferred = self.loads_deferred
        return tuple(tool for tool in self.tools.tools if tool.offered and (deferred or not tool.spec.deferred))

    @property
    def system(self) -> str:
        """The instructions as one text, a blank line between the parts."""
        return "\n\n".join(part for part in self.instructions if part)

    def evolve(self, **changes: Any) -> ModelRequest:
        """A request with some attributes changed."""
        return attrs.evolve(self, **changes)

    def with_instructions(self, *parts: str) -> ModelRequest:
        """A request with more instructions, behind those that it has; what it says already isn't said twice."""
        new = tuple(part for part in dict.fromkeys(parts) if part and part not in self.instructions)
        return attrs.evolve(self, instructions=(*self.instructions, *new)) if new else self

    def with_problems(self, *problems: ProcessorProblem) -> ModelRequest:
        """A request that tells of more that went wrong."""
        return attrs.evolve(self, problems=(*self.problems, *problems)) if problems else self

    def keeping_problems(self, earlier: ModelRequest) -> ModelRequest:
        """The request with the problems of an earlier one, which one that was made anew doesn't know of."""
        known = earlier.problems
        if self.problems[: len(known)] == known:
            return self
        return attrs.evolve(self, problems=(*known, *(problem for problem in self.problems if problem not in known)))

    def with_messages(self, *messages: Message | Writable) -> ModelRequest:
        """A request whose conversation goes on."""
        return attrs.evolve(self, messages=(*self.messages, *_as_messages(messages)))


__all__ = ["ModelRequest"]
