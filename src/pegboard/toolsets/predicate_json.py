"""A predicate's JSON form: an object with one key.

{"and": [...]}  {"or": [...]}  {"not": ...}
{"is": "read_only"}                                 a flag
{"name": "git_*"}                                   a value under a key
{"state": {"key": "plan", "pattern": "true"}}       a value of the context's state
{"custom": "cheap"}                                 a registered callable
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, cast

from attrs import define

from pegboard.errors import PredicateError, did_you_mean, suggest
from pegboard.toolsets.condition import KEYS, STATE, Flag, Matches, StateMatches
from pegboard.toolsets.custom import Custom, CustomPredicates
from pegboard.toolsets.predicate import MAX_DEPTH, And, Or, Predicate

MAX_PARTS: Final = 10_000
MAX_CHARACTERS: Final = 65_536
_WORDS: Final = ("and", "or", "not", "is", "custom", STATE, *KEYS)


def predicate_from_json(data: Any, custom: CustomPredicates | None = None) -> Predicate:
    """Reads what `to_json` writes, from a source that isn't trusted.

    Args:
        data: Parsed JSON.
        custom: The registered callables by name.

    Raises:
        PredicateError: It says something else, or more than 64 levels, 10,000 parts or 65,536 characters of
            patterns. The text names the place.
    """
    return _Reading(custom or {}).predicate(data, "$", 1)


@define
class _Reading:
    """One reading, and what it has used up."""

    custom: CustomPredicates
    parts: int = 0
    characters: int = 0

    def predicate(self, data: Any, place: str, depth: int) -> Predicate:
        self.parts += 1
        if depth > MAX_DEPTH or self.parts > MAX_PARTS:
            _refuse(place[:80], f"at most {MAX_DEPTH} levels and {MAX_PARTS:,} parts are taken")
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
        if self.characters > MAX_CHARACTERS:
            _refuse(place, f"at most {MAX_CHARACTERS:,} characters are taken")
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
