"""`Rule`: one sentence of the operator, such as "allow bash: git *"."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs
from attrs import frozen

from pegboard.dispatch.permissions.wildcard import Wildcard, wildcard
from pegboard.errors import did_you_mean, suggest
from pegboard.tools.spec import ARGUMENT_KINDS, ArgumentKind
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from pegboard.dispatch.permissions.path import PathPattern
    from pegboard.dispatch.permissions.url import UrlPattern

Action: TypeAlias = Literal["allow", "ask", "deny"]
"""The call runs, a person is asked, or the call is refused."""

ACTIONS: Final = ("allow", "ask", "deny")
_MOST_FOLDERS: Final = 256


def _known(_rule: Rule, attribute: attrs.Attribute[Any], value: Any) -> None:
    known = ACTIONS if attribute.name == "action" else ARGUMENT_KINDS
    if value not in known and not (value is None and attribute.name == "kind"):
        meant = did_you_mean(suggest(str(value), known)) or f" There are {', '.join(known)}."
        raise ValueError(f"{attribute.name}: {value!r:.100} is none.{meant}")


def _text(_rule: Rule, attribute: attrs.Attribute[Any], value: Any) -> None:
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

    Raises:
        ValueError: An unknown action or kind, an empty permission or pattern, or a forbid rule that doesn't deny.
        TypeError: Something that is no text.
    """

    permission: str = attrs.field(validator=_text)
    pattern: str = attrs.field(validator=_text)
    action: Action = attrs.field(validator=_known)
    forbid: bool = attrs.field(default=False, kw_only=True)
    field: str | None = attrs.field(default=None, kw_only=True, validator=_text)
    kind: ArgumentKind | None = attrs.field(default=None, kw_only=True, validator=_known)
    _first_paths: dict[str, PathPattern | None] = attrs.field(
        factory=dict[str, "PathPattern | None"], init=False, repr=False, eq=False
    )

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

    @cached_property
    def url(self) -> UrlPattern:
        """The pattern as one of URLs."""
        from pegboard.dispatch.permissions.url import UrlPattern

        return UrlPattern.of(self.pattern)

    def first_path(self, folder: str) -> PathPattern | None:
        """The pattern as one of paths, its links followed as they were when they were first looked at.

        What an allow rule means mustn't change when somebody turns a link elsewhere.

        Args:
            folder: Where relative patterns start, absolute.

        Returns:
            `None` where its links lead nowhere.
        """
        if folder not in self._first_paths:
            if len(self._first_paths) >= _MOST_FOLDERS:
                return self.path(folder)
            self._first_paths[folder] = self.path(folder)
        return self._first_paths[folder]

    def path(self, folder: str) -> PathPattern | None:
        """The same, its links followed as they are now."""
        from pegboard.dispatch.permissions.path import path_pattern

        return path_pattern(self.pattern, folder)

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
            if key not in _KEYS:
                meant = did_you_mean(suggest(str(key), _KEYS)) or f" There are {', '.join(_KEYS)}."
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
_KEYS: Final = ("permission", "pattern", "action", *_OPTIONAL)

__all__ = ["ACTIONS", "Action", "Rule"]
