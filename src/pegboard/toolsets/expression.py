r"""Parser of predicates, from the text that `--where` takes and `str(predicate)` writes, and from JSON.

    any     = all {"or" all}
    all     = one {"and" one}
    one     = "not" one | "(" any ")" | word | key ":" value
    word    = one of `FLAGS` | the name of a registered predicate
    key     = one of `KEYS` | "state." value
    value   = bare | JSON string | "'" anything but a quote "'"
    bare    = anything but spaces, brackets and quotes

`not` binds closest, then `and`, then `or`. In a value `*` is any run of characters and `?` is one; quotes are needed
where it holds a space, a round bracket or a quote, and don't change what `*` and `?` mean. The key of a state ends
at the first colon unless it is quoted: `state."a:b":yes`.

In JSON a predicate is an object with one key: `{"and": [...]}`, `{"or": [...]}`, `{"not": ...}`, `{"is": "read_only"}`,
`{"name": "git_*"}`, `{"state": {"key": "plan", "pattern": "true"}}` or `{"custom": "cheap"}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, cast

from pegboard.errors import ExpressionError, PredicateError, did_you_mean, near_or_known, suggest
from pegboard.toolsets.predicates import (
    FLAGS,
    KEYS,
    MAX_DEPTH,
    OPERATORS,
    STATE,
    Custom,
    CustomPredicates,
    Flag,
    Matches,
    Predicate,
    PredicateFunction,
    all_of,
    any_of,
)

_MAX_LENGTH: Final = 65_536
_QUOTED: Final = r""""(?:[^"\\]|\\.)*"|'[^']*'"""
_TOKEN: Final = re.compile(rf"""([()]|(?:[^\s()"']+|{_QUOTED})+)|(["'].*)|\s+""", re.DOTALL)
"""A token, an unclosed quote with all that follows, or spaces; it takes linear time."""
_KEYED: Final = re.compile(rf"""({STATE}\.(?:{_QUOTED})|[^"':]+):(.*)""", re.DOTALL)
_WORD: Final = re.compile(r"""[^"':]*""")
_VALUE: Final = re.compile(rf"""{_QUOTED}|[^"']*""", re.DOTALL)


def parse_predicate(text: str, custom: CustomPredicates | None = None) -> Predicate:
    """Parses a predicate's text, from a source that isn't trusted.

    Args:
        text: Such as `"read_only and not tag:network and name:git_*"`; at most 65,536 characters, 64 levels.
        custom: The registered callables by name.

    Raises:
        ExpressionError: It doesn't parse; with the position and near misses.
    """
    if len(text) > _MAX_LENGTH:
        reason = f"{len(text):,} characters are too many: at most {_MAX_LENGTH:,} are allowed"
        raise ExpressionError(reason, text=text[:60], position=0)
    parser = _Parser(text, custom or {})
    try:
        return parser.whole()
    except PredicateError as error:
        raise ExpressionError(str(error), text=text, position=parser.position) from None


def as_predicate(given: Predicate | PredicateFunction | str, custom: CustomPredicates | None = None) -> Predicate:
    """A predicate from a predicate, its text, or a callable, which becomes a custom predicate without a name.

    Raises:
        ExpressionError: The text doesn't parse.
        PredicateError: The callable is async or a generator, or it is none of the three.
    """
    if isinstance(given, Predicate):
        return given
    return parse_predicate(given, custom) if isinstance(given, str) else Custom(given)


class _Parser:
    """Recursive descent parser with a depth limit, so that it never runs out of stack."""

    def __init__(self, text: str, custom: CustomPredicates) -> None:
        self.text, self.custom, self.depth = text, custom, 0
        found = [match for match in _TOKEN.finditer(text) if match[1] or match[2]]
        if found and found[-1][2]:
            self.refuse("this quote isn't closed", found[-1].start())
        self.rest = [("", len(text)), *((match[1], match.start()) for match in reversed(found))]  # the next one is last
        self.advance()

    def advance(self) -> None:
        self.here, self.position = self.rest.pop()

    def whole(self) -> Predicate:
        if not self.here:
            self.refuse("the predicate is empty: write one such as 'read_only and name:git_*'", 0)
        predicate = self.any()
        if self.here:
            self.refuse_rest()
        return predicate

    def any(self) -> Predicate:
        return any_of(*self.members("or", self.all))

    def all(self) -> Predicate:
        return all_of(*self.members("and", self.one))

    def members(self, word: str, rule: Callable[[], Predicate]) -> Iterator[Predicate]:
        yield rule()
        while self.takes(word):
            yield rule()

    def one(self) -> Predicate:
        start = self.position
        if self.takes("not"):
            return ~self.deeper(self.one, start)
        if not self.takes("("):
            return self.term()
        predicate = self.deeper(self.any, start)
        if not self.takes(")"):
            if self.here:
                self.refuse_rest()
            self.refuse("this '(' isn't closed", start)
        return predicate

    def term(self) -> Predicate:
        term, keyed = self.here, _KEYED.fullmatch(self.here)
        if keyed is not None:
            key, value = keyed.groups()
            place = self.position + keyed.start(2)
            if not value:
                before = f"{key}:"[:80]
                self.refuse(f"no value after {before!r}: write {before}VALUE without a space; '' is empty", place)
            self.check_whole(_VALUE, value, place)
            if key[-1] in ("'", '"'):
                key = f"{STATE}.{self.unquote(key.removeprefix(f'{STATE}.'), self.position)}"
            predicate: Predicate = Matches(key, self.unquote(value, place))
        else:
            self.check_word(term)
            predicate = Flag(term) if term in FLAGS else Custom(self.custom[term], term)
        self.advance()
        return predicate

    def check_whole(self, pattern: re.Pattern[str], text: str, place: int) -> None:
        if rest := pattern.sub("", text, count=1):
            what = "a value has to be quoted as a whole or not at all, and can't contain a quote if it isn't"
            self.refuse(what, place + len(text) - len(rest))

    def unquote(self, text: str, place: int) -> str:
        if text[0] == "'":
            return text[1:-1]
        try:
            return json.loads(text, strict=False) if text[0] == '"' else text
        except ValueError as error:
            self.refuse(f"a value in double quotes has to be a JSON string, and this isn't one ({error})", place)

    def takes(self, token: str) -> bool:
        if is_here := self.here == token:
            self.advance()
        return is_here

    def deeper(self, rule: Callable[[], Predicate], start: int) -> Predicate:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(f"nested deeper than {MAX_DEPTH} levels", start)
        predicate = rule()
        self.depth -= 1
        return predicate

    def refuse_rest(self) -> NoReturn:
        if self.here == ")":
            self.refuse("there is no '(' for this ')'")
        near = _OTHER_WORDS.get(self.here) or next(iter(suggest(self.here[:80], ("and", "or"))), "")
        self.refuse(f"expected 'and' or 'or' before this.{did_you_mean([near] if near else [])}")

    def check_word(self, word: str) -> None:
        """Refuses a word that is neither a flag nor the name of a predicate."""
        if word in (*OPERATORS, ")", "") or word[0] in "\"':":
            found = repr(word if word in OPERATORS else word[0]) if word else "the end"
            self.refuse(f"expected a word or key:value here, found {found}")
        self.check_whole(_WORD, word, self.position)
        if word in FLAGS or word in self.custom:
            return
        if word in KEYS or word == STATE:
            self.refuse(f"{word!r} needs a value: {word}{'.KEY' if word == STATE else ''}:VALUE")
        if word == "<custom>":
            self.refuse("a callable that isn't registered under a name has no text")
        other = _OTHER_WORDS.get(word)
        near = did_you_mean([other]) if other else near_or_known(word[:80], (*FLAGS, *self.custom, *OPERATORS))
        self.refuse(f"there is no predicate {word[:80]!r}.{near}")

    def refuse(self, reason: str, position: int | None = None) -> NoReturn:
        raise ExpressionError(reason, text=self.text, position=self.position if position is None else position)


_OTHER_WORDS: Final = {"&": "and", "&&": "and", ",": "and", "|": "or", "||": "or", "!": "not", "~": "not"}
_WORDS: Final = (*OPERATORS, "is", "custom", STATE, *KEYS)


def predicate_from_json(data: Any, custom: CustomPredicates | None = None) -> Predicate:
    """Reads what `to_json` writes, from a source that isn't trusted.

    Args:
        data: Parsed JSON, at most 65,536 characters and 64 levels.
        custom: The registered callables by name.

    Raises:
        PredicateError: It is anything else; the text names the place.
    """
    try:
        length = len(json.dumps(data, default=str))
    except (RecursionError, ValueError):
        length = 0  # nested too deep, which reading it reports
    if length > _MAX_LENGTH:
        _refuse("$", f"at most {_MAX_LENGTH:,} characters are allowed")
    return _read(data, "$", 1, custom or {})


def _read(data: Any, place: str, depth: int, custom: CustomPredicates) -> Predicate:
    if depth > MAX_DEPTH:
        _refuse(place[:80], f"at most {MAX_DEPTH} levels are allowed")
    members = cast("dict[Any, Any]", data) if isinstance(data, dict) else {}
    if len(members) != 1:
        _refuse(place, 'expected an object with one key, such as {"name": "git_*"}')
    word, value = next(iter(members.items()))
    if word not in _WORDS:
        shown = str(word)[:80]
        _refuse(place, f"unknown key {shown!r}.{did_you_mean(suggest(shown, _WORDS))}")
    place = f"{place}.{word}"
    if word == "not":
        return ~_read(value, place, depth + 1, custom)
    if word not in OPERATORS:
        return _read_leaf(word, value, place, custom)
    if not isinstance(value, list) or not value:
        _refuse(place, "expected a list of at least one predicate")
    parts = [_read(part, f"{place}[{index}]", depth + 1, custom) for index, part in enumerate(cast("list[Any]", value))]
    return all_of(*parts) if word == "and" else any_of(*parts)


def _read_leaf(word: str, value: Any, place: str, custom: CustomPredicates) -> Predicate:
    if word == STATE:
        if not isinstance(value, dict) or value.keys() != {"key", "pattern"}:  # pyright: ignore[reportUnknownMemberType]
            _refuse(place, 'expected {"key": ..., "pattern": ...}')
        return Matches(f"{STATE}.{_text(value['key'], place)}", _text(value["pattern"], place))
    text = _text(value, place)
    if word == "custom":
        if text not in custom:
            _refuse(place, f"no predicate is registered as {text!r}.{did_you_mean(suggest(text, custom))}")
        return Custom(custom[text], text)
    try:
        return Flag(text) if word == "is" else Matches(word, text)
    except PredicateError as error:
        _refuse(place, str(error))


def _text(value: Any, place: str) -> str:
    return value if isinstance(value, str) else _refuse(place, f"expected a string, found {type(value).__name__}")


def _refuse(place: str, reason: str) -> NoReturn:
    raise PredicateError(f"{place}: {reason}")
