"""`TellRules`: a request processor that tells the model the rules of its calls, in sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pegboard import ModelRequest
from pegboard_guard.order import Rule
from pegboard_guard.ordering import ComesBefore
from pegboard_guard.rules import Limit

_HEAD: Final = "Rules for your calls of tools (* stands for any characters; a call that breaks a rule is denied):"


class TellRules:
    """Request processor that adds the rules about the tools of a request to its instructions.

    Args:
        rules: Those of the guards, such as `[*order.rules, *limits.limits]`.
    """

    def __init__(self, rules: Iterable[Rule | Limit]) -> None:
        self.rules = [rule.turned if isinstance(rule, ComesBefore) else rule for rule in rules]

    def __call__(self, request: ModelRequest) -> ModelRequest:
        """Tells the model the limits and the order of its calls."""
        tools = () if request.tools is None else request.tools
        names = {name for tool in tools for name in (tool.name, *tool.former_names)}
        sentences = [rule.sentence for rule in self.rules if any(name in rule.names for name in names)]
        return (
            request.with_instructions("\n".join((_HEAD, *(f"- {each}" for each in sentences))))
            if sentences
            else request
        )
