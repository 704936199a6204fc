"""What a predicate asks: a flag, a value under a key, a value of the state."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from pegboard.errors import PredicateError, did_you_mean, suggest
from pegboard.tools.spec import KINDS
from pegboard.toolsets.pattern import is_literal, matcher, quoted, written
from pegboard.toolsets.predicate import Predicate, Test
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from pegboard.tools.context import ReadonlyContext
    from pegboard.tools.tool import Tool

# Flags ------------------------------------------------------------------------------------------------------------


def _flags() -> dict[str, Test]:
    """The words that stand alone. Hints that take caution away count only from an origin that is trusted."""
    return {
        "read_only": lambda tool: tool.spec.annotations.read_only_hint is True and tool.origin.trusted,
        "destructive": lambda tool: tool.spec.annotations.destructive_hint is True,
        "idempotent": lambda tool: tool.spec.annotations.idempotent_hint is True and tool.origin.trusted,
        "open_world": lambda tool: tool.spec.annotations.open_world_hint is True,
        "edit": lambda tool: tool.spec.annotations.edit_hint is True,
        "long_running": lambda tool: tool.spec.long_running,
        "deferred": lambda tool: tool.spec.deferred,
    }


FLAGS: Final = _flags()


def _check_word(_flag: Any, _attribute: Any, word: str) -> None:
    if word not in FLAGS:
        raise PredicateError(f"there is no flag {word!r}.{did_you_mean(suggest(word, FLAGS))}")


@frozen(repr=False)
class Flag(Predicate):
    """A fact that a tool has or hasn't; a hint that is unset is not so.

    Attributes:
        word: One of `FLAGS`.
    """

    word: str = field(validator=_check_word)

    def bound(self, context: ReadonlyContext) -> Test:  # noqa: ARG002  no flag depends on it
        """The test of the flag's table."""
        return FLAGS[self.word]

    def facts(self, tool: Tool, context: ReadonlyContext, /) -> str:
        """Says where a hint isn't believed."""
        hinted = getattr(tool.spec.annotations, f"{self.word}_hint", None)
        return "hinted, but by an origin that isn't trusted" if hinted and not self(tool, context) else ""

    def to_json(self) -> JsonObject:
        """The word under `is`."""
        return {"is": self.word}

    def __str__(self) -> str:
        return self.word


# Values -----------------------------------------------------------------------------------------------------------


def property_names(schema: str) -> tuple[str, ...]:
    """The names of the arguments in a schema's text: under `properties` at its root."""
    root: Any = json.loads(schema)
    properties: Any = root.get("properties") if isinstance(root, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return tuple(properties) if isinstance(properties, dict) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _one(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


_OF_TOOL: Final[dict[str, Callable[[Any], Iterable[str]]]] = {
    "name": lambda tool: (tool.spec.name,),
    "tag": lambda tool: tool.spec.tags,
    "kind": lambda tool: (tool.spec.kind,),
    "plugin": lambda tool: _one(tool.origin.plugin),
    "toolset": lambda tool: _one(tool.origin.toolset),
    "distribution": lambda tool: _one(tool.origin.distribution),
    "property": lambda tool: property_names(tool.spec.input_schema_text),
}
_OF_CONTEXT: Final[dict[str, Callable[[Any], Iterable[str]]]] = {
    "user": lambda context: _one(context.user),
    "agent": lambda context: _one(context.agent),
    "model": lambda context: _one(context.model),
    "provider": lambda context: _one(context.provider),
}
KEYS: Final = (*_OF_TOOL, *_OF_CONTEXT)
STATE: Final = "state"


def _check_key(_matches: Any, _attribute: Any, key: str) -> None:
    if key not in KEYS:
        raise PredicateError(f"there is no key {key!r}.{did_you_mean(suggest(key, KEYS))}")


def _check_pattern(matches: Matches, _attribute: Any, pattern: str) -> None:
    if matches.key == "kind" and is_literal(pattern) and pattern not in KINDS:
        near = did_you_mean(suggest(pattern, KINDS)) or f" There are {', '.join(KINDS)}."
        raise PredicateError(f"there is no kind {pattern!r}.{near}")


@frozen(repr=False)
class Matches(Predicate):
    """A value under a key matches a pattern; of several values (tags, properties) one is enough, of none none.

    Attributes:
        key: One of `KEYS`.
        pattern: `*` is any run of characters, `?` is one.
    """

    key: str = field(validator=_check_key)
    pattern: str = field(validator=_check_pattern)

    def bound(self, context: ReadonlyContext) -> Test:
        """What asks the context is answered here; a literal is compared, not matched."""
        matches = matcher(self.pattern)
        if self.key in _OF_CONTEXT:
            answer = any(map(matches, _OF_CONTEXT[self.key](context)))
            return lambda _tool: answer
        quick = _QUICK.get(self.key)
        if quick is not None and is_literal(self.pattern):
            return quick(self.pattern)
        if self.key == "name":
            return lambda tool: bool(matches(tool.spec.name))
        values = _OF_TOOL[self.key]
        return lambda tool: any(map(matches, values(tool)))

    def facts(self, tool: Tool, context: ReadonlyContext, /) -> str:
        """The values that there are."""
        asks_tool = self.key in _OF_TOOL
        values = _OF_TOOL[self.key](tool) if asks_tool else _OF_CONTEXT[self.key](context)
        return f"{self.key}: {', '.join(map(written, values)) or 'none'}"

    def to_json(self) -> JsonObject:
        """The pattern under the key."""
        return {self.key: self.pattern}

    def __str__(self) -> str:
        return f"{self.key}:{written(self.pattern)}"


def _has_property(name: str) -> Test:
    """Reads a schema only where the name stands in its text; an escape may hide it."""
    in_quotes = quoted(name)

    def test(tool: Tool) -> bool:
        schema = tool.spec.input_schema_text
        return (in_quotes in schema or "\\" in schema) and name in property_names(schema)

    return test


def _has_tag(tag: str) -> Test:
    return lambda tool: tag in tool.spec.tags


def _has_name(name: str) -> Test:
    return lambda tool: tool.spec.name == name


_QUICK: Final[dict[str, Callable[[str], Test]]] = {
    "name": _has_name,
    "tag": _has_tag,
    "property": _has_property,
}


def scalar_text(value: object) -> str | None:
    """A scalar as a pattern sees it: a string as it is, `true`, `false` and `null` as in JSON; else `None`."""
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    return float.__repr__(value) if isinstance(value, float) else None


@frozen(repr=False)
class StateMatches(Predicate):
    """A value of the context's state matches a pattern; a missing key, a list and an object never do.

    Attributes:
        key: A key of the state; a dot in it is an ordinary character.
        pattern: `*` is any run of characters, `?` is one.
    """

    key: str
    pattern: str

    def bound(self, context: ReadonlyContext) -> Test:
        """One answer for every tool."""
        value = self._value(context)
        answer = value is not None and bool(matcher(self.pattern)(value))
        return lambda _tool: answer

    def facts(self, _tool: Tool, context: ReadonlyContext, /) -> str:
        """The value that there is."""
        value = self._value(context)
        return f"state.{written(self.key)}: {'none' if value is None else written(value)}"

    def to_json(self) -> JsonObject:
        """Key and pattern under `state`."""
        return {STATE: {"key": self.key, "pattern": self.pattern}}

    def __str__(self) -> str:
        key = quoted(self.key) if ":" in self.key else written(self.key)
        return f"{STATE}.{key}:{written(self.pattern)}"

    def _value(self, context: ReadonlyContext) -> str | None:
        return scalar_text(context.state[self.key]) if self.key in context.state else None
