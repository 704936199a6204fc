"""`Message`: one turn of speech in a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import attrs
from attrs import field, frozen

from pegboard.messages.part import CallPart, Part, ResultPart, TextPart, as_part
from pegboard.tools.call import ToolCall
from pegboard.tools.content import Content, ToolResult
from pegboard.typing import JsonMapping, JsonObject

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ROLES: Final = get_args(Role)
_NOTHING: Final[Mapping[str, Any]] = {}

Writable: TypeAlias = "Part | ToolCall | Content | str"
"""What a message may be written with for short."""


def _as_parts(given: Any) -> tuple[Part, ...]:
    if isinstance(given, list | tuple):
        return tuple(as_part(each) for each in cast("Iterable[Writable]", given))
    return (as_part(given),)


@frozen
class Message:
    """What somebody said: the user, the model (`assistant`), tools (their results), or the host (`system`).

    Attributes:
        role: Who speaks. All results of one answer's calls stand in one message of role `"tool"`, right behind it.
        parts: What is said, in order. A text, a content, a call or a list of them may be given.
        id: The message's id, or `None`.
        provider_metadata: By provider, what it wants to have back with the message; opaque.
        metadata: The host's own facts; never sent.
    """

    role: Role = field(validator=attrs.validators.in_(ROLES))
    parts: tuple[Part, ...] = field(default=(), converter=_as_parts)
    id: str | None = None
    provider_metadata: JsonMapping = field(default=_NOTHING, repr=False)
    metadata: JsonMapping = field(default=_NOTHING, repr=False)

    @classmethod
    def user(cls, *parts: Writable) -> Message:
        """What the user says."""
        return cls("user", parts)

    @classmethod
    def assistant(cls, *parts: Writable) -> Message:
        """What a model said."""
        return cls("assistant", parts)

    @classmethod
    def system(cls, *parts: Writable) -> Message:
        """What the host says in the midst of a conversation; a request's `instructions` stand before it."""
        return cls("system", parts)

    @classmethod
    def tool(cls, answers: Iterable[tuple[ToolCall, ToolResult]]) -> Message:
        """What calls answered; an `Outcome` is such pairs."""
        return cls("tool", tuple(ResultPart.of(call, result) for call, result in answers))

    @property
    def text(self) -> str:
        """All its words, parts joined as they are."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in it, those that the provider has executed included."""
        return tuple(part.call for part in self.parts if isinstance(part, CallPart))

    @property
    def results(self) -> tuple[ResultPart, ...]:
        """The results in it."""
        return tuple(part for part in self.parts if isinstance(part, ResultPart))

    def evolve(self, **changes: Any) -> Message:
        """A message with some attributes changed."""
        return attrs.evolve(self, **changes)

    def to_json(self) -> JsonObject:
        """`{"role", "parts"}`, and what else is set."""
        data: JsonObject = {"role": self.role, "parts": [part.to_json() for part in self.parts]}
        if self.id is not None:
            data["id"] = self.id
        if self.provider_metadata:
            data["providerMetadata"] = dict(self.provider_metadata)
        if self.metadata:
            data["metadata"] = dict(self.metadata)
        return data

    @classmethod
    def from_json(cls, data: object) -> Message:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: It is no message; the error names the path.
        """
        from pegboard.messages.part_json import part_from_json
        from pegboard.messages.reading import items, mapping, members, needed, text

        read = members(data, "message")
        role = needed(read, "role")
        if role not in ROLES:
            raise ValueError(f"role: must be one of {', '.join(ROLES)}, got {role!r:.80}")
        return cls(
            cast("Role", role),
            [part_from_json(each, f"parts[{place}]") for place, each in enumerate(items(read, "parts"))],  # pyright: ignore[reportArgumentType]
            text(read, "id", None),
            mapping(read, "providerMetadata"),
            mapping(read, "metadata"),
        )


__all__ = ["ROLES", "Message", "Role", "Writable"]
