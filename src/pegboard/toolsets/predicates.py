"""Predicates: boolean conditions on a tool in a context, which combine, print, and travel as JSON.

    read_only & ~Matches("tag", "network") & Matches("name", "git_*")

is the same as the text `read_only and not tag:network and name:git_*`.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, TypeAlias

from attrs import Converter, Factory, field

from pegboard.callbacks import CallableKind
from pegboard.errors import PredicateError, did_you_mean, near_or_known, suggest
from pegboard.json import is_object
from pegboard.tools.spec import KINDS, is_valid_name
from pegboard.typing import JsonObject, frozen

if TYPE_CHECKING:
    from pegboard.tools.context import ReadonlyContext
    from pegboard.tools.tool import Tool

Matcher: TypeAlias = Callable[[str], object]  # takes a value; what it gives is true where the pattern matches
_BARE: Final = re.compile(r"[A-Za-z0-9_.*?/@+=%,:-]+")
_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode


def is_literal(pattern: str) -> bool:
    """Whether the pattern matches itself only."""
    return "*" not in pattern and "?" not in pattern


@lru_cache(maxsize=1024)
def matcher(pattern: str) -> Matcher:
    """The test for one pattern; it takes at most length of pattern x length of value steps."""
    if is_literal(pattern):
        return pattern.__eq__
    from fnmatch import translate  # for patterns only

    return re.compile(translate(pattern.replace("[", "[[]"))).match


def written(value: str) -> str:
    """`value` in a predicate's text: bare, or as a JSON string where it holds more than plain characters."""
    return value if _BARE.fullmatch(value) else _quoted(value)


Where: TypeAlias = "Predicate | Callable[[Tool, ReadonlyContext], bool] | str | None"
"""A predicate, a plain function of a tool and a context, or a predicate's text."""

_Test: TypeAlias = "Callable[[Tool], bool]"  # A predicate bound to a context
MAX_DEPTH: Final = 64  # maximum nesting of a predicate


class Predicate(ABC):
    """A boolean condition on a tool in a context.

    Predicates are frozen values: they compare, hash, combine with `&`, `|` and `~`, print a text that
    `parse_predicate` reads back, and turn into JSON. None is nested deeper than 64 levels.

    Attributes:
        reads_context: Whether its answer for a tool may depend on the context, or change by itself.
    """

    __slots__ = ()
    depth: int = 1
    calls_functions: bool = True
    reads_context: bool = True

    @abstractmethod
    def bound(self, context: ReadonlyContext) -> _Test:
        """The test for tools in this context; what depends on the context alone is evaluated here, once."""

    @abstractmethod
    def to_json(self) -> JsonObject:
        """An object with one key; raises `PredicateError` for a callable that isn't registered under a name."""

    @abstractmethod
    def __str__(self) -> str: ...

    def __call__(self, tool: Tool, context: ReadonlyContext) -> bool:
        """Whether it is true for this tool in this context; raises whatever a custom callable raises."""
        return self.bound(context)(tool)

    def deciding(self, _tool: Tool, _context: ReadonlyContext, /) -> Predicate:
        """The smallest part that decides the answer for this tool."""
        return self

    def facts(self, _tool: Tool, _context: ReadonlyContext, /) -> str:
        """The tool's values, for people; may be empty."""
        return ""

    def __and__(self, other: Predicate) -> Predicate:
        return _Joined("and", (self, other)) if isinstance(other, Predicate) else NotImplemented  # pyright: ignore[reportUnnecessaryIsInstance]

    def __or__(self, other: Predicate) -> Predicate:
        return _Joined("or", (self, other)) if isinstance(other, Predicate) else NotImplemented  # pyright: ignore[reportUnnecessaryIsInstance]

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError("a predicate is neither true nor false by itself: combine with &, | and ~ (not and, or, not)")

    def __repr__(self) -> str:
        return f"<Predicate {self}>"


def _check_depth(_predicate: Any, _attribute: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise PredicateError(f"a predicate can't be nested deeper than {MAX_DEPTH} levels")


def _flat(members: Iterable[Predicate], joined: Any) -> tuple[Predicate, ...]:
    """The members, with nested members of the same word flattened."""
    flat: list[Predicate] = []
    for member in members:
        flat += member.members if isinstance(member, _Joined) and member.word == joined.word else (member,)
    return tuple(flat)


def _members(predicate: _Joined | Not) -> tuple[Predicate, ...]:
    return predicate.members if isinstance(predicate, _Joined) else (predicate.member,)


def _depth(predicate: _Joined | Not) -> int:
    return 1 + max(member.depth for member in _members(predicate))


def _calls_functions(predicate: _Joined | Not) -> bool:
    return any(member.calls_functions for member in _members(predicate))


def _reads_context(predicate: _Joined | Not) -> bool:
    return any(member.reads_context for member in _members(predicate))


@frozen(repr=False)
class _Joined(Predicate):
    """Two or more predicates joined by `and` or `or`; evaluated in order, up to the first that decides."""

    word: Literal["and", "or"]
    members: tuple[Predicate, ...] = field(converter=Converter(_flat, takes_self=True))
    depth: int = field(init=False, eq=False, default=Factory(_depth, takes_self=True), validator=_check_depth)
    calls_functions: bool = field(init=False, eq=False, default=Factory(_calls_functions, takes_self=True))
    reads_context: bool = field(init=False, eq=False, default=Factory(_reads_context, takes_self=True))

    def bound(self, context: ReadonlyContext) -> _Test:
        tests = [member.bound(context) for member in self.members]
        decisive = self.word == "or"

        def test(tool: Tool) -> bool:
            for each in tests:  # twice as fast as any() or all() of a generator
                if bool(each(tool)) is decisive:
                    return decisive
            return not decisive

        return test

    def deciding(self, tool: Tool, context: ReadonlyContext, /) -> Predicate:
        for member in self.members:
            if member(tool, context) is (self.word == "or"):
                return member.deciding(tool, context)
        return self

    def to_json(self) -> JsonObject:
        return {self.word: [member.to_json() for member in self.members]}

    def __str__(self) -> str:
        # Only an `or` within an `and` needs brackets: members of the same word are flattened.
        brackets = "({})" if self.word == "and" else "{}"
        texts = (brackets.format(each) if isinstance(each, _Joined) else str(each) for each in self.members)
        return f" {self.word} ".join(texts)


@frozen(repr=False)
class Not(Predicate):
    """Negation of its member; a double negation is the member itself (`~~p == p`)."""

    member: Predicate
    depth: int = field(init=False, eq=False, default=Factory(_depth, takes_self=True), validator=_check_depth)
    calls_functions: bool = field(init=False, eq=False, default=Factory(_calls_functions, takes_self=True))
    reads_context: bool = field(init=False, eq=False, default=Factory(_reads_context, takes_self=True))

    def bound(self, context: ReadonlyContext) -> _Test:
        """The negated test; raises what the member raises."""
        test = self.member.bound(context)
        return lambda tool: not test(tool)

    def deciding(self, tool: Tool, context: ReadonlyContext, /) -> Predicate:
        """The negation of what decides the member."""
        return ~self.member.deciding(tool, context)

    def facts(self, tool: Tool, context: ReadonlyContext, /) -> str:
        """What decided in the member, which this negates."""
        return self.member.facts(tool, context)

    def to_json(self) -> JsonObject:
        """The member under `not`."""
        return {"not": self.member.to_json()}

    def __invert__(self) -> Predicate:
        return self.member

    def __str__(self) -> str:
        return f"not ({self.member})" if isinstance(self.member, _Joined) else f"not {self.member}"


FLAGS: Final[dict[str, _Test]] = {
    "read_only": lambda tool: tool.spec.annotations.read_only_hint is True and tool.origin.trusted,
    "destructive": lambda tool: tool.spec.annotations.destructive_hint is True,
    "idempotent": lambda tool: tool.spec.annotations.idempotent_hint is True and tool.origin.trusted,
    "open_world": lambda tool: tool.spec.annotations.open_world_hint is True,
    "edit": lambda tool: tool.spec.annotations.edit_hint is True,
    "long_running": lambda tool: tool.spec.long_running,
    "deferred": lambda tool: tool.spec.deferred,
}
"""The predicates of one word. Hints that reduce caution count only from a trusted origin."""


@frozen(repr=False)
class Flag(Predicate):
    """A boolean fact about a tool; a hint that is unset counts as false.

    Attributes:
        word: One of `FLAGS`.
    """

    calls_functions: ClassVar[bool] = False  # pyright: ignore[reportIncompatibleVariableOverride]
    reads_context: ClassVar[bool] = False  # pyright: ignore[reportIncompatibleVariableOverride]
    word: str

    def __attrs_post_init__(self) -> None:
        if self.word not in FLAGS:
            raise PredicateError(f"there is no flag {self.word!r}.{did_you_mean(suggest(self.word, FLAGS))}")

    def bound(self, context: ReadonlyContext) -> _Test:  # noqa: ARG002  no flag depends on it
        """The test of the flag's table."""
        return FLAGS[self.word]

    def facts(self, tool: Tool, context: ReadonlyContext, /) -> str:
        """Names a hint that isn't trusted."""
        hinted = getattr(tool.spec.annotations, f"{self.word}_hint", None)
        return "hinted, but by an origin that isn't trusted" if hinted and not self(tool, context) else ""

    def to_json(self) -> JsonObject:
        """The word under `is`."""
        return {"is": self.word}

    def __str__(self) -> str:
        return self.word


@lru_cache(maxsize=4096)  # parsing a schema takes some 10 us
def _property_names(schema: str) -> tuple[str, ...]:
    root: Any = json.loads(schema)
    properties: object = root.get("properties") if is_object(root) else None
    return tuple(properties) if is_object(properties) else ()


def _one(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


OF_TOOL: Final[dict[str, Callable[[Any], Iterable[str]]]] = {  # key -> its values for a tool
    "name": lambda tool: (tool.spec.name, *tool.former_names),  # no renaming escapes a predicate
    "tag": lambda tool: tool.spec.tags,
    "kind": lambda tool: (tool.spec.kind,),
    "plugin": lambda tool: _one(tool.origin.plugin) + _one(tool.origin.plugin and tool.origin.distribution),
    "toolset": lambda tool: _one(tool.origin.toolset),
    "distribution": lambda tool: _one(tool.origin.distribution),
    "source": lambda tool: _one(tool.origin.source),
    "property": lambda tool: _property_names(tool.spec.input_schema_text),
}

KEYS: Final = (*OF_TOOL, "user", "agent", "model", "provider")  # what comparisons can be about
STATE: Final = "state"  # the key of the session's state, as in `state.mode == 'plan'`
_OF_STATE: Final = f"{STATE}."


def _reader(key: str) -> Callable[[Any], Iterable[str]]:
    """The function that reads a key of the tool, or of the context or its state."""
    name = key.removeprefix(_OF_STATE)
    if name == key:
        return OF_TOOL.get(key) or (lambda context: _one(getattr(context, key)))
    return lambda context: _one(scalar_text(context.state[name]) if name in context.state else None)


@frozen(repr=False)
class Matches(Predicate):
    """Match of a key's values with a pattern; of several values (tags, properties), one match is enough.

    Attributes:
        key: One of `KEYS`, or `state.` and a key of the state, in which a dot is an ordinary character. A key that is
            missing in the state, or has a list or an object there, never matches.
        pattern: `*` is any run of characters, `?` is one.
    """

    calls_functions: ClassVar[bool] = False  # pyright: ignore[reportIncompatibleVariableOverride]
    key: str
    pattern: str

    def __attrs_post_init__(self) -> None:
        key, pattern = self.key, self.pattern
        if key not in KEYS and not key.startswith(_OF_STATE):
            raise PredicateError(f"there is no key {key[:80]!r}.{near_or_known(key[:80], (*KEYS, f'{STATE}.KEY'))}")
        if key == "kind" and is_literal(pattern) and pattern not in KINDS:
            raise PredicateError(f"there is no kind {pattern!r}.{near_or_known(pattern, KINDS)}")

    @property
    def reads_context(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether its key is one of the context."""
        return self.key not in OF_TOOL

    def bound(self, context: ReadonlyContext) -> _Test:
        """A pattern on the context is matched here, once."""
        matches, read = matcher(self.pattern), _reader(self.key)
        if self.reads_context:
            answer = any(map(matches, read(context)))
            return lambda _tool: answer
        if self.key == "name":
            return lambda tool: bool(matches(tool.spec.name)) or any(map(matches, tool.former_names))
        return lambda tool: any(map(matches, read(tool)))

    def facts(self, tool: Tool, context: ReadonlyContext, /) -> str:
        """The values under the key."""
        values = _reader(self.key)(context if self.reads_context else tool)
        return f"{self._key_text()}: {', '.join(map(written, values)) or 'none'}"

    def to_json(self) -> JsonObject:
        """The pattern under the key; key and pattern under `state`."""
        name = self.key.removeprefix(_OF_STATE)
        return {self.key: self.pattern} if name == self.key else {STATE: {"key": name, "pattern": self.pattern}}

    def __str__(self) -> str:
        return f"{self._key_text()}:{written(self.pattern)}"

    def _key_text(self) -> str:
        name = self.key.removeprefix(_OF_STATE)
        return name if name == self.key else f"{_OF_STATE}{_quoted(name) if ':' in name else written(name)}"


def scalar_text(value: object) -> str | None:
    """A scalar as the text that patterns match: a string as it is, others as in JSON; `None` for anything else."""
    if isinstance(value, str):
        return str.__str__(value)
    return json.dumps(value) if value is None or isinstance(value, bool | int | float) else None


PredicateFunction: TypeAlias = "Callable[[Tool, ReadonlyContext], bool]"
"""A custom predicate: plain, not async. Where it raises, the tool is out, however it is combined."""

CustomPredicates: TypeAlias = Mapping[str, PredicateFunction]  # by their names in texts and JSON

OPERATORS: Final = ("and", "or", "not")  # words that combine predicates
RESERVED: Final = frozenset({*OPERATORS, *FLAGS, *KEYS, STATE})  # names that a custom predicate can't have


def check_predicate_name(name: str) -> str:
    """`name`, if a custom predicate can have it.

    Raises:
        PredicateError: It isn't 1-64 of `[A-Za-z0-9_-]`, a letter or `_` first, or it is reserved.
    """
    if name in RESERVED:
        raise PredicateError(f"{name!r} can't name a predicate: the word is reserved; choose another")
    if not is_valid_name(name):
        rule = "names are 1 to 64 of A-Z, a-z, 0-9, '_' and '-', a letter or '_' first"
        raise PredicateError(f"{name!r} can't name a predicate: {rule}")
    return name


@frozen(repr=False)
class Custom(Predicate):
    """Predicate that calls a function.

    Attributes:
        function: Takes the tool and the context; plain.
        name: Its name in texts and JSON, or `None` where it isn't registered.
    """

    function: PredicateFunction
    name: str | None = None
    reads_context: bool = field(
        default=Factory(lambda self: getattr(self.function, "reads_context", True), takes_self=True), eq=False
    )

    def __attrs_post_init__(self) -> None:
        if self.name is not None:
            check_predicate_name(self.name)
        if not callable(self.function) or CallableKind.of(self.function) is not CallableKind.PLAIN:
            how = "has to be a plain function of (tool, context): use def, without await or yield"
            raise PredicateError(f"predicate {self.name or self.function!r:.100} {how}")

    @property
    def calls_functions(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether evaluating it calls a custom function; not if `function` is a predicate that calls none."""
        return getattr(self.function, "calls_functions", True)

    def bound(self, context: ReadonlyContext) -> _Test:
        """Calls the function for each tool; one that is a predicate itself is bound."""
        function = self.function
        if isinstance(function, Predicate):
            return function.bound(context)

        def test(tool: Tool) -> bool:
            answer: Any = function(tool, context)
            if answer is True or answer is False:
                return answer
            getattr(answer, "close", bool)()  # of a coroutine, which would warn, and always count as true
            name = self.name or getattr(function, "__qualname__", type(function).__name__)
            raise TypeError(f"{name} returned {type(answer).__name__}, neither True nor False")

        return test

    def to_json(self) -> JsonObject:
        """The name under `custom`; a callable without one has no JSON."""
        if self.name is None:
            raise PredicateError("a callable can't be written as JSON: register it under a name")
        return {"custom": self.name}

    def __str__(self) -> str:
        return self.name or "<custom>"


read_only: Final[Predicate] = Flag("read_only")  # hinted to change nothing, by an origin that is trusted
destructive: Final[Predicate] = Flag("destructive")  # hinted to destroy
idempotent: Final[Predicate] = Flag("idempotent")  # hinted that a second call has no effect, by a trusted origin
open_world: Final[Predicate] = Flag("open_world")  # hinted to reach outside
edit: Final[Predicate] = Flag("edit")  # hinted to edit files
long_running: Final[Predicate] = Flag("long_running")  # answers with an id first and with its result later
deferred: Final[Predicate] = Flag("deferred")  # offered only once it was found by a search


everything: Final = Matches("name", "*")  # every tool
nothing: Final = ~everything  # no tool


def all_of(*predicates: Predicate) -> Predicate:
    """True where all of them are; without any, `everything`."""
    return _Joined("and", predicates) if len(predicates) > 1 else next(iter(predicates), everything)


def any_of(*predicates: Predicate) -> Predicate:
    """True where at least one of them is; without any, `nothing`."""
    return _Joined("or", predicates) if len(predicates) > 1 else next(iter(predicates), nothing)
