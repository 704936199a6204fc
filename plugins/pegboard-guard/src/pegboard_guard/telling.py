"""`TellRules`: a request processor that tells the model the rules of its calls, in sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from pegboard import ModelRequest, ReadonlyContext
from pegboard_guard.ordering import ComesBefore
from pegboard_guard.rules import PATTERNS, Names, Rule

_HEAD: Final = "Rules for your calls of tools (* stands for any characters; a call that breaks a rule is denied):"


class TellRules:
    """Request processor that adds the rules about the tools of a request to its instructions.

    An agent that is called in a turn isn't told what the end of that turn requires.

    Args:
        rules: Those of the guards, such as `[*order.rules, *limits.limits, *gate.rules]`.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = [rule.reverse if isinstance(rule, ComesBefore) else rule for rule in rules]

    def __call__(self, request: ModelRequest, context: ReadonlyContext) -> ModelRequest:
        """Tells the model the rules of its calls."""
        tools = [(tool.name, *tool.former_names) for tool in request.tools or ()]
        is_renamed = any(len(names) > 1 for names in tools)
        sentences = [
            (_rename(rule, tools) if is_renamed else rule).sentence
            for rule in self.rules
            if any(name in rule.names for names in tools for name in names)
            and not (rule.is_for_end and context.root is not None)
        ]
        if not sentences:
            return request
        return request.with_instructions("\n".join((_HEAD, *(f"- {each}" for each in sentences))))


def _rename(rule: Rule, tools: Iterable[tuple[str, ...]]) -> Rule:
    """The rule with the names under which tools are offered."""
    changes: dict[str, Any] = {
        name: tuple(dict.fromkeys(new for pattern in getattr(rule, name) for new in _offer(pattern, tools)))
        for name in attrs.fields_dict(type(rule)).keys() & set(PATTERNS)
    }
    return attrs.evolve(rule, **changes)


def _offer(pattern: str, tools: Iterable[tuple[str, ...]]) -> list[str]:
    """A pattern, and the names of tools that had a name like it before; the pattern only if it still fits, or none."""
    names = Names((pattern,))
    renamed = [name for name, *former in tools if name not in names and any(each in names for each in former)]
    still_fits = any(name in names for name, *_ in tools) or not renamed
    return [pattern] * still_fits + renamed
