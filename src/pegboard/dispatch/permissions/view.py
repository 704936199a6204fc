"""`View`: one tool as rules and modes see it, worked out once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, cast

from attrs import frozen

from pegboard.dispatch.permissions.mode import Mode
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.permissions.rules import Judgement
from pegboard.dispatch.permissions.subject import Subject, folder_of
from pegboard.schema.json import canonical_json
from pegboard.tools.spec import ArgumentKind, ToolSpec
from pegboard.tools.tool import Confirmer, Tool
from pegboard.typing import JsonObject

MOST_VALUES: Final = 500
"""Of one argument that rules look at; of more nobody can say what a call touches."""


@frozen(eq=False)
class View:
    """One tool as rules and modes see it. It doesn't hold the tool, which would keep a tool that is gone alive.

    Attributes:
        spec: What the tool says of itself.
        trusted: Whether that may be believed where it takes caution away.
        confirms: Picks the calls that need confirmation.
        rules: Those that speak of it, in order.
        mode: How much is asked.
    """

    spec: ToolSpec
    trusted: bool
    confirms: Confirmer | None
    rules: tuple[Rule, ...]
    mode: Mode

    @classmethod
    def of(cls, tool: Tool, rules: Sequence[Rule], mode: Mode) -> View:
        """Picks the rules that speak of a tool."""
        trusted = tool.origin.trusted
        spoken = tuple(rule for rule in rules if speaks_of(rule, tool.spec, trusted=trusted))
        return cls(tool.spec, trusted, tool.confirms, spoken, mode)

    @property
    def permission(self) -> str:
        """What a person is asked for: the tool's permission, or its name; a name says no more than it is."""
        own = self.spec.permission
        if own is None or not self.trusted or "*" in own or "?" in own:
            return self.spec.name
        return own

    @property
    def reads_only(self) -> bool:
        """Whether an origin that is trusted says so."""
        return self.trusted and self.spec.annotations.read_only_hint is True

    @property
    def accepts_edits(self) -> bool:
        """Whether it is one of those that the mode lets pass without asking."""
        trusted = self.trusted and self.spec.annotations.edit_hint is True
        return self.mode == "accept_edits" and trusted

    @cached_property
    def is_settled(self) -> bool:
        """Whether every call of it runs, whatever its arguments."""
        if any(rule.forbid for rule in self.rules) or (self.mode == "plan" and not self.reads_only):
            return False
        if self.mode == "bypass":
            return True
        if any(rule.action == "deny" for rule in self.rules):
            return False
        return self.accepts_edits or not (self.may_ask or any(rule.action == "ask" for rule in self.rules))

    @cached_property
    def is_hidden(self) -> bool:
        """Whether no call of it runs: its last rule denies every pattern, one forbids every one, or the mode does."""
        if self.mode == "plan" and not self.reads_only:
            return True
        if any(rule.forbid and _denies_all(rule) for rule in self.rules):
            return True
        ordinary = [rule for rule in self.rules if not rule.forbid]
        return self.mode != "bypass" and bool(ordinary) and _denies_all(ordinary[-1])

    @property
    def may_ask(self) -> bool:
        """Whether the tool itself gives a reason to ask, for some calls at least."""
        spec, confirms = self.spec, self.confirms
        marked = spec.annotations.destructive_hint is True or spec.requires_confirmation
        return marked or confirms is not None or spec.permission is not None

    def reason_to_ask(self, arguments: Mapping[str, Any]) -> str | None:
        """Why a call with these arguments asks, where no rule speaks of it; `None`: it doesn't."""
        spec, confirms = self.spec, self.confirms
        if spec.annotations.destructive_hint is True:
            return "marked destructive"
        if confirms is None and spec.requires_confirmation:
            return "wants each call confirmed"
        if confirms is not None:
            try:
                if confirms(dict(arguments)):
                    return "wants this call confirmed"
            except (Exception, SystemExit):  # noqa: BLE001  it can't say, so a person does
                return "can't say whether this call has to be confirmed"
        return None if spec.permission is None else f"asks for the permission {spec.permission!r}"

    def judgement(self, arguments: Mapping[str, Any], work_dir: str | None, grants: Sequence[Rule]) -> Judgement:
        """What the rules, and then the grants, have to say of a call."""
        rules = (*self.rules, *(rule for rule in grants if speaks_of(rule, self.spec, trusted=self.trusted)))
        return Judgement.of(rules, self._subjects(arguments, rules), folder_of(work_dir))

    def _subjects(self, arguments: Mapping[str, Any], rules: Sequence[Rule]) -> Iterator[Subject]:
        declared = self._declared
        for name, kind in declared.items():
            for value in self._values(arguments, name, kind):
                yield Subject(kind, value, name)
        others: dict[tuple[str, ArgumentKind], None] = {
            (rule.field, rule.kind or "text"): None
            for rule in rules
            if rule.field is not None and rule.field not in declared
        }
        for name, kind in others:
            for value in self._values(arguments, name, kind):
                yield Subject(kind, value, name, declared=False)

    @cached_property
    def _declared(self) -> dict[str, ArgumentKind]:
        return self.spec.permission_arguments

    @cached_property
    def _properties(self) -> JsonObject:
        return self.spec.input_schema.get("properties", {})

    def _values(self, arguments: Mapping[str, Any], name: str, kind: ArgumentKind) -> tuple[str | None, ...]:
        """What an argument says; where it is left out, what its schema says, if it can be believed."""
        given = arguments.get(name)
        if name not in arguments and self.trusted:
            schema = self._properties.get(name)
            given = schema.get("default") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return values_of(given, kind)


def values_of(given: Any, kind: ArgumentKind) -> tuple[str | None, ...]:
    """The texts that rules look at.

    Args:
        given: The argument's value. A list gives each of its items; for `"command"` it is the words of one command.
        kind: How it is read.

    Returns:
        `None` for each that can't be read so.
    """
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, list | tuple):
        return (_value_of(given, kind),)
    items = cast("Sequence[Any]", given)
    if kind == "command" and items and all(isinstance(each, str) for each in items):
        import shlex

        return (shlex.join(items),)
    if not items or len(items) > MOST_VALUES or kind == "command":
        return (None,)
    return tuple(_value_of(each, kind) for each in items)


def _value_of(given: Any, kind: ArgumentKind) -> str | None:
    if given is None or isinstance(given, str):
        return given
    try:
        return canonical_json(given) if kind == "text" else None
    except (TypeError, ValueError):
        return None


def speaks_of(rule: Rule, spec: ToolSpec, *, trusted: bool) -> bool:
    """Whether a rule names a tool, by its permission or its name.

    What a tool of an origin that isn't trusted calls its permission takes away no caution: it is allowed by its name
    only. A rule about an argument that a tool can't have doesn't speak of it.
    """
    own = spec.permission
    names = (spec.name,) if own is None or (rule.allows and not trusted) else (own, spec.name)
    return rule.names(*names) and (rule.field is None or _may_have(spec, rule.field))


def _may_have(spec: ToolSpec, name: str) -> bool:
    schema = spec.input_schema
    closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    return name in schema.get("properties", {}) or not closed or name in spec.permission_arguments


def _denies_all(rule: Rule) -> bool:
    return rule.action == "deny" and rule.field is None and rule.wildcard.is_everything


__all__ = ["View", "speaks_of", "values_of"]
