"""`PermissionRules`: what the operator says of calls, and what follows for one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import attrs
from attrs import field, frozen

from pegboard.dispatch.permissions.match import Match, Part, WholeCall
from pegboard.dispatch.permissions.rule import Action, Rule
from pegboard.dispatch.permissions.subject import Subject, folder_of

_STRICTNESS: Final = {"deny": 3, "ask": 2, None: 1, "allow": 0}
"""Of what rules say. Where no rule says anything, the call may still be one that asks."""


@frozen
class Decision:
    """What is to be done with a call.

    Attributes:
        action: `None`: no rule speaks of it.
        rule: The rule that decided, or `None`.
        forbidden: Whether it was a forbid rule, which nothing beats.
        reason: Why, in a few words, for people.
    """

    action: Action | None
    rule: Rule | None = None
    forbidden: bool = False
    reason: str = ""


NO_RULE: Final = Decision(None)


def _as_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    kept = tuple(rules)
    for rule in kept:
        if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]  whatever is given comes here
            raise TypeError(f"{rule!r:.100} is no Rule")
    return kept


@frozen
class PermissionRules:
    """Rules, in order.

    Of the ordinary ones the last that speaks of something decides. A forbid rule beats them all.

    Attributes:
        rules: All of them.
    """

    rules: tuple[Rule, ...] = field(default=(), converter=_as_rules)

    def with_rules(self, *rules: Rule) -> PermissionRules:
        """These rules, then those: what comes later wins, but against a forbid rule."""
        return attrs.evolve(self, rules=(*self.rules, *rules))

    def decide(self, permission: str, subjects: Sequence[Subject] = (), *, work_dir: str | None = None) -> Decision:
        """What the rules say of a call.

        Each thing that it touches is decided by itself, and the strictest decision counts: deny, ask, no rule, allow.

        Args:
            permission: What is asked for.
            subjects: What the call touches; nothing: only rules with the pattern `*` surely speak of it.
            work_dir: Where relative paths start; the process's own folder by default.
        """
        spoken = tuple(rule for rule in self.rules if rule.names(permission))
        return Judgement.of(spoken, subjects, folder_of(work_dir)).decide()

    def __len__(self) -> int:
        return len(self.rules)


@frozen
class Judgement:
    """The rules that speak of a permission, and what one call touches.

    Attributes:
        ordinary: The last first.
        forbidding: In any order.
        subjects: What the call touches.
        folder: Where relative paths start, absolute.
    """

    ordinary: tuple[Rule, ...]
    forbidding: tuple[Rule, ...]
    subjects: tuple[Subject, ...]
    folder: str

    @classmethod
    def of(cls, rules: Sequence[Rule], subjects: Iterable[Subject], folder: str) -> Judgement:
        """Puts the rules in order.

        Args:
            rules: Those that speak of the permission, in order.
            subjects: What the call touches.
            folder: Absolute.
        """
        ordinary = tuple(rule for rule in reversed(rules) if not rule.forbid)
        return cls(ordinary, tuple(rule for rule in rules if rule.forbid), tuple(subjects), folder)

    @cached_property
    def declared(self) -> tuple[tuple[Subject | None, tuple[Part, ...]], ...]:
        """What has to be decided: each subject with its parts, read once a rule looks at them."""
        read = tuple((each, each.parts(each.kind, self.folder)) for each in self.subjects if each.declared)
        return read or ((None, (WholeCall(),)),)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Everything that is decided by itself."""
        return tuple(part for _, parts in self.declared for part in parts)

    def decide(self) -> Decision:
        """The strictest of what is decided of the parts."""
        return self.forbid() or self.decide_ordinary()

    def forbid(self) -> Decision | None:
        """The decision of a forbid rule, where one may speak of anything that is touched."""
        for rule in self.forbidding:
            for subject, parts in self.declared:
                if any(self.match(rule, subject, part) is not Match.NO for part in parts):
                    return Decision("deny", rule, forbidden=True, reason="a rule forbids it")
        return None

    def decide_ordinary(self) -> Decision:
        """The same without forbid rules."""
        if not self.ordinary:
            return NO_RULE
        strictest: Decision | None = None
        for subject, parts in self.declared:
            for part in parts:
                decision = self._of_part(subject, part)
                if part.inside and decision.action in (None, "allow"):
                    continue
                if strictest is None or _is_stricter(decision, strictest):
                    strictest = decision
        return strictest or NO_RULE

    def _of_part(self, subject: Subject | None, part: Part) -> Decision:
        """The strictest of what could be the last rule that speaks of a part."""
        strictest: Decision | None = None
        for rule in self.ordinary:
            match = self.match(rule, subject, part)
            if match is Match.NO:
                continue
            decision = Decision(rule.action, rule, reason=_REASONS[rule.action])
            if strictest is None or _is_stricter(decision, strictest):
                strictest = decision
            if match is Match.SURELY:
                return strictest
        return strictest or NO_RULE

    def match(self, rule: Rule, subject: Subject | None, part: Part) -> Match:
        """Whether a rule speaks of a part, or by an argument that isn't declared of the call as a whole."""
        if rule.is_everything:
            return Match.SURELY
        field = subject and subject.field
        if rule.field is not None and rule.field != field:
            return self._by_field(rule)
        if subject is None or rule.kind in (None, subject.kind):
            return part.match(rule)
        return _match_of_all(rule, subject.parts(rule.kind, self.folder))

    def _by_field(self, rule: Rule) -> Match:
        if any(subject is not None and subject.field == rule.field for subject, _ in self.declared):
            return Match.NO
        kind = rule.kind or "text"
        others = [each for each in self.subjects if (each.field, each.kind) == (rule.field, kind)]
        parts = [part for each in others for part in each.parts(kind, self.folder)]
        if not parts:
            return Match.NO if rule.allows else Match.PERHAPS
        return _match_of_all(rule, parts)


_REASONS: Final = {"allow": "a rule allows it", "ask": "a rule asks", "deny": "a rule denies it"}


def _is_stricter(one: Decision, other: Decision) -> bool:
    return _STRICTNESS[one.action] > _STRICTNESS[other.action]


def _match_of_all(rule: Rule, parts: Sequence[Part]) -> Match:
    """To allow, a rule has to speak of all parts; to deny and to ask, any will do."""
    matches = [part.match(rule) for part in parts if not (rule.allows and part.inside)]
    if rule.allows:
        return Match.SURELY if matches and all(match is Match.SURELY for match in matches) else Match.NO
    if Match.SURELY in matches:
        return Match.SURELY
    return Match.PERHAPS if Match.PERHAPS in matches else Match.NO


__all__ = ["NO_RULE", "Decision", "Judgement", "PermissionRules"]
