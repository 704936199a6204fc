"""Permissions: rules and a mode, and what they decide about a call."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, TypeAlias, cast

import attrs
from attrs import field, frozen

from pegboard.dispatch.permissions.rule import (
    HOLE,
    MODES,
    Action,
    Example,
    Match,
    Matcher,
    Mode,
    Rule,
    RulesError,
    Test,
    TextMatcher,
    Unreadable,
    UnreadableError,
    WholeCall,
    rules_from_json,
)
from pegboard.schema.json import canonical_json, digest_of
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext
from pegboard.tools.handler import Confirmer, WorkDir
from pegboard.tools.spec import ArgumentKind, ToolSpec
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject


@frozen
class Resource:
    """One thing that a call touches, usually the value of an argument.

    Attributes:
        kind: How it is read, where a rule doesn't name a kind.
        value: `None`: it isn't there, or it is nothing that could be read so. Then deny applies and allow doesn't.
        field: The argument's name, or `None`.
        declared: Whether the tool declares it for rules. What isn't declared counts only for rules that
            name its field, and decides nothing by itself.
    """

    kind: ArgumentKind
    value: str | None
    field: str | None = None
    declared: bool = attrs.field(default=True, kw_only=True)

    def parts(self, kind: ArgumentKind, folders: Sequence[str]) -> tuple[Matcher, ...]:
        """Its parts, each of which is decided by itself, with the value read as this kind.

        Args:
            kind: How it is read.
            folders: As in `Evaluation`.
        """
        if not self.value:
            return (Unreadable(),)
        if kind == "text":
            return (TextMatcher(self.value),)
        try:
            if kind == "command":
                from pegboard.dispatch.permissions.commands import command_parts  # loaded only where a rule needs it

                return command_parts(self.value)
            from pegboard.dispatch.permissions.places import place_of, url_of  # loaded only where a rule needs it

            return (url_of(self.value) if kind == "url" else place_of(self.value, *folders),)
        except UnreadableError:
            return (Unreadable(self.value),)


_STRICTNESS: Final = {"deny": 3, "ask": 2, None: 1, "allow": 0}
"""Of actions. Where no rule applies, the call may still be one that asks."""


@frozen
class Decision:
    """What is to be done with a call.

    Attributes:
        action: `None`: no rule applies to it.
        rule: The rule that decided, or `None`.
        forbidden: Whether it was a forbid rule, which nothing beats.
        reason: Why, in a few words, for people.
    """

    action: Action | None
    rule: Rule | None = None
    forbidden: bool = False
    reason: str = ""


NO_RULE: Final = Decision(None)


def _checked_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    kept = tuple(rules)
    for rule in kept:
        if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]  whatever is given comes here
            raise TypeError(f"{rule!r:.100} is no Rule")
    return kept


@frozen
class PermissionRules:
    """Rules, in order.

    Of the ordinary ones the last that applies to something decides. A forbid rule beats them all.

    Attributes:
        rules: All of them.
    """

    rules: tuple[Rule, ...] = field(default=(), converter=_checked_rules)

    def with_rules(self, *rules: Rule) -> PermissionRules:
        """These rules, then those: what comes later wins, but against a forbid rule."""
        return attrs.evolve(self, rules=(*self.rules, *rules))

    def decide(self, permission: str, resources: Sequence[Resource] = (), *, work_dir: str | None = None) -> Decision:
        """What the rules say of a call.

        Each thing that it touches is decided by itself, and the strictest decision counts: deny, ask, no rule, allow.

        Args:
            permission: What is asked for.
            resources: What the call touches; nothing: only rules with the pattern `*` surely apply to it.
            work_dir: Where relative paths start; the process's own folder by default.
        """
        applicable = tuple(rule for rule in self.rules if rule.names(permission))
        evaluation = Evaluation(applicable, tuple(resources), (work_dir or ".",))
        return evaluation.forbid() or evaluation.decide_ordinary()

    def __len__(self) -> int:
        return len(self.rules)


@frozen
class Evaluation:
    """The rules that apply to one call, and what it touches.

    Attributes:
        rules: In their order.
        resources: What the call touches.
        folders: Where relative paths start. A relative pattern starts there too, and to deny and to ask in each of
            the other folders as well: the tool's own comes first, then the call's. None: paths can't be read.
        grants: What people have allowed: they answer what asks, and nothing else.
        whole: All that is asked, as JSON data, where the resources don't make it up.
    """

    rules: tuple[Rule, ...]
    resources: tuple[Resource, ...]
    folders: tuple[str, ...]
    grants: tuple[Rule, ...] = ()
    whole: Any = None

    @cached_property
    def ordinary(self) -> tuple[Rule, ...]:
        """The rules that don't forbid, the last first."""
        return tuple(rule for rule in reversed(self.rules) if not rule.forbid)

    @cached_property
    def declared(self) -> tuple[tuple[Resource | None, tuple[Matcher, ...]], ...]:
        """What has to be decided: each resource with its parts, read once a rule looks at them."""
        read = tuple((each, each.parts(each.kind, self.folders)) for each in self.resources if each.declared)
        return read or ((None, (WholeCall(),)),)

    @property
    def parts(self) -> tuple[Matcher, ...]:
        """Everything that is decided by itself."""
        return tuple(part for _, parts in self.declared for part in parts)

    @cached_property
    def exact(self) -> str | None:
        """Text that stands for what is asked and for nothing else; `None` where there is none."""
        asked: Any = self.whole
        if asked is None:
            asked = {}
            for resource, parts in self.declared:
                assert resource is not None
                literals = [part.literal for part in parts if not part.inside]
                if None in literals:
                    return None
                shown = [resource.value] if resource.kind == "command" else literals
                asked.setdefault(resource.field or "", []).extend(shown)
            for resource in self.resources:
                if not resource.declared:
                    asked.setdefault(resource.field, []).append(resource.value)
        try:
            text = canonical_json(asked)
        except (TypeError, ValueError, RecursionError):
            return None
        return text if len(text) <= MOST_EXACT else digest_of(asked)

    def _is_granted(self, resource: Resource | None, part: Matcher) -> bool:
        return any(
            grant.pattern == self.exact if grant.literal else self.match(grant, resource, part) is Match.SURELY
            for grant in self.grants
        )

    def forbid(self) -> Decision | None:
        """The decision of a forbid rule, where one may apply to anything that is touched."""
        for rule in self.rules:
            if rule.forbid and any(
                self.match(rule, resource, part) is not Match.NO for resource, parts in self.declared for part in parts
            ):
                return Decision("deny", rule, forbidden=True, reason=_reason("a rule forbids it", rule))
        return None

    def decide_ordinary(self) -> Decision:
        """The same without forbid rules: of each part, the strictest of what could be the last rule that applies."""
        strictest: Decision | None = None
        for resource, parts in self.declared if self.ordinary or self.grants else ():
            for part in parts:
                decision: Decision | None = None
                for rule in self.ordinary:
                    match = self.match(rule, resource, part)
                    if match is not Match.NO:
                        decision = _stricter(
                            Decision(rule.action, rule, reason=_reason(_REASONS[rule.action], rule)), decision
                        )
                    if match is Match.SURELY:
                        break
                if (decision is None or decision.action == "ask") and self._is_granted(resource, part):
                    decision = _GRANTED
                if not part.inside or (decision and decision.action != "allow"):
                    strictest = _stricter(decision or NO_RULE, strictest)
        return strictest or NO_RULE

    def is_about(self, rule: Rule) -> bool:
        """Whether a rule surely applies to everything that is touched."""
        return all(
            self.match(rule, resource, part) is Match.SURELY
            for resource, parts in self.declared
            for part in parts
            if not part.inside
        )

    def match(self, rule: Rule, resource: Resource | None, part: Matcher) -> Match:
        """Whether a rule applies to a part, or by an argument that isn't declared of the call as a whole."""
        if rule.is_everything:
            return Match.SURELY
        if rule.field in (None, resource and resource.field):
            if resource is None or rule.kind in (None, resource.kind):
                return part.match(rule)
            parts = resource.parts(rule.kind, self.folders)
        elif any(resource is not None and resource.field == rule.field for resource, _ in self.declared):
            return Match.NO
        else:
            kind = rule.kind or "text"
            others = [each for each in self.resources if (each.field, each.kind) == (rule.field, kind)]
            parts = [part for each in others for part in each.parts(kind, self.folders)]
            if not parts:
                return Match.NO if rule.allows else Match.PERHAPS
        matches = [each.match(rule) for each in parts if not (rule.allows and each.inside)]
        if rule.allows:  # it has to apply to all parts; to deny and to ask, any will do
            return Match.SURELY if matches and all(match is Match.SURELY for match in matches) else Match.NO
        return next((match for match in (Match.SURELY, Match.PERHAPS) if match in matches), Match.NO)


_GRANTED: Final = Decision("allow", reason="it was allowed for longer")
_REASONS: Final = {"allow": "a rule allows it", "ask": "a rule asks", "deny": "a rule denies it"}


def _reason(words: str, rule: Rule) -> str:
    return f"{words}: {rule.reason}" if rule.reason else words


def _stricter(one: Decision, other: Decision | None) -> Decision:
    """The stricter decision; the other where they are alike."""
    return one if other is None or _STRICTNESS[one.action] > _STRICTNESS[other.action] else other


Access: TypeAlias = Callable[[str, str], bool]
"""Gets a permission and what is accessed; whether the rules allow it."""

MOST_AT_ONCE: Final = 2_000
"""Characters (an item of a list counts as 10 more) that are looked at on the event loop; more are in a thread."""

MOST_EXACT: Final = 4_096
"""Characters of the text for what is asked; a longer one is given as its digest."""

MOST_VALUES: Final = 500
"""Of one argument that rules look at; with more it is unreadable."""


@frozen(eq=False)
class ToolPolicy:
    """One tool as rules and modes see it. It doesn't hold the tool, which would keep a tool that is gone alive.

    Attributes:
        spec: The tool's spec.
        names: The names that rules know it by: its own, and those that it was given.
        owner: As in `Rule`.
        trusted: Whether the spec may be believed where it takes caution away.
        work_dir: As in `Tool`.
        confirms: Picks the calls that need confirmation.
        rules: Those that apply to it, in order.
        mode: How much is asked.
    """

    spec: ToolSpec
    names: tuple[str, ...]
    owner: str
    trusted: bool
    work_dir: WorkDir | None
    confirms: Confirmer | None
    rules: tuple[Rule, ...]
    mode: Mode

    @classmethod
    def of(cls, tool: Tool, rules: Sequence[Rule], mode: Mode) -> ToolPolicy:
        """Picks the rules that apply to a tool."""
        names = (tool.name, *tool.former_names)
        policy = cls(tool.spec, names, owner_of(tool), tool.origin.trusted, tool.work_dir, tool.confirms, (), mode)
        return attrs.evolve(policy, rules=tuple(filter(policy.is_ruled_by, rules)))

    def is_ruled_by(self, rule: Rule, permission: str | None = None) -> bool:
        """Whether a rule names the tool, by its permission or one of its names, or another permission.

        What a tool of an origin that isn't trusted calls its permission, or itself, takes away no caution: it is
        allowed by the name that it is offered under only. A rule about an argument that a tool can't have doesn't
        apply to it.
        """
        names = (*self.names, *(each for each in (self.spec.permission, permission) if each is not None))
        if rule.allows and not self.trusted:
            names = self.names[:1]
        if rule.owner not in (None, self.owner) or not rule.names(*names):
            return False
        return rule.field is None or _may_have(self.spec, rule.field)

    @property
    def permission(self) -> str:
        """What a person is asked for: the tool's permission, or its name; a name grants nothing more."""
        own = self.spec.permission
        if own is None or not self.trusted or "*" in own or "?" in own:
            return self.spec.name
        return own

    @property
    def reads_only(self) -> bool:
        """Whether a trusted origin declares it read-only."""
        return self.trusted and self.spec.annotations.read_only_hint is True

    @property
    def accepts_edits(self) -> bool:
        """Whether it is one of those that the mode lets pass without asking."""
        trusted = self.trusted and self.spec.annotations.edit_hint is True
        return self.mode == "accept_edits" and trusted

    @cached_property
    def conditions(self) -> tuple[tuple[str, Test], ...] | None:
        """What every call runs without that meets none of these: an argument, and a test of its text.

        `()`: every call runs, whatever its arguments. `None`: there is more to look at than short texts.
        """
        declared, bypass = self.spec.permission_arguments, self.mode == "bypass"
        if self.mode == "plan" and not self.reads_only:
            return None
        found: list[tuple[str, Test]] = []
        ordinary = [rule for rule in reversed(self.rules) if not (rule.forbid or bypass)]
        for rule in (*(rule for rule in self.rules if rule.forbid), *ordinary):
            if rule.allows:
                if rule.is_everything or (not declared and WholeCall().match(rule) is Match.SURELY):
                    break  # what stands before it decides nothing
            elif rule.action != "ask" or not self.accepts_edits:
                if rule.field is None or rule.field in declared or rule.kind not in (None, "text"):
                    return None
                found += [(rule.field, test) for test in rule.wildcard.tests]
        else:
            if self.may_ask and not bypass and not self.accepts_edits:
                return None
        return tuple(found)

    def runs(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call surely runs; `False`: only `decide` knows."""
        if self.conditions is None:
            return False
        for name, test in self.conditions:
            text = arguments.get(name)
            if type(text) is not str or not text or len(text) > MOST_AT_ONCE or HOLE in text or test(text):
                return False
        return True

    @cached_property
    def is_hidden(self) -> bool:
        """Whether no call of it runs: its last rule denies every pattern, one forbids every one, or the mode does."""
        if self.mode == "plan" and not self.reads_only:
            return True
        if any(rule.forbid and _denies_all(rule) for rule in self.rules):
            return True
        last = next((rule for rule in reversed(self.rules) if not rule.forbid), None)
        return self.mode != "bypass" and last is not None and _denies_all(last)

    @property
    def may_ask(self) -> bool:
        """Whether the tool itself gives a reason to ask, for some calls at least."""
        spec, confirms = self.spec, self.confirms
        marked = spec.annotations.destructive_hint is True or spec.requires_confirmation
        return marked or confirms is not None or spec.permission is not None

    def reason_to_ask(self, arguments: Mapping[str, Any]) -> str | None:
        """Why a call with these arguments asks, where no rule applies to it; `None`: it doesn't."""
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

    def decide(self, arguments: Mapping[str, Any], context: ReadonlyContext, grants: Sequence[Rule]) -> Decision:
        """What is to be done with a call with these arguments."""
        return self.conclude(self.evaluation(arguments, context, grants), partial(self.reason_to_ask, arguments))

    def conclude(self, evaluation: Evaluation, reason_to_ask: Callable[[], str | None]) -> Decision:
        """A forbid rule decides, then the mode, then rules, then what the tool declares; then the mode again."""
        forbidden = evaluation.forbid()
        if forbidden:
            return forbidden
        if self.mode == "plan" and not self.reads_only:
            return Decision("deny", reason="the mode is plan, and the tool isn't known to change nothing")
        if self.mode == "bypass":
            return Decision("allow", reason="the mode is bypass")
        decision = evaluation.decide_ordinary()
        if decision.action is None:
            reason = reason_to_ask()
            decision = Decision("ask", reason=reason) if reason else Decision("allow", reason="nothing asks")
        if decision.action == "ask" and self.accepts_edits:
            return Decision("allow", reason="the mode is accept_edits")
        if decision.action == "ask" and self.mode == "never_ask":
            return attrs.evolve(decision, action="deny", reason=f"{decision.reason}, and the mode is never_ask")
        return decision

    def evaluation(self, arguments: Mapping[str, Any], context: ReadonlyContext, grants: Sequence[Rule]) -> Evaluation:
        """The rules and the grants, with what a call with these arguments touches.

        That is the values of the declared arguments, and of those that only rules name.
        """
        fields = dict.fromkeys(self.spec.permission_arguments.items(), True)
        for rule in self.rules:
            if rule.field is not None and rule.field not in self.spec.permission_arguments:
                fields[rule.field, rule.kind or "text"] = False
        resources = tuple(
            Resource(kind, value, name, declared=is_declared)
            for (name, kind), is_declared in fields.items()
            for value in self._values(arguments, name, kind)
        )
        whole, granted = None if self.spec.permission_arguments else dict(arguments), filter(self.is_ruled_by, grants)
        return Evaluation(self.rules, resources, self._folders(arguments, context), tuple(granted), whole)

    def _folders(self, arguments: Mapping[str, Any], context: ReadonlyContext) -> tuple[str, ...]:
        """As in `Evaluation`; none where the tool fails: then deny rules apply, and allow rules don't."""
        call = context.work_dir or "."
        if self.work_dir is None:
            return (call,)
        try:
            own = self.work_dir(dict(arguments), context) or "."
        except (Exception, SystemExit):  # noqa: BLE001  (see above)
            return ()
        return tuple(dict.fromkeys((os.path.join(call, own), call)))  # noqa: PTH118  (pathlib takes ".." away)

    def access(
        self, rules: Sequence[Rule], grants: Sequence[Rule], arguments: Mapping[str, Any], context: ReadonlyContext
    ) -> Access:
        """What decides about each thing that a call accesses beside what its arguments name."""
        kinds = self.spec.permission_arguments
        kind = "text" if len({*kinds.values()}) != 1 else next(iter(kinds.values()))
        name = next(iter(kinds)) if len(kinds) == 1 else None
        call = self.evaluation(arguments, context, ())
        by_permission = dict[str, tuple[tuple[Rule, ...], tuple[Rule, ...]]]()

        def allows(permission: str, subject: str) -> bool:
            if permission not in by_permission:
                named = (r for r in rules if r.field in (None, name) and self.is_ruled_by(r, permission))
                # An ask rule about the whole call has been answered.
                kept = tuple(rule for rule in named if rule.action != "ask" or not call.is_about(rule))
                by_permission[permission] = kept, tuple(r for r in grants if self.is_ruled_by(r, permission))
            named_rules, granted = by_permission[permission]
            evaluation = Evaluation(named_rules, (Resource(kind, subject, name),), call.folders, granted)
            return not evaluation.rules or self.conclude(evaluation, lambda: None).action == "allow"

        return allows

    def _values(self, arguments: Mapping[str, Any], name: str, kind: ArgumentKind) -> tuple[str | None, ...]:
        """The texts of an argument that rules look at, `None` for each that can't be read as this kind.

        Where it is left out, its default counts, if the origin is trusted. A list gives each of its items; as a
        `"command"` it is the words of one.
        """
        given = arguments.get(name)
        if name not in arguments and self.trusted:
            schema = self.spec.input_schema.get("properties", {}).get(name)
            given = schema.get("default") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(given, str):
            return (given,)
        if not isinstance(given, list | tuple):
            return (_value_of(given, kind),)
        items = cast("Sequence[Any]", given)
        if kind == "command" and items and all(isinstance(each, str) for each in items):
            import shlex  # loaded only for such a tool

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


def owner_of(tool: Tool) -> str:
    """The distribution, else the plugin, that brings a tool; `""` for the host's own."""
    return tool.origin.distribution or tool.origin.plugin or ""


def _may_have(spec: ToolSpec, name: str) -> bool:
    schema = spec.input_schema
    closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    return name in schema.get("properties", {}) or not closed or name in spec.permission_arguments


def _denies_all(rule: Rule) -> bool:
    return rule.action == "deny" and rule.field is None and rule.wildcard.is_everything


_ASKED: Final = Decision("ask")


@frozen
class PermissionPrompt:
    """A call that a person has to allow.

    Attributes:
        permission: What is asked for: the tool's permission, or its name. Never a pattern.
        patterns: What the call touches, for people.
        always: What an answer "always" would allow: text that stands for exactly what is asked. Empty where nothing
            does: then "always" counts once.
        wider: Patterns that would allow this and more, as allow rules of this permission, for a person to choose.
        reason: Why it asks, in a few words: `"marked destructive"`.
        decision: What was decided.
    """

    permission: str
    patterns: tuple[str, ...] = ("*",)
    always: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()
    reason: str = ""
    decision: Decision = _ASKED


def _as_permission_rules(rules: PermissionRules | Iterable[Rule]) -> PermissionRules:
    return rules if isinstance(rules, PermissionRules) else PermissionRules(rules)


@frozen
class Permissions:
    """Rules and a mode.

    Without rules, in the mode `default`, a call asks if its tool declares a permission, is marked destructive or wants
    confirmation; everything else runs.

    Attributes:
        rules: The operator's rules; any iterable of rules is taken.
        mode: How much is asked.

    Raises:
        ValueError: There is no such mode.
        TypeError: Something that is no rule.
    """

    rules: PermissionRules = field(factory=PermissionRules, converter=_as_permission_rules)
    mode: Mode = field(default="default", validator=attrs.validators.in_(MODES))
    # The cached policies of tools, by the tool's `id`: `permit` looks here before it enters anything else.
    policies: dict[int, tuple[weakref.ref[Tool], ToolPolicy]] = field(
        factory=dict[int, "tuple[weakref.ref[Tool], ToolPolicy]"], init=False, repr=False, eq=False
    )

    def settled(self, tool: Tool) -> bool:
        """Whether every call of a tool runs, whatever its arguments; worked out once a tool."""
        return policy_of(self, tool).conditions == ()

    def hides(self, tool: Tool) -> bool:
        """Whether no call of a tool would run, so that it needn't be offered.

        That is so where its last rule denies every pattern, and in the mode `plan`, where it may change something.
        """
        return policy_of(self, tool).is_hidden

    def decide(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        work_dir: str | None = None,
        grants: Sequence[Rule] = (),
        context: ReadonlyContext = EMPTY_CONTEXT,
    ) -> Decision:
        """What is to be done with a call: `"allow"`, `"ask"` or `"deny"`.

        Args:
            tool: What is called.
            arguments: Judged valid.
            work_dir: Where relative paths start; by default the context's, or the process's own folder.
            grants: What people have allowed in this session: they answer what asks, and never override a deny.
            context: For whom; the tool may resolve its arguments by it.
        """
        return policy_of(self, tool).decide(arguments, _placed(context, work_dir), grants)

    def access(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        grants: Sequence[Rule] = (),
        context: ReadonlyContext = EMPTY_CONTEXT,
    ) -> Access:
        """What decides about each thing that a call accesses beside what its arguments name; see `ToolContext.allows`.

        Takes the same arguments as `decide`.
        """
        return policy_of(self, tool).access(self.rules.rules, grants, arguments, context)

    def decide_asked(
        self,
        tool: Tool,
        permission: str,
        patterns: Iterable[str],
        *,
        work_dir: str | None = None,
        grants: Sequence[Rule] = (),
    ) -> Decision:
        """What is to be done where a running tool itself asks (`context.ask`).

        Args:
            tool: What asks.
            permission: What it asks for.
            patterns: What for; `*` and `?` in them stand for anything. They are read as the tool's arguments are,
                where it asks for its own permission and all that it declares are of one kind, else as texts.
            work_dir: As for `decide`.
            grants: As for `decide`.
        """
        evaluation = self._asked(tool, permission, patterns, work_dir, grants)
        return policy_of(self, tool).conclude(evaluation, lambda: f"asks for the permission {permission!r}")

    def exactly(self, tool: Tool, permission: str, patterns: Iterable[str], work_dir: str | None) -> str | None:
        """Text that stands for exactly what a running tool asks for, as in `Evaluation.exact`."""
        return self._asked(tool, permission, patterns, work_dir, ()).exact

    def _asked(
        self, tool: Tool, permission: str, patterns: Iterable[str], work_dir: str | None, grants: Sequence[Rule]
    ) -> Evaluation:
        owners, kind, patterns = (None, owner_of(tool)), _kind_of(tool, permission), tuple(patterns)
        rules, granted = (
            tuple(rule for rule in each if rule.field is None and rule.names(permission) and rule.owner in owners)
            for each in (self.rules.rules, grants)
        )
        resources = tuple(Resource(kind, each.replace("*", HOLE).replace("?", HOLE)) for each in patterns)
        return Evaluation(rules, resources, (work_dir or ".",), granted, patterns if kind == "text" else None)

    def ask(  # noqa: PLR0913  (a decision, and what it was made of)
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        decision: Decision,
        *,
        work_dir: str | None = None,
        grants: Sequence[Rule] = (),
        context: ReadonlyContext = EMPTY_CONTEXT,
    ) -> PermissionPrompt:
        """What a person is asked, where `decide` gives `"ask"`; takes the same arguments."""
        policy, context = policy_of(self, tool), _placed(context, work_dir)
        evaluation = policy.evaluation(arguments, context, ())
        parts = [part for part in evaluation.parts if not part.inside]
        shown = tuple(dict.fromkeys(part.shown or "*" for part in parts))
        exact = () if evaluation.exact is None else (evaluation.exact,)
        wider = tuple(dict.fromkeys(part.wider for part in parts if part.wider is not None))
        allowed = (*grants, *(Rule(policy.permission, each, "allow") for each in wider))
        if wider and policy.decide(arguments, context, allowed).action != "allow":
            wider = ()
        return PermissionPrompt(policy.permission, shown or ("*",), exact, wider, decision.reason, decision)

    def with_rules(self, *rules: Rule) -> Permissions:
        """These permissions with more rules behind the others."""
        return Permissions(self.rules.with_rules(*rules), self.mode)

    def with_mode(self, mode: Mode) -> Permissions:
        """The same rules in another mode."""
        return Permissions(self.rules, mode)

    def to_json(self) -> JsonObject:
        """`{"mode": ..., "rules": [...]}`."""
        return {"mode": self.mode, "rules": [rule.to_json() for rule in self.rules.rules]}

    @classmethod
    def from_json(cls, data: Any) -> Permissions:
        """Reads what `to_json` writes, and everything else that a rules file may say (see `read_permissions`).

        Raises:
            RulesError: A key that is unknown or of the wrong type, named in the text.
        """
        rules, mode, examples = rules_from_json(data)
        for each in examples:
            decision = PermissionRules([each.rule]).decide(each.rule.permission, [_example(each)])
            if (decision.rule is not None) is not each.matches:
                kind = each.rule.kind or "text"
                wanted = "doesn't apply" if each.matches else "applies"
                raise RulesError(f"the rule {each.rule} {wanted} to {each.value!r:.200}, read as {kind}", each.key)
        return cls(rules, mode)


def _example(example: Example) -> Resource:
    return Resource(example.rule.kind or "text", example.value, example.rule.field)


def _placed(context: ReadonlyContext, work_dir: str | None) -> ReadonlyContext:
    return context if work_dir is None else attrs.evolve(context, work_dir=work_dir)


def policy_of(permissions: Permissions, tool: Tool) -> ToolPolicy:
    """The rules that apply to a tool, and the mode: compiled once a tool."""
    policies, key = permissions.policies, id(tool)
    cached = policies.get(key)
    if cached is not None and cached[0]() is tool:
        return cached[1]
    policy = ToolPolicy.of(tool, permissions.rules.rules, permissions.mode)
    policies[key] = (weakref.ref(tool, lambda _: policies.pop(key, None)), policy)
    return policy


DEFAULT_PERMISSIONS: Final = Permissions()


def _kind_of(tool: Tool, permission: str) -> ArgumentKind:
    kinds = set(tool.spec.permission_arguments.values())
    return kinds.pop() if permission == tool.spec.permission and len(kinds) == 1 else "text"
