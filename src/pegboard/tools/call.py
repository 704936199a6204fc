"""`ToolCall`: what the model asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, get_args

from attrs import field, frozen

from pegboard.tools.content import ErrorKind
from pegboard.typing import JsonMapping, JsonObject

_KINDS: Final = frozenset(get_args(ErrorKind))
_Readable: TypeAlias = Mapping[str, tuple[str, tuple[type, ...]]]
"""The keys of a JSON object, each with its name in Python and the types of its value."""


@frozen
class CallFault:
    """Why a call can't run.

    Attributes:
        kind: As the kind of the error result that the call gets.
        text: For the model: what is wrong, and what to do.
        problems: For invalid arguments: `"path: reason"` each.
    """

    kind: ErrorKind
    text: str
    problems: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        """`{"kind", "text"}`, and `"problems"` where there are any."""
        data: JsonObject = {"kind": self.kind, "text": writable(self.text)}
        if self.problems:
            data["problems"] = [writable(problem) for problem in self.problems]
        return data

    @classmethod
    def from_json(cls, data: JsonMapping) -> CallFault:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Raises:
            ValueError: Something is missing, or of the wrong type, named by its key.
        """
        read = _read(data, _FAULT_TYPES, "kind", "text")
        problems = read.pop("problems", ())
        if read["kind"] not in _KINDS:
            raise ValueError(f"kind: {read['kind']!r:.80} is no kind of error result")
        if not all(isinstance(each, str) for each in problems):
            raise ValueError("problems: expected a list of texts")
        return cls(**read, problems=tuple(problems))


def _no_arguments() -> dict[str, Any]:
    return {}  # four times as fast as dict[str, Any]()


@frozen(slots=False)  # with slots, each attribute that nobody sets would cost 35 ns a call, not 10
class ToolCall:
    """One call of a tool, as a model made it.

    Attributes:
        name: The tool's name as the model wrote it.
        arguments: The arguments as JSON text or as a mapping.
        id: What the answer refers to; `""` where nobody asked.
        title: A short heading for people, or `None`.
        dynamic: Whether the tool came from a toolset, and so may be another one, or none, at the next request.
        error: Why the call can't run: dispatch answers with it. `None` where nothing is known against the call.
        provider_executed: Whether the model's provider has run the call itself; it is never run here.
        provider_metadata: What the provider wants to have back with the call's result. Never looked into.
    """

    name: str
    arguments: str | bytes | Mapping[str, Any] = field(factory=_no_arguments)
    id: str = ""
    title: str | None = None
    dynamic: bool = False
    error: CallFault | None = None
    provider_executed: bool = False
    provider_metadata: Any = None

    @property
    def invalid(self) -> bool:
        """Whether it is known that the call can't run; `error` says why."""
        return self.error is not None

    def to_json(self) -> JsonObject:
        """`{"id", "name", "arguments"}`, arguments as an object or as text, and what else is set.

        The other keys: `title`, `dynamic`, `error` (`{"kind", "text", "problems"}`), `providerExecuted`,
        `providerMetadata`. What UTF-8 can't say is escaped in arguments, so that text which was no JSON stays none;
        elsewhere it becomes U+FFFD.
        """
        data: JsonObject = {"id": writable(self.id), "name": writable(self.name), "arguments": _written(self.arguments)}
        if self.title is not None:
            data["title"] = writable(self.title)
        if self.dynamic:
            data["dynamic"] = True
        if self.error is not None:
            data["error"] = self.error.to_json()
        if self.provider_executed:
            data["providerExecuted"] = True
        if self.provider_metadata is not None:
            data["providerMetadata"] = self.provider_metadata
        return data

    @classmethod
    def from_json(cls, data: JsonMapping) -> ToolCall:
        """Reads what `to_json` writes, from a source that isn't trusted; other keys are passed over.

        Only `name` has to be there.

        Raises:
            ValueError: Something of the wrong type, named by its key.
        """
        read = _read(data, _TYPES, "name")
        error = read.pop("error", None)
        return cls(
            **read, error=None if error is None else CallFault.from_json(error), provider_metadata=data.get(_METADATA)
        )


_METADATA: Final = "providerMetadata"
_WORDS: Final = {str: "a text", bool: "a boolean", list: "a list", Mapping: "an object", type(None): "null"}
_TYPES: Final[_Readable] = {
    "name": ("name", (str,)),
    "arguments": ("arguments", (str, Mapping)),
    "id": ("id", (str,)),
    "title": ("title", (str, type(None))),
    "dynamic": ("dynamic", (bool,)),
    "error": ("error", (Mapping, type(None))),
    "providerExecuted": ("provider_executed", (bool,)),
}
_FAULT_TYPES: Final[_Readable] = {"kind": ("kind", (str,)), "text": ("text", (str,)), "problems": ("problems", (list,))}


def _read(data: JsonMapping, readable: _Readable, *needed: str) -> dict[str, Any]:
    """The members that are there, under their Python names.

    Raises:
        ValueError: One is missing, or of another type.
    """
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  whatever stood in a file
        raise ValueError(f"expected an object, found {type(data).__name__}")  # noqa: TRY004  (as documented: data from outside)
    for key in needed:
        if key not in data:
            raise ValueError(f"{key}: missing")
    for key, (_, types) in readable.items():
        if key in data and not isinstance(data[key], types):
            wanted = " or ".join(_WORDS[each] for each in types)
            raise ValueError(f"{key}: expected {wanted}, found {type(data[key]).__name__}")
    return {name: data[key] for key, (name, _) in readable.items() if key in data}


def _written(arguments: str | bytes | Mapping[str, Any]) -> Any:
    if isinstance(arguments, bytes):
        return arguments.decode(errors="backslashreplace")
    if isinstance(arguments, str):
        return arguments.encode(errors="backslashreplace").decode()
    return dict(arguments)


def writable(text: str) -> str:
    """`text` with lone surrogates, which UTF-8 can't say, as U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


__all__ = ["CallFault", "ToolCall", "writable"]
