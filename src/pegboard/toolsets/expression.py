r"""Predicates as text, as `--where` takes it and `str(predicate)` writes it, and as JSON.

    any     = all {"or" all}
    all     = one {"and" one}
    one     = "not" one | "(" any ")" | word | key ":" value
    word    = "read_only" | "destructive" | "idempotent" | "open_world" | "edit" | "long_running" | "deferred"
            | the name of a registered predicate
    key     = "name" | "tag" | "kind" | "plugin" | "toolset" | "distribution" | "property"
            | "user" | "agent" | "model" | "provider" | "state." value
    value   = bare | JSON string | "'" anything but a quote "'"
    bare    = anything but spaces, brackets and quotes

`not` binds closest, then `and`, then `or`. In a value `*` is any run of characters and `?` is one; quotes are needed
where it holds a space, a round bracket or a quote, and don't change what `*` and `?` mean. The key of a state ends
at the first colon unless it is quoted: `state."a:b":yes`.

In JSON a predicate is an object with one key:

    {"and": [...]}  {"or": [...]}  {"not": ...}
    {"is": "read_only"}                                 a flag
    {"name": "git_*"}                                   a value under a key
    {"state": {"key": "plan", "pattern": "true"}}       a value of the context's state
    {"custom": "cheap"}                                 a registered callable
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

from attrs import define

from pegboard.errors import ExpressionError, PredicateError, did_you_mean, suggest
from pegboard.toolsets.predicates import (
    FLAGS,
    KEYS,
    MAX_DEPTH,
    OPERATORS,
    STATE,
    And,
    Custom,
    CustomPredicates,
    Flag,
    Matches,
    Or,
    Predicate,
    PredicateFunction,
    StateMatches,
    all_of,
    any_of,
)

_MAX_LENGTH: Final = 65_536
_SPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"""[^\s()"':]+""")
_BARE: Final = re.compile(r"""[^\s()"']*""")
_DOUBLE: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SINGLE: Final = re.compile(r"'[^']*'")


def parse_predicate(text: str, custom: CustomPredicates | None = None) -> Predicate:
    """Reads a predicate's text, from a source that isn't trusted.

    Args:
        text: Such as `"read_only and not tag:network and name:git_*"`; at most 65,536 characters, 64 levels.
        custom: The registered callables by name.

    Raises:
        ExpressionError: It doesn't parse; with the place, and what may have been meant.
    """
    if len(text) > _MAX_LENGTH:
        start = text[:60]
        raise ExpressionError(
            f"{len(text):,} characters are too many: at most {_MAX_LENGTH:,} are taken", text=start, position=0
        )
    parser = _Parser(text, custom or {})
    try:
        return parser.whole()
    except PredicateError as error:
        raise ExpressionError(str(error), text=text, position=parser.term_start) from None


def as_predicate(given: Predicate | PredicateFunction | str, custom: CustomPredicates | None = None) -> Predicate:
    """A predicate as it is, a text read, a callable taken as a custom predicate without a name.

    Raises:
        ExpressionError: The text doesn't parse.
        PredicateError: The callable is async, or nothing of the three was given.
    """
    if isinstance(given, Predicate):
        return given
    return parse_predicate(given, custom) if isinstance(given, str) else Custom(given)


@define
class _Parser:
    """Recursive descent parser; counts how deep it goes, so that it never runs out of stack."""

    text: str
    custom: CustomPredicates
    position: int = 0
    term_start: int = 0
    depth: int = 0

    def whole(self) -> Predicate:
        if self.next_character() == "":
            self.refuse("nothing is asked: write a predicate such as 'read_only and name:git_*'", 0)
        predicate = self.any()
        if self.next_character():
            self.refuse_rest()
        return predicate

    def any(self) -> Predicate:
        members = [self.all()]
        while self.takes("or"):
            members.append(self.all())
        return any_of(*members)

    def all(self) -> Predicate:
        members = [self.one()]
        while self.takes("and"):
            members.append(self.one())
        return all_of(*members)

    def one(self) -> Predicate:
        opened = self.next_character() == "("
        start = self.position
        if self.takes("not"):
            return ~self.deeper(self.one, start)
        if not opened:
            return self.term()
        self.position += 1
        predicate = self.deeper(self.any, start)
        if self.next_character() != ")":
            if self.here():
                self.refuse_rest()
            self.refuse("this '(' isn't closed", start)
        self.position += 1
        return predicate

    def term(self) -> Predicate:
        start = self.term_start = self.position
        word = self.matched(_WORD)
        if word == f"{STATE}." and self.here() in ("'", '"'):
            word += self.value(word)
        if self.here() != ":" or not word:
            return self.flag(word, start)
        self.position += 1
        return self.matching(word, start)

    def flag(self, word: str, start: int) -> Predicate:
        self.check_end(start)
        if word in FLAGS:
            return Flag(word)
        if word not in self.custom:
            self.refuse_word(word, start)
        return Custom(self.custom[word], word)

    def matching(self, key: str, start: int) -> Predicate:
        asks_state = key.startswith(f"{STATE}.")
        if not asks_state and key not in KEYS:
            near = did_you_mean(suggest(key[:80], (*KEYS, f"{STATE}.KEY")))
            self.refuse(f"there is no key {key[:80]!r}.{near or f' There are {_ALL_KEYS}.'}", start)
        pattern = self.value(f"{key}:")
        self.check_end(start)
        return StateMatches(key.removeprefix(f"{STATE}."), pattern) if asks_state else Matches(key, pattern)

    def value(self, before: str) -> str:
        start = self.position
        if self.here() == '"':
            return self.json_string(start)
        if self.here() == "'":
            return (self.matched(_SINGLE) or self.refuse("this quote isn't closed", start))[1:-1]
        return self.matched(_BARE) or self.refuse(
            f"nothing stands after {before[:80]!r}: write {before[:80]}VALUE without a space; '' is empty", start
        )

    def json_string(self, start: int) -> str:
        raw = self.matched(_DOUBLE) or self.refuse("this quote isn't closed", start)
        try:
            return json.loads(raw, strict=False)
        except ValueError as error:
            self.refuse(f"between double quotes stands a JSON string, and this is none ({error})", start)

    def here(self) -> str:
        return self.text[self.position : self.position + 1]

    def next_character(self) -> str:
        self.matched(_SPACE)
        return self.here()

    def matched(self, pattern: re.Pattern[str]) -> str:
        """Takes what the pattern matches here; nothing where it doesn't."""
        match = pattern.match(self.text, self.position)
        if match is None:
            return ""
        self.position = match.end()
        return match.group()

    def takes(self, operator: str) -> bool:
        """Takes the operator where it is the next word."""
        self.matched(_SPACE)
        match = _WORD.match(self.text, self.position)
        if match is None or match.group() != operator or self.text[match.end() : match.end() + 1] == ":":
            return False
        self.position = match.end()
        return True

    def deeper(self, rule: Callable[[], Predicate], start: int) -> Predicate:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(f"nested deeper than {MAX_DEPTH} levels", start)
        predicate = rule()
        self.depth -= 1
        return predicate

    def check_end(self, start: int) -> None:
        if self.here() and not self.here().isspace() and self.here() not in "()" and self.position > start:
            self.refuse("a value is either quoted as a whole or not at all, and holds no quote where it isn't")

    def refuse_rest(self) -> NoReturn:
        if self.here() == ")":
            self.refuse("this ')' closes nothing")
        match = _WORD.match(self.text, self.position)
        word = match.group() if match else ""
        near = _OTHER_WORDS.get(word) or next(iter(suggest(word[:80], ("and", "or"))), "")
        self.refuse(f"expected 'and' or 'or' before this.{did_you_mean([near] if near else [])}")

    def refuse_word(self, word: str, start: int) -> NoReturn:
        if not word or word in OPERATORS:
            found = repr(word or self.here()) if word or self.here() else "the end"
            self.refuse(f"expected a word or key:value here, found {found}", start)
        if word == "<custom>":
            self.refuse("a callable that isn't registered under a name has no text", start)
        if word in KEYS or word == STATE:
            self.refuse(f"{word!r} needs a value: {word}{'.KEY' if word == STATE else ''}:VALUE", start)
        known = (*FLAGS, *self.custom, *OPERATORS)
        other = _OTHER_WORDS.get(word)
        near = did_you_mean([other] if other else suggest(word[:80], known))
        self.refuse(f"there is no predicate {word[:80]!r}.{near or f' There are {_ALL_FLAGS}.'}", start)

    def refuse(self, reason: str, position: int | None = None) -> NoReturn:
        at = self.position if position is None else position
        raise ExpressionError(reason, text=self.text, position=at)


_ALL_KEYS: Final = ", ".join((*KEYS, f"{STATE}.KEY"))
_ALL_FLAGS: Final = ", ".join(FLAGS)
_OTHER_WORDS: Final = {"&": "and", "&&": "and", ",": "and", "|": "or", "||": "or", "!": "not", "~": "not"}


_MAX_PARTS: Final = 10_000
_MAX_CHARACTERS: Final = 65_536
_WORDS: Final = ("and", "or", "not", "is", "custom", STATE, *KEYS)


def predicate_from_json(data: Any, custom: CustomPredicates | None = None) -> Predicate:
    """Reads what `to_json` writes, from a source that isn't trusted.

    Args:
        data: Parsed JSON.
        custom: The registered callables by name.

    Raises:
        PredicateError: It is something else, or has more than 64 levels, 10,000 parts or 65,536 characters of
            patterns. The text names the place.
    """
    return _Reading(custom or {}).predicate(data, "$", 1)


@define
class _Reading:
    """Reader of a predicate's JSON, with what it has used of its limits."""

    custom: CustomPredicates
    parts: int = 0
    characters: int = 0

    def predicate(self, data: Any, place: str, depth: int) -> Predicate:
        self.parts += 1
        if depth > MAX_DEPTH or self.parts > _MAX_PARTS:
            _refuse(place[:80], f"at most {MAX_DEPTH} levels and {_MAX_PARTS:,} parts are taken")
        word, value = _only_member(data, place)
        place = f"{place}.{word}"
        if word in ("and", "or"):
            return self.joined(And if word == "and" else Or, value, place, depth)
        if word == "not":
            return ~self.predicate(value, place, depth + 1)
        try:
            return self.leaf(word, value, place)
        except PredicateError as error:
            _refuse(place, str(error).removeprefix(f"{place}: "))

    def joined(self, kind: type[And | Or], value: Any, place: str, depth: int) -> Predicate:
        if not isinstance(value, list) or not value:
            _refuse(place, "expected a list of at least one predicate")
        members = tuple(
            self.predicate(member, f"{place}[{index}]", depth + 1)
            for index, member in enumerate(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        )
        return kind(members) if members[1:] else members[0]

    def leaf(self, word: str, value: Any, place: str) -> Predicate:
        if word == STATE:
            if not isinstance(value, dict) or value.keys() != {"key", "pattern"}:  # pyright: ignore[reportUnknownMemberType]
                _refuse(place, 'expected {"key": ..., "pattern": ...}')
            return StateMatches(self.text(value["key"], place), self.text(value["pattern"], place))
        text = self.text(value, place)
        if word == "is":
            return Flag(text)
        return self.registered(text, place) if word == "custom" else Matches(word, text)

    def registered(self, name: str, place: str) -> Predicate:
        if name not in self.custom:
            _refuse(place, f"no predicate is registered as {name!r}.{did_you_mean(suggest(name, self.custom))}")
        return Custom(self.custom[name], name)

    def text(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            _refuse(place, f"expected a string, found {type(value).__name__}")
        self.characters += len(value)
        if self.characters > _MAX_CHARACTERS:
            _refuse(place, f"at most {_MAX_CHARACTERS:,} characters are taken")
        return value


def _only_member(data: Any, place: str) -> tuple[str, Any]:
    members = cast("dict[Any, Any]", data) if isinstance(data, dict) else {}
    if len(members) != 1:
        _refuse(place, 'expected an object with one key, such as {"name": "git_*"}')
    word, value = next(iter(members.items()))
    if word not in _WORDS:
        shown = str(word)[:80]
        _refuse(place, f"unknown key {shown!r}.{did_you_mean(suggest(shown, _WORDS))}")
    return word, value


def _refuse(place: str, reason: str) -> NoReturn:
    raise PredicateError(f"{place}: {reason}")
