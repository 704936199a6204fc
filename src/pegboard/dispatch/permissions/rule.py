"""Permission rules: wildcard patterns, `Rule`, and how a rule matches a part of a call.

In a pattern `*` is any run of characters, `?` is one, the rest is literal; anchored. A trailing `" *"` also matches the
bare word: `git *` matches `git`.

A text may have holes, which are filled in later (`$NAME` in a shell). A pattern matches such a text surely if it
matches for every filling of the holes, and perhaps if it matches for some.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, TypeAlias

import attrs
from attrs import field, frozen

from pegboard.errors import instance_of, one_of
from pegboard.schema.converter import json_key, read_table
from pegboard.text import confusable_key
from pegboard.tools.spec import ARGUMENT_KINDS, ArgumentKind, source_name
from pegboard.toolsets.predicates import matcher
from pegboard.typing import JsonObject

HOLE: Final = "\0"
"""Placeholder in a text for any run of characters, even none. No argument of a process and no path can contain NUL."""


class Match(enum.IntEnum):
    """Degree to which a rule applies to part of a call; an allow rule applies surely or not at all."""

    NO = 0
    PERHAPS = 1
    SURELY = 2


class Wildcard:
    """Compiled pattern. The cost of a match is bounded by length of pattern x length of text."""

    def __init__(self, pattern: str) -> None:
        self.pattern: Final = re.sub(r"\*+", "*", pattern)  # as written, with runs of `*` collapsed
        self.is_everything: Final = self.pattern == "*"  # whether it matches every text
        # appended to a text before matching: a blank if the pattern ends with `" *"`, to match the bare word too
        self.tail: Final = " " if len(self.pattern) > len(" *") and self.pattern.endswith(" *") else ""
        test = matcher(self.pattern)
        # truthy for a text that matches
        self.test: Callable[[str], object] = (lambda text: test(f"{text} ")) if self.tail else test

    def matches(self, text: str) -> bool:
        """`test` as a bool."""
        return bool(self.test(text))

    def match(self, text: str) -> Match:
        """`SURELY` if it matches for every filling of the text's holes, `PERHAPS` if for some."""
        if HOLE not in text:
            return Match.SURELY if self.matches(text) else Match.NO
        if self._matches_filled(text, always=True):
            return Match.SURELY
        return Match.PERHAPS if self._matches_filled(text, always=False) else Match.NO

    def _matches_filled(self, text: str, *, always: bool) -> bool:
        """Whether a text matches for every filling of its holes, or else for some.

        Follows all positions in the pattern that may have been reached at once, as an NFA does.
        """
        pattern = f"{self.pattern}\0"
        reached = _skip_stars(pattern, {0})
        for character in text + self.tail:
            if character == HOLE and not always:  # some run of characters leads to each later position
                reached = set(range(min(reached), len(pattern)))
                continue
            passed = () if character == HOLE else {at + 1 for at in reached if pattern[at] in (character, "?")}
            reached = _skip_stars(pattern, {at for at in reached if pattern[at] == "*"}.union(passed))
            if not reached:
                return False
        return len(self.pattern) in reached


def _skip_stars(pattern: str, reached: set[int]) -> set[int]:
    """The positions, and those after each `*` among them, as it may match nothing."""
    return reached | {at + 1 for at in reached if pattern[at] == "*"}


@lru_cache(maxsize=1024)
def wildcard(pattern: str) -> Wildcard:
    """The compiled pattern, cached."""
    return Wildcard(pattern)


Mode: TypeAlias = Literal["default", "plan", "accept_edits", "bypass", "never_ask"]
"""How much is asked.

- `default`: what needs approval is asked about.
- `plan`: only tools run that a trusted origin declares read-only; the others aren't offered.
- `accept_edits`: tools that a trusted origin declares to edit files don't ask.
- `bypass`: nothing asks and ordinary rules are ignored; forbid rules apply.
- `never_ask`: what would ask is denied.
"""

MODES: Final = ("default", "plan", "accept_edits", "bypass", "never_ask")
Action: TypeAlias = Literal["allow", "ask", "deny"]  # the call runs, a person is asked, or the call is refused


def _check_text(_rule: Rule, attribute: attrs.Attribute[Any], value: Any) -> None:
    name = attribute.name
    if value is None and name not in ("permission", "pattern"):
        return
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r:.100}")
    if HOLE in value:
        raise ValueError(f"{name} holds a NUL character, which nothing matches")
    if not confusable_key(value):
        raise ValueError(f"{name} is empty or blank; '*' stands for all")
    if name == "permission" and not (value == value.strip() and value.isprintable()):
        raise ValueError(f"permission: {value!r:.100} holds blanks or hidden characters that no name has")


@frozen
class Rule:
    """Permission rule: (permission, pattern) -> allow, ask or deny.

    In permission and pattern `*` is any run of characters, `?` is one, the rest is literal; anchored. A trailing
    `" *"` also matches the bare word.

    Attributes:
        permission: Pattern of the permission's name, or of a tool's.
        pattern: Pattern of what the call touches.
        action: What to do with the call.
        forbid: Denies absolutely: other rules, grants and modes can't change it.
        field: The argument that the pattern is matched with; `None`: those that the tool declares.
        kind: How that argument is read; `None`: as the tool declares. `"text"` with the pattern `*` applies to every
            call, also if an argument can't be read for sure.
        owner: The distribution (else the plugin) to whose tools it is limited, `""` for the host's own; `None`: any.
        source: The distribution that the tools' toolset says they come from; `None`: any. Only deny and ask rules have
            one, as a toolset could claim any.
        literal: Whether the pattern is the text of `Evaluation.exact`, compared literally: only in grants.
        reason: Why, for the model and for people.
        allows: Whether the action is `"allow"`.

    Raises:
        ValueError: An unknown action or kind, a blank permission or pattern, a forbid rule that doesn't deny, an allow
            rule with a source, or a source that isn't a distribution's name.
        TypeError: A value isn't a string.
    """

    permission: str = attrs.field(validator=_check_text)
    pattern: str = attrs.field(validator=_check_text)
    action: Action = attrs.field(validator=one_of("allow", "ask", "deny"))
    forbid: bool = attrs.field(default=False, kw_only=True)
    field: str | None = attrs.field(default=None, kw_only=True, validator=_check_text)
    kind: ArgumentKind | None = attrs.field(default=None, kw_only=True, validator=one_of(*ARGUMENT_KINDS, None))
    literal: bool = attrs.field(default=False, kw_only=True, metadata=json_key(""))
    owner: str | None = attrs.field(default=None, kw_only=True, validator=instance_of(str, type(None)))
    source: str | None = attrs.field(default=None, kw_only=True, converter=source_name)
    reason: str | None = attrs.field(default=None, kw_only=True, validator=_check_text)
    allows: bool = attrs.field(
        default=attrs.Factory(lambda self: self.action == "allow", takes_self=True), init=False, repr=False, eq=False
    )
    # Compiled forms of the pattern, by key; cached here, as links are followed only once.
    compiled: dict[str, Any] = attrs.field(factory=dict[str, Any], init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if self.forbid and self.action != "deny":
            raise ValueError(f"forbid: a rule that forbids has the action 'deny', not {self.action!r}")
        if self.allows and self.source is not None:
            raise ValueError("source: an allow rule can't have one, as a toolset could claim any; use owner")

    @cached_property
    def wildcard(self) -> Wildcard:
        """The pattern, compiled."""
        return wildcard(self.pattern)

    @cached_property
    def is_everything(self) -> bool:
        """Whether it applies to every call, whatever the arguments."""
        return self.kind == "text" and self.field is None and self.wildcard.is_everything

    def names(self, *names: str) -> bool:
        """Whether it applies to a permission or tool of one of these names."""
        permission = wildcard(self.permission)
        return any(permission.matches(name) for name in names)

    def __str__(self) -> str:
        action = "forbid" if self.forbid else self.action
        looks = f"{self.field or 'argument'} as {self.kind}" if self.kind else self.field
        return f"{action} {self.permission}: {self.pattern}" + (f" ({looks})" if looks else "")

    def to_json(self) -> JsonObject:
        """All facts that aren't the default; permission, pattern and action always."""
        data: JsonObject = {"permission": self.permission, "pattern": self.pattern, "action": self.action}
        optional = ("forbid", "field", "kind", "owner", "source", "reason")
        return data | {name: value for name in optional if (value := getattr(self, name)) not in (None, False)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rule:
        """Reads what `to_json` writes.

        Raises:
            ValueError: A key that is missing, unknown or of the wrong type, named in the text.
        """
        if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
            raise ValueError(f"a rule must be a table, got {type(data).__name__}")  # noqa: TRY004  as documented
        if data.get("action") == "forbid":
            raise ValueError("action: 'forbid' is not an action; write action = \"deny\" and forbid = true")
        refuse_nulls({key: data[key] for key in ("pattern", "forbid") if key in data})
        return read_table(cls, {"pattern": "*", **({"action": "deny"} if data.get("forbid") else {}), **data}, "")


def refuse_nulls(data: Mapping[str, Any]) -> None:
    """Raises `ValueError` for a key without a value, which would count as left out."""
    if nulls := [key for key, value in data.items() if value is None]:
        raise ValueError(f"{nulls[0]}: null is not a value; leave the key out")


@frozen
class Part:
    """Part of a call that is decided by itself: a command of a line, a path, a URL, a text.

    An instance of this class itself couldn't be read for sure: nothing allows it.
    """

    shown: str = field(default="", kw_only=True)  # its text for people
    # whether it is only seen inside another part, as what `sudo` runs: nothing has to allow it
    inside: bool = field(default=False, kw_only=True)
    obstacle: str = field(default="", kw_only=True)  # why no pattern but `*` allows a part of a command line, or `""`

    @property
    def literal(self) -> str | None:
        """Text that identifies exactly this, or `None` if it may mean something else the next time."""
        return None

    @property
    def wider(self) -> str | None:
        """A pattern that allows this and more like it, to be offered to a person, or `None`."""
        return None

    def match(self, rule: Rule) -> Match:
        """Whether a rule applies to a part that can't be read: an allow rule doesn't, a deny or ask rule may."""
        if rule.allows:
            return Match.NO
        return Match.SURELY if rule.wildcard.is_everything else Match.PERHAPS


@frozen
class WholeCall(Part):
    """Call of a tool that declares no arguments for rules: only the pattern `*` surely applies to it."""

    def match(self, rule: Rule) -> Match:
        """Any other pattern may or may not match: enough to deny and to ask, too little to allow."""
        if rule.wildcard.is_everything and rule.kind in (None, "text"):
            return Match.SURELY
        return Match.NO if rule.allows else Match.PERHAPS


class Folders:
    """Base folders of relative paths and patterns: the tool's own; for deny and ask rules the call's as well."""

    def __init__(self, folders: Iterable[str]) -> None:
        # made absolute, with their links; without any, paths can't be read
        self.places: Final = tuple(os.path.abspath(each) for each in folders)  # noqa: PTH100
        self.patterns: Final[dict[str, Any]] = {}  # cache of patterns resolved there
        self.parts: Final[dict[str | None, Part]] = {}  # paths by which a call was judged, resolved, by argument


class UnreadableError(ValueError):
    """A value that programs may read in several ways, or that can't be read as its kind."""


def refuse_if(applies: object, why: str) -> None:
    """Raises `UnreadableError` with the reason if it applies."""
    if applies:
        raise UnreadableError(why)


@frozen
class PlainText(Part):
    """Text that is matched as written."""

    text: str  # the text; it may have holes
    # other readings of it, for deny and ask rules; paths and URLs among them for allow rules as well
    also: tuple[Part, ...] = ()
    shown: str = field(default=attrs.Factory(lambda self: self.text.replace(HOLE, "*"), takes_self=True), init=False)

    @property
    def literal(self) -> str | None:
        """The text, unless it has holes."""
        return None if HOLE in self.text else self.text

    def match(self, rule: Rule) -> Match:
        """Matches the pattern with the text and its other readings."""
        match = rule.wildcard.match(self.text)
        if rule.allows:
            places = () if rule.wildcard.is_everything or "/" not in self.text else self.also
            wanted = (match, *(each.match(rule) for each in places if not isinstance(each, PlainText)))
            return Match.SURELY if all(each is Match.SURELY for each in wanted) else Match.NO
        return max((match, *(each.match(rule) for each in self.also if not rule.kind or isinstance(each, PlainText))))


def is_name(permission: str) -> bool:
    """Whether a rule can name a permission: it is no pattern, and has no hidden characters or outer blanks."""
    return exactly(permission) is not None and permission == permission.strip() and permission.isprintable()


def exactly(text: str) -> str | None:
    """The pattern that matches this text and nothing else, or `None`: `*` and `?` have no literal form."""
    return None if "*" in text or "?" in text or HOLE in text or not text.strip() else text
