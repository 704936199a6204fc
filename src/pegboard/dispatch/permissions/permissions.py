"""Permissions: rules and a mode, and what they decide about a call."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property, partial
from typing import Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

import attrs
from attrs import define, field, frozen

from pegboard.dispatch.permissions.evaluation import (
    MAY_BE_JSON,
    WHOLE_CALL,
    Decision,
    Evaluation,
    PermissionRules,
    Resource,
    by_precedence,
    passes,
    read_path,
    rules_from_json,
)
from pegboard.dispatch.permissions.rule import HOLE, MODES, Folders, Mode, Part, Rule, is_name
from pegboard.errors import one_of
from pegboard.json import JsonText, canonical_json
from pegboard.tools.context import EMPTY_CONTEXT, ReadonlyContext
from pegboard.tools.signature import takes_context
from pegboard.tools.spec import ArgumentKind, ToolSpec
from pegboard.tools.tool import Tool
from pegboard.typing import JsonMapping, JsonObject

MOST_AT_ONCE: Final = 2_000  # characters matched on the event loop, an item of a list as 10 more; more in a thread
MOST_VALUES: Final = 500  # items of a list argument that rules match; a longer list counts as unreadable
_NO_FOLDERS: Final = Folders(())


Condition: TypeAlias = tuple[str, ArgumentKind, Sequence[Rule], bool]
"""What must hold of an argument if a call is to run without an evaluation: its name and kind, the rules that, by
precedence, must let it pass, and whether one of them must allow it."""


@frozen(eq=False)
class ToolPolicy:
    """Permission policy of one tool: the rules that apply to it, and the mode."""

    tool: Tool  # a copy without a handler, as a reference to the tool itself would keep it alive
    permissions: Permissions  # all rules, and the mode

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that apply to the tool, in order; one that denies or asks, also under the names of a `Reshape`."""
        own_names, offered = self.tool.own_names, list[Rule]()
        for rule in self.permissions.rules.rules:
            shown = [] if rule.allows else [name for name, own in own_names.items() if own == rule.field != name]
            if not shown or rule.field in own_names:
                offered.append(rule)
            offered += (attrs.evolve(rule, field=name) for name in shown)
        return tuple(filter(self.is_ruled_by, offered))

    @cached_property
    def kind(self) -> ArgumentKind:
        """How an item is read that a running tool names: as its arguments, if they are of one kind."""
        kinds = set(self.tool.spec.permission_arguments.values())
        return kinds.pop() if len(kinds) == 1 else "text"

    @property
    def trusted(self) -> bool:
        """Whether the spec is believed where it relaxes a check."""
        return self.tool.origin.trusted

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names by which rules match the tool: the current one, and former ones."""
        return (self.tool.name, *self.tool.former_names)

    @cached_property
    def hidden(self) -> Mapping[str, JsonText]:
        """Arguments that a `Reshape` hides, with their values."""
        shown = {*self.tool.own_names, *self.tool.own_names.values()}
        return {name: value for name, value in self.tool.presets.items() if name not in shown}

    def is_ruled_by(self, rule: Rule, permission: str | None = None) -> bool:
        """Whether a rule applies to the tool, by one of its names, its own permission or the one given.

        An allow rule matches a tool of an untrusted origin only by the name that it is offered under: its permission
        and its own name are mere claims. A rule about an argument that a tool can't have doesn't apply to it.
        """
        permissions = (self.tool.spec.permission, permission, *(() if rule.allows else self.tool.former_permissions))
        names = (*self.names, *(each for each in permissions if each is not None))
        if rule.allows and not self.trusted:
            names = self.names[:1]
        if not (self._is_from(rule) and rule.names(*names)):
            return False
        if permission is not None:
            return self.is_about_inner(rule)
        return rule.field is None or may_take(self.tool.spec, rule.field) or rule.field in self.hidden

    def _is_from(self, rule: Rule) -> bool:
        """Whether a rule applies to tools of this owner and source."""
        return rule.owner in (None, owner_of(self.tool)) and rule.source in (None, self.tool.origin.source)

    def is_about_inner(self, rule: Rule) -> bool:
        """Whether a rule applies to what the running tool accesses or asks for besides its arguments.

        A deny or ask rule applies even if it names an argument that only other tools have, or is about a path, a URL
        or a command; one about the text of another argument of this tool doesn't.
        """
        declared = self.tool.spec.permission_arguments
        if rule.field is None or declared.keys() == {rule.field}:
            return True
        if rule.allows:
            return False
        kind = rule.kind or declared.get(rule.field, "text")
        return kind != "text" or rule.field not in self.tool.spec.input_schema.get("properties", {})

    @property
    def reads_only(self) -> bool:
        """Whether a trusted origin declares the tool read-only for all arguments."""
        return self.trusted and self.tool.spec.annotations.read_only_hint is True

    def only_reads(self, arguments: JsonMapping, context: ReadonlyContext) -> bool:
        """Whether a trusted origin declares a call with these arguments read-only."""
        function = self.tool.by_arguments.get("read_only") if self.trusted else None
        return self.reads_only or (function is not None and _answer(function, arguments, context) is True)

    @property
    def accepts_edits(self) -> bool:
        """Whether the mode `accept_edits` lets the tool run without asking."""
        return self.permissions.mode == "accept_edits" and self.trusted and self.tool.spec.annotations.edit_hint is True

    @cached_property
    def conditions(self) -> tuple[Condition, ...] | None:
        """Fast path: what must hold of single arguments; a call runs if all of it does.

        `()`: every call runs, whatever its arguments. `None`: short texts can't decide.
        """
        declared, mode = self.tool.spec.permission_arguments, self.permissions.mode
        rules, needs_rule = self._deciding_rules()
        if self.tool.asks or (mode == "plan" and not self.reads_only) or (needs_rule and not declared):
            return None
        about = {name: [rule for rule in rules if rule.field in (None, name)] for name in declared}
        for rule in rules:
            if not rule.allows and rule.field not in declared and (rule.field is not None or not declared):
                about.setdefault(rule.field or "", []).append(rule)
        is_as_given = self.tool.permission_values is self.tool.work_dir is None
        conditions = list[Condition]()
        for name, limits in about.items():
            kind, needs_this = declared.get(name, "text"), needs_rule and name in declared
            if any(rule.kind not in (None, kind) for rule in limits):
                return None
            while limits and limits[-1].allows and not needs_rule:
                limits.pop()  # no earlier one has to be overruled
            if limits or needs_this:
                if not (name and is_as_given) or name in self.hidden or self.tool.spec.is_encoded(name):
                    return None
                conditions.append((name, kind, limits, needs_this))
        return tuple(conditions)

    def _deciding_rules(self) -> tuple[list[Rule], bool]:
        """The rules that decide, by precedence up to one that allows every call, and whether a call needs one."""
        declared, mode, found = self.tool.spec.permission_arguments, self.permissions.mode, list[Rule]()
        for rule in by_precedence(self.rules):
            is_for_any = rule.wildcard.is_everything and not (declared or rule.field or rule.kind)
            if rule.allows and (rule.is_everything or is_for_any):
                return found, False
            if rule.forbid or not (mode == "bypass" or (rule.action == "ask" and self.accepts_edits)):
                found.append(rule)
        return found, self.tool.may_ask and not (mode == "bypass" or self.accepts_edits)

    @cached_property
    def may_ask(self) -> bool:
        """Whether the rules and the mode may ask about a call of the tool."""
        never = self.permissions.mode in ("bypass", "never_ask") or self.accepts_edits
        return not never and (self.tool.may_ask or any(not rule.allows for rule in self.rules))

    @cached_property
    def asks(self) -> bool:
        """Whether the tool or any rule may ask, so that what the running tool accesses may have to be asked about."""
        return self.tool.may_ask or any(rule.action == "ask" for rule in self.permissions.rules.rules)

    def runs(
        self, arguments: JsonMapping, context: ReadonlyContext = EMPTY_CONTEXT, folders: Folders | None = None
    ) -> bool:
        """Whether a call surely runs, by `conditions` alone; if not, `decide` has to be called.

        `folders` gets the resolved paths. Where anything asks it is needed: what the running tool accesses is compared
        with them, as links may be changed meanwhile.
        """
        for name, kind, rules, needs_rule in self.conditions or ():
            text = arguments.get(name)
            if type(text) is not str or not text or len(text) > MOST_AT_ONCE or HOLE in text:
                return False
            if kind == "text":
                first = next((rule for rule in rules if rule.wildcard.test(text)), None)
                is_allowed = not needs_rule if first is None else first.allows
                is_met = is_allowed and not MAY_BE_JSON.match(text)
            elif kind != "path":
                is_met = passes(Resource(kind, text).parts(kind, _NO_FOLDERS), rules, needs_rule=needs_rule)
            elif folders is None and self.asks:
                return False
            else:
                call = folders or Folders([context.work_dir or os.getcwd()])  # noqa: PTH109  (it costs a third)
                place = read_path(text, call, "" if context.work_dir else f"{call.places[0]}/")  # "." has no links
                call.parts[name] = place
                is_met = passes((place,), rules, needs_rule=needs_rule)
            if not is_met:
                return False
        return self.conditions is not None

    @cached_property
    def is_hidden(self) -> bool:
        """Whether no call of the tool can run: its last rule or a forbid rule denies everything, or the mode does."""
        mode = self.permissions.mode
        if mode == "plan" and not (self.reads_only or (self.trusted and "read_only" in self.tool.by_arguments)):
            return True
        last = next((rule for rule in reversed(self.rules) if not rule.forbid), None)
        deciding = [rule for rule in self.rules if rule.forbid or (mode != "bypass" and rule is last)]
        return any(rule.action == "deny" and rule.field is None and rule.wildcard.is_everything for rule in deciding)

    def reason_to_ask(self, arguments: JsonMapping, context: ReadonlyContext) -> str | None:
        """Why a call with these arguments needs approval if no rule applies to it; `None`: it doesn't."""
        spec, confirms, destroys = self.tool.spec, self.tool.confirms, self.tool.by_arguments.get("destructive")
        if spec.annotations.destructive_hint is True:
            return "it is marked destructive"
        if destroys is not None and (answer := _answer(destroys, arguments, context)) is not False:
            return "it marks this call destructive" if answer else "it isn't known whether this call is destructive"
        if confirms is None and spec.requires_confirmation:
            return "it requires confirmation of each call"
        if confirms is not None and (answer := _answer(confirms, arguments, context)) is not False:
            known = "it requires confirmation of this call"
            return known if answer else "it isn't known whether this call must be confirmed"
        if spec.permission is not None:
            return f"it needs the permission {spec.permission!r}"
        return None if self.trusted else "it comes from an untrusted origin"

    def decide(
        self, arguments: JsonMapping, context: ReadonlyContext, grants: Sequence[Rule], known: Evaluation | None = None
    ) -> Decision:
        """The decision on a call with these arguments; `known` is its evaluation, if it was made already."""
        evaluation = known or self.evaluation(arguments, context, grants)
        only_reads = self.permissions.mode == "plan" and self.only_reads(arguments, context)
        return self.conclude(evaluation, partial(self.reason_to_ask, arguments, context), only_reads=only_reads)

    def conclude(
        self, evaluation: Evaluation, reason_to_ask: Callable[[], str | None], *, only_reads: bool = False
    ) -> Decision:
        """The decision by precedence: forbid rules, the mode, other rules, the tool's spec, then the mode again."""
        forbidden = evaluation.forbid()
        if forbidden:
            return forbidden
        if self.permissions.mode == "plan" and not (only_reads or self.reads_only):
            return Decision("deny", reason="the mode is plan, and the tool isn't marked read-only")
        if self.permissions.mode == "bypass":
            return Decision("allow", reason="the mode is bypass")
        decision = evaluation.decide_ordinary()
        if decision.action is None:
            reason, line = reason_to_ask(), decision.line
            decision = Decision("allow", reason="nothing asks")
            if reason:
                decision = Decision("ask", reason=f"{reason}; {line}" if line else reason, line=line)
        if decision.action == "ask" and self.accepts_edits:
            return Decision("allow", reason="the mode is accept_edits")
        if decision.action == "ask" and self.permissions.mode == "never_ask":
            return attrs.evolve(decision, action="deny", reason=f"{decision.reason}, and the mode is never_ask")
        return decision

    def evaluation(
        self, arguments: JsonMapping, context: ReadonlyContext, grants: Sequence[Rule], folders: Folders | None = None
    ) -> Evaluation:
        """The evaluation of a call: rules, grants, and the values of the arguments that the tool or a rule names.

        `folders` has the paths that `runs` has resolved, if it did.
        """
        declared = self.tool.spec.permission_arguments
        fields = dict.fromkeys(declared.items(), True)
        for rule in self.rules:
            if rule.field is not None and rule.field not in declared:
                fields[rule.field, rule.kind or "text"] = False
        given = arguments
        if (work_out := self.tool.permission_values) is not None:
            try:
                given = {**arguments, **work_out(deepcopy(dict(arguments)), context)}
            except (Exception, SystemExit):  # noqa: BLE001  what the tool declares can't be read then
                given = {**arguments, **dict.fromkeys(declared)}
        resources = tuple(
            Resource(kind, _value_of(value, kind), name, declared=is_declared, is_text=isinstance(value, str | None))
            for (name, kind), is_declared in fields.items()
            for value in self._values(arguments, given, name, kind)
        )
        # What a command does depends on all arguments.
        whole = None if declared and "command" not in declared.values() else dict(arguments)
        granted = tuple(filter(self.is_ruled_by, grants))
        return Evaluation(self.rules, resources, folders or self.folders(arguments, context), granted, whole)

    def folders(self, arguments: JsonMapping, context: ReadonlyContext) -> Folders:
        """Base folders of relative paths; none if the tool fails: then deny rules apply and allow rules don't."""
        call, work_dir = context.work_dir or ".", self.tool.work_dir
        if work_dir is None:
            return Folders([call])
        try:
            own = work_dir(deepcopy(dict(arguments)), context) or "."
        except (Exception, SystemExit):  # noqa: BLE001  of the tool's
            return Folders([])
        return Folders([os.path.join(call, own), call])  # noqa: PTH118  (pathlib takes ".." away)

    def decide_inner(
        self, permission: str, patterns: Sequence[str], folders: Folders, grants: Sequence[Rule]
    ) -> tuple[Decision, str | None]:
        """The decision on what a running tool asks for (`context.ask`), and the text of exactly this for a grant.

        `*` and `?` in the patterns match anything. They are read as the tool's arguments are if it asks for its own
        permission and declares arguments of one kind only, else as texts; deny and ask rules also read a text as the
        path or URL that it may be.
        """
        kind = self.kind if permission == self.tool.spec.permission else "text"
        rules, granted = (
            tuple(r for r in each if r.names(permission) and self._is_from(r) and self.is_about_inner(r))
            for each in (self.permissions.rules.rules, grants)
        )
        touched = tuple(Resource(kind, each.replace("*", HOLE).replace("?", HOLE), inner=True) for each in patterns)
        evaluation = Evaluation(rules, touched, folders, granted, tuple(patterns) if kind == "text" else None)
        return self.conclude(evaluation, lambda: f"it needs the permission {permission!r}"), evaluation.exact

    def request(
        self, evaluation: Evaluation, arguments: JsonMapping, context: ReadonlyContext, grants: Sequence[Rule]
    ) -> dict[str, Any]:
        """What a person is asked about a call, as attributes of an `ApprovalRequest`."""
        own, parts = self.tool.spec.permission, [part for _, part in evaluation.declared if not part.inside]
        if own is None or not (self.trusted and is_name(own)):
            own = self.tool.spec.name  # which grants nothing more
        wider = tuple(dict.fromkeys(part.wider for part in parts if part.wider is not None))
        if evaluation.declared is WHOLE_CALL:
            wider = ("*",)
        allowed = (*grants, *(Rule(own, each, "allow") for each in wider))
        if wider and self.decide(arguments, context, allowed).action != "allow":
            wider = ()
        return {
            "permission": own,
            "patterns": tuple(dict.fromkeys(part.shown or "*" for part in parts)) or ("*",),
            "always": () if evaluation.exact is None else (evaluation.exact,),
            "wider": wider,
        }

    def _values(self, arguments: JsonMapping, values: JsonMapping, name: str, kind: ArgumentKind) -> tuple[Any, ...]:
        """The values of an argument for rules, `None` for each that can't be read.

        An argument that is left out has its default if the origin is trusted, a hidden one its preset. A list has
        one value for each item; as a `"command"` it is the words of one.
        """
        if self.tool.spec.is_encoded(name) and values.get(name) is arguments.get(name):
            return (None,)
        given: Any = json.loads(self.hidden[name]) if name in self.hidden else values.get(name)
        if name not in values and name not in self.hidden and self.trusted:
            schema = self.tool.spec.input_schema.get("properties", {}).get(name)
            given = schema.get("default") if isinstance(schema, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not isinstance(given, list | tuple):
            return (cast("Any", given),)
        items = cast("Sequence[Any]", given)
        if kind == "command" and items and all(isinstance(each, str) for each in items):
            import shlex  # loaded only for such a tool

            return (shlex.join(items),)
        if not items or len(items) > MOST_VALUES or kind == "command":
            return (None,)
        return tuple(items)


@define(eq=False)
class Access:
    """What a running call may access besides what its arguments name; behind `ToolContext.allows`.

    A path that isn't one by which the call was judged, or below it, was neither allowed nor asked about with it: it may
    be behind a link that was changed since.
    """

    policy: ToolPolicy
    arguments: JsonMapping
    context: ReadonlyContext
    grants: Sequence[Rule] = ()
    judged: Evaluation | None = None  # by which the call runs, with its resolved paths, if it had one
    _limits: dict[tuple[str, bool], _Limit] = field(factory=dict[tuple[str, bool], "_Limit"], init=False)

    @cached_property
    def _call(self) -> Evaluation:
        return self.judged or self.policy.evaluation(self.arguments, self.context, ())

    def allows(self, permission: str, subject: str | None, known: str = "") -> bool:
        """Whether the rules about the tool and the permission allow access; `known` is as in `places.resolve`."""
        policy, kind, call = self.policy, self.policy.kind, self._call
        asks = self.judged is not None and policy.asks
        is_own = permission in policy.names or permission == policy.tool.spec.permission
        # What allows the tool allows nothing that another permission denies.
        permissions = policy.names[:1] if is_own else (policy.names[0], permission)
        if subject is None:
            return not (asks or any(self._limit(each, elsewhere=False)[0] for each in permissions))
        declared = [*policy.tool.spec.permission_arguments]
        resource = Resource(kind, subject, declared[0] if len(declared) == 1 else None, inner=True)
        parts = (read_path(subject, call.folders, known),) if kind == "path" else resource.parts(kind, call.folders)
        elsewhere = asks and call.is_elsewhere(parts)
        is_new = elsewhere and is_own
        for each in permissions:
            rules, granted, quick = self._limit(each, elsewhere=elsewhere)
            if is_new or (rules and not (quick is not None and passes(parts, quick))):
                one = Evaluation(rules, (), call.folders, granted, None, tuple((resource, part) for part in parts))
                reason = partial(policy.reason_to_ask, self.arguments, self.context) if is_new else lambda: None
                if policy.conclude(one, reason).action != "allow":
                    return False
        return True

    def allowed_names(self, permission: str, folder: str, names: Iterable[str]) -> tuple[str, ...]:
        """The names in a folder to whose paths `allows` gives access; the folder itself is resolved once."""
        resolved = read_path(folder, self._call.folders)
        known = f"{resolved.shown}/" if type(resolved) is not Part else ""
        start = folder.rstrip("/")
        return tuple(name for name in names if self.allows(permission, f"{start}/{name}", known))

    def _limit(self, permission: str, *, elsewhere: bool) -> _Limit:
        """The rules about the tool, or only those about another permission."""
        if (limit := self._limits.get((permission, elsewhere))) is not None:
            return limit
        policy, own = self.policy, permission == self.policy.names[0]
        rules, granted = (
            tuple(r for r in each if policy.is_ruled_by(r, permission) and (own or r.names(permission)))
            for each in (policy.permissions.rules.rules, self.grants)
        )
        # An ask rule about the whole call has been answered; one of another permission, only if the call has asked.
        if not elsewhere and (own or policy.decide(self.arguments, self.context, ()).action == "ask"):
            rules = tuple(rule for rule in rules if rule.action != "ask" or not self._call.is_about(rule))
        is_plain = policy.permissions.mode != "plan" or policy.reads_only
        quick = by_precedence(rules) if is_plain and all(rule.kind in (None, policy.kind) for rule in rules) else None
        limit = self._limits[permission, elsewhere] = rules, granted, quick
        return limit


_Limit: TypeAlias = tuple[tuple[Rule, ...], tuple[Rule, ...], Sequence[Rule] | None]
"""Rules and grants; and the rules by precedence, if they can be matched with the parts of an item as they are."""


def _value_of(given: Any, kind: ArgumentKind) -> str | None:
    """A value as rules match it, `None` where it can't be read as this kind."""
    if given is None or isinstance(given, str):
        return given
    try:
        return canonical_json(given) if kind == "text" else None
    except (TypeError, ValueError):
        return None


def owner_of(tool: Tool) -> str:
    """The distribution, else the plugin, that brings a tool; `""` for the host's own."""
    return tool.origin.distribution or tool.origin.plugin or ""


def may_take(spec: ToolSpec, name: str) -> bool:
    """Whether a tool can have an argument of this name."""
    schema = spec.input_schema
    closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
    return name in schema.get("properties", {}) or not closed or name in spec.permission_arguments


def _answer(function: Callable[..., Any], arguments: JsonMapping, context: ReadonlyContext) -> bool | None:
    """The bool that a tool's function returns for a call; `None` if it fails or returns something else."""
    more = {"context": context} if takes_context(function) else {}
    try:
        answer: object = function(deepcopy(dict(arguments)), **more)
    except (Exception, SystemExit):  # noqa: BLE001  a failure costs only the answer
        return None
    return answer if isinstance(answer, bool) else None


def _as_rules(rules: PermissionRules | Iterable[Rule]) -> PermissionRules:
    return rules if isinstance(rules, PermissionRules) else PermissionRules(rules)


@frozen
class Permissions:
    """Permissions: rules and a mode.

    Without rules, in the mode `default`, a call needs approval if its tool declares a permission, is marked destructive
    or wants confirmation; everything else runs.

    Attributes:
        rules: The operator's rules; any iterable of rules is taken.
        mode: How much is asked.

    Raises:
        ValueError: The mode is unknown.
        TypeError: An item isn't a `Rule`.
    """

    rules: PermissionRules = field(factory=PermissionRules, converter=_as_rules)
    mode: Mode = field(default="default", validator=one_of(*MODES))
    policies: WeakKeyDictionary[Tool, ToolPolicy] = field(
        factory=WeakKeyDictionary["Tool", "ToolPolicy"], init=False, repr=False, eq=False
    )

    def hides(self, tool: Tool) -> bool:
        """Whether no call of a tool would run, by its last rule or the mode `plan`, so that it needn't be offered."""
        return policy_of(self, tool).is_hidden

    def decide(
        self,
        tool: Tool,
        arguments: JsonMapping,
        *,
        grants: Sequence[Rule] = (),
        context: ReadonlyContext = EMPTY_CONTEXT,
    ) -> Decision:
        """The decision on a call: `"allow"`, `"ask"` or `"deny"`.

        Args:
            tool: What is called.
            arguments: Validated.
            grants: What people have allowed in this session: they answer what asks, and never override a deny.
            context: Of the request: its user, and where relative paths start; the tool may resolve its arguments by it.
        """
        return policy_of(self, tool).decide(arguments, context, grants)

    def __reduce__(self) -> tuple[type[Permissions], tuple[PermissionRules, Mode]]:
        """Leaves the cached policies out of pickles and copies."""
        return Permissions, (self.rules, self.mode)

    def with_rules(self, *rules: Rule) -> Permissions:
        """A copy with more rules appended."""
        return Permissions(self.rules.with_rules(*rules), self.mode)

    def with_mode(self, mode: Mode) -> Permissions:
        """A copy in another mode."""
        return Permissions(self.rules, mode)

    def to_json(self) -> JsonObject:
        """`{"mode": ..., "rules": [...]}`."""
        return {"mode": self.mode, "rules": [rule.to_json() for rule in self.rules.rules]}

    @classmethod
    def from_json(cls, data: Any) -> Permissions:
        """Reads what `to_json` writes, or any content of a rules file (see `read_permissions`).

        Raises:
            ValueError: A key that is unknown or of the wrong type, or an example that fails: `"key: reason"`.
        """
        return cls(*rules_from_json(data))


def policy_of(permissions: Permissions, tool: Tool) -> ToolPolicy:
    """The policy of a tool, cached."""
    policy = permissions.policies.get(tool)
    if policy is None:
        policy = permissions.policies[tool] = ToolPolicy(attrs.evolve(tool, handler=None), permissions)
    return policy


DEFAULT_PERMISSIONS: Final = Permissions()
