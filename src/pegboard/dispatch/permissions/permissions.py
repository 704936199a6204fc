"""`Permissions`: rules and a mode, and what follows from them for a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import attrs
from attrs import field, frozen

from pegboard.dispatch.permissions.ask import Ask
from pegboard.dispatch.permissions.mode import MODES, Mode
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.permissions.rules import Decision, Judgement, PermissionRules
from pegboard.dispatch.permissions.subject import Subject, folder_of
from pegboard.dispatch.permissions.view import View
from pegboard.dispatch.permissions.wildcard import HOLE
from pegboard.tools.spec import ArgumentKind
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject


def _as_rules(rules: PermissionRules | Iterable[Rule]) -> PermissionRules:
    return rules if isinstance(rules, PermissionRules) else PermissionRules(rules)


@frozen
class Permissions:
    """Rules and a mode.

    Without rules, in the mode `default`, a call asks if its tool declares a permission, is marked destructive or wants
    confirmation; everything else runs.

    Attributes:
        rules: What the operator says; any iterable of rules is taken.
        mode: How much is asked.

    Raises:
        ValueError: There is no such mode.
        TypeError: Something that is no rule.
    """

    rules: PermissionRules = field(factory=PermissionRules, converter=_as_rules)
    mode: Mode = field(default="default", validator=attrs.validators.in_(MODES))
    _views: WeakKeyDictionary[Tool, View] = field(
        factory=WeakKeyDictionary[Tool, View], init=False, repr=False, eq=False
    )

    def settled(self, tool: Tool) -> bool:
        """Whether every call of a tool runs, whatever its arguments; worked out once a tool."""
        return self._view(tool).is_settled

    def hides(self, tool: Tool) -> bool:
        """Whether no call of a tool would run, so that it needn't be offered.

        That is so where its last rule denies every pattern, and in the mode `plan`, where it may change something.
        """
        return self._view(tool).is_hidden

    def decide(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        work_dir: str | None = None,
        grants: Sequence[Rule] = (),
    ) -> Decision:
        """What is to be done with a call: `"allow"`, `"ask"` or `"deny"`.

        Args:
            tool: What is called.
            arguments: Judged valid.
            work_dir: Where relative paths start; the process's own folder by default.
            grants: What people have allowed in this session; they come behind the rules.
        """
        view = self._view(tool)
        judgement = view.judgement(arguments, work_dir, grants)
        return self._decide(view, judgement, lambda: view.reason_to_ask(arguments))

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
        view = self._view(tool)
        rules = [rule for rule in (*self.rules.rules, *grants) if rule.field is None and rule.names(permission)]
        kind = _kind_of(tool, permission)
        subjects = [Subject(kind, each.replace("*", HOLE).replace("?", HOLE)) for each in patterns]
        judgement = Judgement.of(rules, subjects, folder_of(work_dir))
        return self._decide(view, judgement, lambda: f"asks for the permission {permission!r}")

    def ask(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        decision: Decision,
        *,
        work_dir: str | None = None,
        grants: Sequence[Rule] = (),
    ) -> Ask:
        """What a person is asked, where `decide` has said `"ask"`; takes the same arguments."""
        view = self._view(tool)
        parts = [part for part in view.judgement(arguments, work_dir, ()).parts if not part.inside]
        shown = tuple(dict.fromkeys(part.shown or "*" for part in parts))
        proposed = [part.always for part in parts]
        always = tuple(dict.fromkeys(each for each in proposed if each is not None))
        wider = (*grants, *(Rule(view.permission, each, "allow") for each in always))
        if always and self.decide(tool, arguments, work_dir=work_dir, grants=wider).action != "allow":
            always = ()
        return Ask(view.permission, shown or ("*",), always, decision.reason, decision)

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
            ValueError: A key that is unknown or of the wrong type, named in the text.
        """
        from pegboard.dispatch.permissions.file import permissions_of

        return permissions_of(data)

    def _decide(self, view: View, judgement: Judgement, reason_to_ask: Callable[[], str | None]) -> Decision:
        """A forbid rule, then the mode, then rules, then what the tool says of itself."""
        if forbidden := judgement.forbid():
            return forbidden
        if self.mode == "plan" and not view.reads_only:
            return Decision("deny", reason="the mode is plan, and the tool isn't known to change nothing")
        if self.mode == "bypass":
            return Decision("allow", reason="the mode is bypass")
        decision = judgement.decide_ordinary()
        if decision.action is None:
            reason = reason_to_ask()
            decision = Decision("ask", reason=reason) if reason else Decision("allow", reason="nothing asks")
        return self._asked(view, decision) if decision.action == "ask" else decision

    def _asked(self, view: View, decision: Decision) -> Decision:
        """What the mode makes of a call that asks."""
        if view.accepts_edits:
            return Decision("allow", reason="the mode is accept_edits")
        if self.mode == "never_ask":
            return attrs.evolve(decision, action="deny", reason=f"{decision.reason}, and the mode is never_ask")
        return decision

    def _view(self, tool: Tool) -> View:
        view = self._views.get(tool)
        if view is None:
            view = self._views[tool] = View.of(tool, self.rules.rules, self.mode)
        return view


DEFAULT_PERMISSIONS: Final = Permissions()


def _kind_of(tool: Tool, permission: str) -> ArgumentKind:
    kinds = set(tool.spec.permission_arguments.values())
    return kinds.pop() if permission == tool.spec.permission and len(kinds) == 1 else "text"


__all__ = ["DEFAULT_PERMISSIONS", "Permissions"]
