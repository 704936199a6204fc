"""Evaluation of permission rules against what a call touches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from types import ModuleType
from typing import Any, Final, TypeAlias, cast

import attrs
from attrs import field, frozen

from pegboard.dispatch.permissions.rule import (
    HOLE,
    Action,
    Folders,
    Match,
    Mode,
    Part,
    PlainText,
    Rule,
    UnreadableError,
    WholeCall,
    refuse_nulls,
)
from pegboard.errors import tuple_of
from pegboard.json import canonical_json, digest_of
from pegboard.schema.converter import read_table
from pegboard.tools.spec import ArgumentKind

MOST_EXACT: Final = 4_096  # characters of `Evaluation.exact`; a longer text is replaced by its digest


@frozen
class Resource:
    """One thing that a call touches, usually the value of an argument."""

    kind: ArgumentKind  # how it is read if a rule names no kind
    value: str | None  # `None`: missing, or not readable as this kind. Then deny rules apply and allow rules don't.
    field: str | None = None  # the argument's name, or `None`
    # whether the tool declares it for rules. What isn't declared counts only for rules that name its field, and decides
    # nothing by itself.
    declared: bool = attrs.field(default=True, kw_only=True)
    # whether the value is the text that was given, and not the JSON of something else
    is_text: bool = attrs.field(default=True, kw_only=True)
    # whether a running tool names it besides its arguments. Deny and ask rules about any argument apply to it, and also
    # read a text as the path or URL that it may be.
    inner: bool = attrs.field(default=False, kw_only=True)

    def parts(self, kind: ArgumentKind, folders: Folders) -> tuple[Part, ...]:
        """Its parts, each of which is decided by itself, with the value read as this kind."""
        if self.value is None or (not self.value and kind != "command"):
            return (Part(),)
        if kind == "text":
            also = self._other_reading(folders) if self.inner else ()
            return (PlainText(self.value, (*also, *map(PlainText, _texts_in(self.value)))),)
        try:
            if kind == "path":
                return (read_path(self.value, folders),)
            read = _read if len(self.value) <= _MOST_KEPT else _read.__wrapped__
            return read(kind, self.value)
        except UnreadableError as error:
            obstacle = f"it can't be read for sure ({error})" if kind == "command" else ""
            return (Part(shown=self.value, obstacle=obstacle),)

    def _other_reading(self, folders: Folders) -> tuple[Part, ...]:
        """The text read as a URL if it begins as one, else as a path; nothing if it can't be that."""
        text = (self.value or "").replace(HOLE, "*")
        kind: ArgumentKind = "url" if _URL_BEGINS.match(text) else "path"
        parts = Resource(kind, text).parts(kind, folders)
        return () if kind == "path" and folders.places and type(parts[0]) is Part else parts


@cache
def _places() -> ModuleType:
    from pegboard.dispatch.permissions import places  # loaded only where a rule needs it; each import costs 1 us

    return places


def read_path(text: str, folders: Folders, known: str = "") -> Part:
    """A path, resolved; see `places.place_of`."""
    try:
        return _places().place_of(text, folders, known)
    except UnreadableError:
        return Part(shown=text)


_MOST_KEPT: Final = 500


@lru_cache(256)
def _read(kind: ArgumentKind, text: str) -> tuple[Part, ...]:
    """The parts of a URL or a command line, which depend on its text alone; a call reads them more than once."""
    if kind == "command":
        from pegboard.dispatch.permissions.commands import command_parts  # loaded only where a rule needs it

        return command_parts(text)
    return (_places().url_of(text),)


_URL_BEGINS: Final = re.compile(r"(?i)[\s<\"']*(?:(?:[a-z][a-z0-9+.\t\r\n-]*:){1,2}[\\/]|[\\/]{2}[^\\/]+\.)")
"""The beginning of what a lenient program takes for a URL: a scheme and a slash, or the slashes of a host."""

MAY_BE_JSON: Final = re.compile(r'[\s\ufeff]*[\[{"]')  # the beginning of a text that may be JSON with more texts in it


def _texts_in(text: str) -> tuple[str, ...]:
    """The strings in a JSON text, and those in strings of it that are JSON themselves; none of any other text."""
    left: list[Any] = [text]
    found = list[str]()
    while left:
        value = left.pop()
        if isinstance(value, str):
            found.append(value)
            if MAY_BE_JSON.match(value):
                with suppress(ValueError, RecursionError):
                    left.append(json.loads(value.lstrip("\ufeff \t\r\n")))
        elif isinstance(value, dict | list):
            left += cast("list[Any]", value if isinstance(value, list) else [*value, *value.values()])
    return tuple(found[1:])


_STRICTNESS: Final = ("allow", None, "ask", "deny")
"""Actions by strictness; without a rule, the call may still need approval."""


@frozen
class Decision:
    """Decision on a call."""

    action: Action | None  # `None`: no rule applies to it
    rule: Rule | None = None  # the rule that decided, or `None`
    forbidden: bool = False  # whether it was a forbid rule, which nothing beats
    reason: str = ""  # why, in a few words, for people
    line: str = ""  # what about a command line has led to it, for the model: why no rule allows it, or may deny it


@frozen
class PermissionRules:
    """Ordered permission rules.

    The last ordinary rule that applies decides; a forbid rule beats them all.

    Attributes:
        rules: All of them.
    """

    rules: tuple[Rule, ...] = field(default=(), converter=tuple_of("rules", Rule))

    def with_rules(self, *rules: Rule) -> PermissionRules:
        """A copy with more rules appended: later ones win, except against a forbid rule."""
        return attrs.evolve(self, rules=(*self.rules, *rules))

    def decide(self, permission: str, resources: Sequence[Resource] = (), *, work_dir: str | None = None) -> Decision:
        """The decision on a call by these rules alone.

        Each resource is decided by itself, and the strictest decision counts: deny, ask, no rule, allow.

        Args:
            permission: What is asked for.
            resources: What the call touches; if empty, only rules with the pattern `*` surely apply.
            work_dir: Where relative paths start; the process's own folder by default.
        """
        applicable = tuple(rule for rule in self.rules if rule.names(permission))
        evaluation = Evaluation(applicable, tuple(resources), Folders([work_dir or "."]))
        return evaluation.forbid() or evaluation.decide_ordinary()


_EXAMPLES: Final = {"match": True, "not_match": False}


@frozen
class _RulesTable:
    """The content of a rules file."""

    mode: Mode = "default"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    rule: tuple[Mapping[str, Any], ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()


def rules_from_json(data: Any) -> tuple[tuple[Rule, ...], Mode]:
    """Reads the rules and mode of a rules file or of `Permissions.to_json`; raises as `Permissions.from_json`."""
    table = read_table(_RulesTable, data, "")
    refuse_nulls(data)
    if table.rule and table.rules:
        raise ValueError("rules: write either 'rule' or 'rules'")
    rules = list[Rule]()
    for key in ("allow", "ask", "deny", "forbid"):  # of two that match the same, the stricter wins
        for place, text in enumerate(getattr(table, key)):
            where = f"{key}[{place}]"
            permission, colon, pattern = (part.strip() for part in text.partition(":"))
            if not permission or (colon and not pattern):
                raise ValueError(f"{where}: expected 'permission: pattern' or 'permission', found {text!r:.100}")
            action = {"action": "deny", "forbid": True} if key == "forbid" else {"action": key}
            rules.append(_rule_of({"permission": permission, "pattern": pattern or "*", **action}, where))
    for place, facts in enumerate(table.rules or table.rule):
        rules.append(_rule_of(facts, f"{'rules' if table.rules else 'rule'}[{place}]"))
    return tuple(rules), table.mode


def _rule_of(facts: Mapping[str, Any], where: str) -> Rule:
    """Reads a rule and checks its examples: values, read as its kind or as text, that it must or mustn't match."""
    try:
        rule = Rule.from_json({key: value for key, value in facts.items() if key not in _EXAMPLES})
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    kind = rule.kind or "text"
    for name, applies in _EXAMPLES.items():
        texts: Any = facts.get(name, [])
        if not (isinstance(texts, list) and all(isinstance(each, str) for each in cast("list[Any]", texts))):
            raise ValueError(f"{where}.{name}: must be a list of texts, got {texts!r:.80}")
        for text in cast("list[str]", texts):
            decision = PermissionRules([rule]).decide(rule.permission, [Resource(kind, text, rule.field)])
            if (decision.rule is not None) is not applies:
                wanted = "doesn't apply" if applies else "applies"
                raise ValueError(f"{where}.{name}: the rule {rule} {wanted} to {text!r:.200}, read as {kind}")
    return rule


def by_precedence(rules: Sequence[Rule]) -> Sequence[Rule]:
    """The rules from the one that counts first: those that forbid, then the others, the last first."""
    return (*(rule for rule in rules if rule.forbid), *(rule for rule in reversed(rules) if not rule.forbid))


def passes(parts: Iterable[Part], rules: Sequence[Rule], *, needs_rule: bool = False) -> bool:
    """Whether rules `by_precedence` surely allow each part: by the first that may match it, or because none does."""
    for part in parts:
        for rule in rules:
            if part.match(rule) is not Match.NO:
                if not rule.allows:
                    return False
                break
        else:
            if needs_rule and not part.inside:
                return False
    return True


Touched: TypeAlias = tuple[tuple[Resource, Part], ...]
"""The parts that have to be decided, each with its resource."""

WHOLE_CALL: Final[Touched] = ((Resource("text", HOLE), WholeCall(shown="*")),)


def read_parts(resources: Iterable[Resource], folders: Folders) -> Touched:
    """The parts of each declared resource; paths by which the call was judged aren't read again."""
    pairs = [
        (each, part)
        for each in resources
        if each.declared
        for part in ([folders.parts[each.field]] if each.field in folders.parts else each.parts(each.kind, folders))
    ]
    return tuple(pairs) or WHOLE_CALL


@frozen
class Evaluation:
    """Evaluation of rules for one call."""

    rules: tuple[Rule, ...]  # those that apply to the tool, in order
    resources: tuple[Resource, ...]  # what the call touches
    folders: Folders  # where relative paths start
    grants: tuple[Rule, ...] = ()  # what people have allowed: they only answer what would be asked
    # everything that is asked for, if the resources don't identify it: the arguments of a call, or as a tuple what a
    # running tool asks for
    whole: Any = None
    # what has to be decided
    declared: Touched = field(default=attrs.Factory(lambda it: read_parts(it.resources, it.folders), takes_self=True))

    @cached_property
    def exact(self) -> str | None:
        """Text that identifies exactly what is asked; `None` if nothing does."""
        asked: Any = self.whole
        if not isinstance(asked, tuple):
            touched: dict[str, list[Any]] = {}
            values = [(resource, part.literal) for resource, part in self.declared if not part.inside]
            if self.declared is not WHOLE_CALL and any(literal is None for _, literal in values):
                return None
            values += [(resource, resource.value) for resource in self.resources if not resource.declared]
            for resource, value in values:
                touched.setdefault(resource.field or "", []).append(value if resource.is_text else [value])
            # In another folder the same arguments mean something else.
            asked = touched if asked is None else {"arguments": asked, "in": self.folders.places}
        try:
            text = canonical_json(asked)
        except (TypeError, ValueError, RecursionError):
            return None
        return text if len(text) <= MOST_EXACT else digest_of(asked)

    def _is_granted(self, resource: Resource, part: Part) -> bool:
        return any(
            grant.pattern == self.exact if grant.literal else self._coverage(grant, resource, part) is Match.SURELY
            for grant in self.grants
        )

    def forbid(self) -> Decision | None:
        """The decision of a forbid rule, if one may apply to anything that is touched."""
        for rule in self.rules:
            for resource, part in self.declared if rule.forbid else ():
                if (match := self.match(rule, resource, part)) is not Match.NO:
                    return _decision_of(rule, part, match)
        return None

    def decide_ordinary(self) -> Decision:
        """The strictest decision of the other rules: for each part, of all that may be the last one to apply."""
        decisions = list[Decision]()
        ordinary = [rule for rule in reversed(self.rules) if not rule.forbid]
        for resource, part in self.declared if ordinary or self.grants else ():
            found = list[Decision]()
            for rule in ordinary:
                match = self._coverage(rule, resource, part)
                if match is not Match.NO:
                    found.append(_decision_of(rule, part, match))
                if match is Match.SURELY:
                    break
            decision = _strictest(found)
            if decision.action in (None, "ask") and self._is_granted(resource, part):
                decision = Decision("allow", reason="it was allowed for longer")
            if not part.inside or decision.action in ("ask", "deny"):
                decisions.append(decision if decision.action else Decision(None, line=_refusal(resource, part)))
        return _strictest(decisions)

    def _coverage(self, rule: Rule, resource: Resource, part: Part) -> Match:
        """As `match`, but an allow rule `*` applies to each part of a command line.

        Except to one about which it isn't known whether a deny rule applies to it.
        """
        match = self.match(rule, resource, part)
        if match is not Match.NO or not (part.obstacle and rule.allows and rule.wildcard.is_everything):
            return match
        if rule.kind not in (None, resource.kind) or rule.field not in (None, resource.field):
            return match
        deny = (self.match(each, resource, part) for each in self.rules if each.action == "deny")
        return Match.NO if Match.PERHAPS in deny else Match.SURELY

    def is_about(self, rule: Rule) -> bool:
        """Whether a rule surely applies to everything that is touched."""
        touched = (pair for pair in self.declared if not pair[1].inside)
        return all(self.match(rule, *pair) is Match.SURELY for pair in touched)

    def is_elsewhere(self, others: Iterable[Part]) -> bool:
        """Whether one of other parts is a path that isn't, and isn't below, one that is touched.

        False if no path is touched, or one that can't be read.
        """
        touched = [part for resource, part in self.declared if resource.kind == "path"]
        if not touched or any(type(part) is Part for part in touched):
            return False
        from pegboard.dispatch.permissions.places import PathPart  # loaded only where paths are touched

        known = [part for part in touched if isinstance(part, PathPart)]
        return any(isinstance(part, PathPart) and not any(each.holds(part) for each in known) for part in others)

    def match(self, rule: Rule, resource: Resource, part: Part) -> Match:
        """Whether a rule applies to a part, or, if it names an undeclared argument, to the call as a whole."""
        if rule.is_everything:
            return Match.SURELY
        if rule.field in (None, resource.field) or (resource.inner and not rule.allows):
            if rule.kind in (None, resource.kind) or self.declared is WHOLE_CALL:
                return part.match(rule)
            parts = resource.parts(rule.kind, self.folders)
        elif any(each.field == rule.field for each, _ in self.declared):
            return Match.NO
        else:
            kind = rule.kind or "text"
            others = [each for each in self.resources if (each.field, each.kind) == (rule.field, kind)]
            parts = [part for each in others for part in each.parts(kind, self.folders)]
            if not parts:
                return Match.NO if rule.allows else Match.PERHAPS
        matches = [each.match(rule) for each in parts if not (rule.allows and each.inside)]
        # An allow rule must apply to all parts, a deny or ask rule to any.
        return (min if rule.allows else max)(matches, default=Match.NO)


def _decision_of(rule: Rule, part: Part, match: Match) -> Decision:
    verbs = {"allow": "a rule allows it", "ask": "a rule asks", "deny": "a rule denies it"}
    words = "a rule forbids it" if rule.forbid else verbs[rule.action]
    line = f"a rule may apply: {part.obstacle}" if part.obstacle and match is Match.PERHAPS else ""
    reasons = (f"{words}, as it may apply: {part.obstacle}" if line else words, rule.reason)
    return Decision(rule.action, rule, rule.forbid, ": ".join(filter(None, reasons)), line)


def _refusal(resource: Resource, part: Part) -> str:
    """Why no rule allows a part of a command line, for the model and people; `""` of anything else."""
    if part.obstacle:
        return f"only the pattern '*' allows {part.shown!r:.100}: {part.obstacle}"
    return f"no rule allows {part.shown!r:.100}" if resource.kind == "command" and part.shown else ""


def _strictest(decisions: Sequence[Decision]) -> Decision:
    """The first of the strictest decisions."""
    return max(decisions, key=lambda each: _STRICTNESS.index(each.action), default=Decision(None))
