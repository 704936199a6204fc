"""Permission rules: wildcard patterns, `Rule`, and how a rule matches a part of a call.

In a pattern `*` is any run of characters, `?` is one, the rest is literal; anchored. A trailing `" *"` also matches the
bare word: `git *` matches `git`.

A text may hold holes: places that are filled in later (`$NAME` in a shell). A pattern *covers* such a text if it
matches whatever fills the holes, and *touches* it if it matches something that could fill them.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, Protocol, TypeAlias

import attrs
from attrs import define, field, frozen

from pegboard.errors import did_you_mean, suggest
from pegboard.tools.spec import ARGUMENT_KINDS, ArgumentKind
from pegboard.toolsets.predicate import matcher
from pegboard.typing import JsonObject

HOLE: Final = "\0"
"""Stands in a text for anything, also for nothing. No argument of a process and no path can hold this character."""

_BARE: Final = " *"
_LITERAL: Final = re.compile(r"[^*?]*")


@define
class Wildcard:
    """One pattern, compiled. What a match costs is bounded by length of pattern x length of text.

    Attributes:
        pattern: As it was written, but for stars side by side, which are one.
    """

    pattern: str = field(converter=lambda pattern: re.sub(r"\*+", "*", pattern))
    _match: Callable[[str], object] = field(init=False, repr=False, eq=False)
    _match_bare: Callable[[str], object] | None = field(default=None, init=False, repr=False, eq=False)
    _positions: _Positions | None = field(default=None, init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        self._match = matcher(self.pattern)
        if len(self.pattern) > len(_BARE) and self.pattern.endswith(_BARE):
            self._match_bare = matcher(self.pattern[: -len(_BARE)])

    @property
    def is_everything(self) -> bool:
        """Whether it matches whatever there is."""
        return self.pattern == "*"

    def matches(self, text: str) -> bool:
        """Whether it matches a text without holes."""
        return bool(self._match(text)) or (self._match_bare is not None and bool(self._match_bare(text)))

    def covers(self, text: str) -> bool:
        """Whether it matches whatever fills the holes."""
        if HOLE not in text:
            return self.matches(text)
        return self._could_start(text) and self._compiled().runs(text, sure=True)

    def touches(self, text: str) -> bool:
        """Whether it matches something that could fill the holes."""
        if HOLE not in text:
            return self.matches(text)
        return self._could_start(text) and self._compiled().runs(text, sure=False)

    def _could_start(self, text: str) -> bool:
        """Whether what is certain at the start of both is the same; settles most cases."""
        mine = _LITERAL.match(self.pattern)
        assert mine is not None
        start = mine[0][: text.index(HOLE)]
        return text.startswith(start)

    def _compiled(self) -> _Positions:
        if self._positions is None:
            self._positions = _Positions.of(self.pattern)
        return self._positions


@define
class _Positions:
    """Which places of a pattern have been reached, one bit each: bit i says that what is from i on is still to come.

    Attributes:
        literal: Character -> the places where it stands.
        any_one: The places of `?`.
        any_run: The places of `*`.
        ends: The places at which a text may end.
        last: The number of places.
    """

    literal: dict[str, int]
    any_one: int
    any_run: int
    ends: int
    last: int

    @classmethod
    def of(cls, pattern: str) -> _Positions:
        literal: dict[str, int] = {}
        for place, character in enumerate(pattern):
            literal[character] = literal.get(character, 0) | 1 << place
        last = len(pattern)
        bare = last > len(_BARE) and pattern.endswith(_BARE)
        ends = 1 << last | (1 << (last - len(_BARE)) if bare else 0)
        return cls(literal, literal.pop("?", 0), literal.pop("*", 0), ends, last)

    def runs(self, text: str, *, sure: bool) -> bool:
        """Whether the whole text is matched: for sure, or perhaps."""
        reached = self._on(1)
        for character in text:
            if character != HOLE:
                passed = reached & (self.literal.get(character, 0) | self.any_one)
                reached = self._on(passed << 1 | reached & self.any_run)
            elif sure:
                reached = self._on(reached & self.any_run)
            else:  # some run of characters leads from the first place that was reached to each later one
                reached = (2 << self.last) - (reached & -reached)
            if not reached:
                return False
        return bool(reached & self.ends)

    def _on(self, reached: int) -> int:
        """With the places behind each `*` that was reached: it may be empty."""
        return reached | (reached & self.any_run) << 1


@lru_cache(maxsize=1024)
def wildcard(pattern: str) -> Wildcard:
    """The pattern, compiled once."""
    return Wildcard(pattern)


Mode: TypeAlias = Literal["default", "plan", "accept_edits", "bypass", "never_ask"]
"""How much is asked.

- `default`: what asks, asks.
- `plan`: only tools run that an origin that is trusted calls read-only; the others aren't offered.
- `accept_edits`: tools that an origin that is trusted says to edit files don't ask.
- `bypass`: nothing asks and ordinary rules step back; forbid rules hold.
- `never_ask`: what would ask is denied.
"""

MODES: Final = ("default", "plan", "accept_edits", "bypass", "never_ask")
Action: TypeAlias = Literal["allow", "ask", "deny"]
"""The call runs, a person is asked, or the call is refused."""

ACTIONS: Final = ("allow", "ask", "deny")


def _check_known(_rule: Rule, attribute: attrs.Attribute[Any], value: Any) -> None:
    known = ACTIONS if attribute.name == "action" else ARGUMENT_KINDS
    if value not in known and not (value is None and attribute.name == "kind"):
        meant = did_you_mean(suggest(str(value), known)) or f" There are {', '.join(known)}."
        raise ValueError(f"{attribute.name}: {value!r:.100} is none.{meant}")


def _check_text(_rule: Rule, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str) and not (value is None and attribute.name == "field"):
        raise TypeError(f"{attribute.name} must be a text, got {value!r:.100}")
    if not value and (value is not None or attribute.name != "field"):
        raise ValueError(f"{attribute.name} is empty; '*' stands for all")


@frozen
class Rule:
    """(permission, pattern) -> allow, ask or deny.

    In permission and pattern `*` is any run of characters, `?` is one, the rest is literal; anchored. A trailing
    `" *"` also matches the bare word.

    Attributes:
        permission: Of the permission's name, or of a tool's.
        pattern: Of what the call touches.
        action: What follows.
        forbid: Absolute: it denies whatever other rules, grants and modes say.
        field: The argument that the pattern looks at; `None`: those that the tool declares.
        kind: How that argument is read; `None`: as the tool declares. `"text"` with the pattern `*` looks at
            nothing, and so speaks of every call, also of those that can't be read for sure.
        compiled: What matchers have made of the pattern, by key.

    Raises:
        ValueError: An unknown action or kind, an empty permission or pattern, or a forbid rule that doesn't deny.
        TypeError: Something that is no text.
    """

    permission: str = attrs.field(validator=_check_text)
    pattern: str = attrs.field(validator=_check_text)
    action: Action = attrs.field(validator=_check_known)
    forbid: bool = attrs.field(default=False, kw_only=True)
    field: str | None = attrs.field(default=None, kw_only=True, validator=_check_text)
    kind: ArgumentKind | None = attrs.field(default=None, kw_only=True, validator=_check_known)
    compiled: dict[str, Any] = attrs.field(factory=dict[str, Any], init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if self.forbid and self.action != "deny":
            raise ValueError(f"forbid: a rule that forbids has the action 'deny', not {self.action!r}")

    @property
    def allows(self) -> bool:
        """Whether it takes caution away."""
        return self.action == "allow"

    @cached_property
    def wildcard(self) -> Wildcard:
        """The pattern, compiled."""
        return wildcard(self.pattern)

    @cached_property
    def is_everything(self) -> bool:
        """Whether it looks at nothing: it speaks of every call."""
        return self.kind == "text" and self.field is None and self.wildcard.is_everything

    def names(self, *names: str) -> bool:
        """Whether it speaks of a permission or tool of one of these names."""
        permission = wildcard(self.permission)
        return any(permission.matches(name) for name in names)

    def __str__(self) -> str:
        action = "forbid" if self.forbid else self.action
        looks = (
            f" ({self.field or 'argument'} as {self.kind})" if self.kind else f" ({self.field})" if self.field else ""
        )
        return f"{action} {self.permission}: {self.pattern}{looks}"

    def to_json(self) -> JsonObject:
        """All facts that aren't the default; permission, pattern and action always."""
        data: JsonObject = {"permission": self.permission, "pattern": self.pattern, "action": self.action}
        return data | {name: value for name in _OPTIONAL if (value := getattr(self, name))}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        """Reads what `to_json` writes.

        Raises:
            ValueError: A key that is missing, unknown or of the wrong type, named in the text.
        """
        for key in data:
            if key not in _RULE_KEYS:
                meant = did_you_mean(suggest(str(key), _RULE_KEYS)) or f" There are {', '.join(_RULE_KEYS)}."
                raise ValueError(f"{key!s:.100}: unknown key.{meant}")
        forbid = data.get("forbid", False)
        if not isinstance(forbid, bool):
            raise ValueError(f"forbid: expected true or false, got {forbid!r:.100}")  # noqa: TRY004  (as documented: data from outside)
        given: dict[str, Any] = {"pattern": "*", **({"action": "deny"} if forbid else {}), **data}
        for key in ("permission", "action"):
            if key not in given:
                raise ValueError(f"{key}: missing")
        try:
            return cls(given.pop("permission"), given.pop("pattern"), given.pop("action"), **given)
        except TypeError as error:
            raise ValueError(str(error)) from None


_OPTIONAL: Final = ("forbid", "field", "kind")
_RULE_KEYS: Final = ("permission", "pattern", "action", *_OPTIONAL)


class Match(enum.Enum):
    """Whether a rule speaks of a part of a call. An allow rule never does so perhaps: it does surely, or not."""

    NO = "no"
    PERHAPS = "perhaps"
    SURELY = "surely"


class Matcher(Protocol):
    """What is decided by itself: one command of a line, one place in the file system, one URL, one text."""

    @property
    def inside(self) -> bool:
        """Whether it is only seen inside another part, as what `sudo` runs: nothing has to allow it."""
        ...

    @property
    def shown(self) -> str:
        """What people are shown of it."""
        ...

    @property
    def always(self) -> str | None:
        """The pattern that an answer "always" would allow, or `None` where no pattern could."""
        ...

    def match(self, rule: Rule) -> Match:
        """Whether the rule speaks of it."""
        ...


@frozen
class WholeCall:
    """A call of a tool that declares nothing that rules could look at: only the pattern `*` surely speaks of it."""

    inside: bool = field(default=False, init=False)
    shown: str = field(default="*", init=False)
    always: str | None = field(default="*", init=False)

    def match(self, rule: Rule) -> Match:
        """Any other pattern may or may not fit: that is enough to deny and to ask, and too little to allow."""
        if rule.wildcard.is_everything and rule.field is None and rule.kind in (None, "text"):
            return Match.SURELY
        return Match.NO if rule.allows else Match.PERHAPS


@frozen
class Unreadable:
    """What a rule should look at, but it isn't there or can't be read for sure. It is denied rather than allowed.

    Attributes:
        shown: What was given.
    """

    shown: str = ""
    inside: bool = field(default=False, init=False)
    always: str | None = field(default=None, init=False)

    def match(self, rule: Rule) -> Match:
        """Nothing allows it; what denies or asks may mean it."""
        if rule.allows:
            return Match.NO
        return Match.SURELY if rule.wildcard.is_everything else Match.PERHAPS


@frozen
class TextMatcher:
    """A text that is taken as it is.

    Attributes:
        text: The text; it may have holes.
    """

    text: str
    inside: bool = field(default=False, init=False)

    @property
    def shown(self) -> str:
        """The text."""
        return self.text.replace(HOLE, "*")

    @property
    def always(self) -> str | None:
        """Exactly this text; nothing where it can't be said without matching more."""
        return exactly(self.shown)

    def match(self, rule: Rule) -> Match:
        """The pattern as it was written."""
        if rule.wildcard.covers(self.text):
            return Match.SURELY
        return Match.PERHAPS if not rule.allows and rule.wildcard.touches(self.text) else Match.NO


def exactly(text: str) -> str | None:
    """The pattern that matches this text and nothing else, or `None`: `*` and `?` can't be said literally."""
    return None if "*" in text or "?" in text else text
