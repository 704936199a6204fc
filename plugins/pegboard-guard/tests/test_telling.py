"""The rules of calls, as requests tell them to the model."""

from __future__ import annotations

import asyncio

import pytest

from pegboard import ModelRequest, ReadonlyContext, StaticToolset, ToolRegistry, register_plugin, tool
from pegboard.tools import EMPTY_CONTEXT
from pegboard_guard import (
    ComesAfter,
    ComesBefore,
    Cooldown,
    Distinct,
    EndsTurn,
    Exclusive,
    Guard,
    Limit,
    NotAfter,
    Required,
)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (ComesAfter("d*", ["b", "t"]), "Call d* only after b and t succeeded in this session."),
        (ComesBefore("l", "m*", within="turn"), "Call m* only after l succeeded in this turn."),
        (Exclusive(["a", "b"]), "Use only one of a or b in a turn: the one that you call first."),
        (Cooldown("m", 30), "Between two calls of m, wait 30 s."),
        (Cooldown("m", 30, 1), "Between two calls of m, wait 30 s and make 1 call of other tools."),
        (Cooldown("m", calls=2), "Between two calls of m, make 2 calls of other tools."),
        (Required(["a", "b"]), "Before you finish, call a and b."),
        (Required("a", when=["b", "c*"]), "Before you finish, call a after your last call of b or c*."),
        (NotAfter("a", ["b", "c"]), "Don't call a any more once b or c ran in this session."),
        (Distinct("m"), "Don't repeat a call of m with the same arguments in this session."),
        (Distinct("m", 60), "Don't repeat a call of m with the same arguments in this session within 60 s."),
        (EndsTurn("s"), "A successful call of s ends the turn, so call it last."),
        (Limit(1), "Make at most 1 call in one session."),
        (Limit(5, "a*", per="user", seconds=60), "Make at most 5 calls of a* for one user within 60 s."),
        (Limit(5, each=True, per="registry"), "Make at most 5 calls of each of *."),
    ],
)
def test_each_rule_is_a_sentence(rule, sentence):
    """In plain words."""
    assert rule.sentence == sentence


HEAD = "Rules for your calls of tools (* stands for any characters; a call that breaks a rule is denied):"


def processed(settings, context=EMPTY_CONTEXT, *, names=None):
    @tool
    def mail_send() -> None:
        """Sends."""

    registry = ToolRegistry()
    registry.register(StaticToolset("mails", [mail_send]).renamed(names or {}))
    assert register_plugin(registry, Guard, "guard", settings=settings).status == "loaded"
    return asyncio.run(registry.process(ModelRequest("Hi."), context)).system


def test_a_request_tells_the_rules_about_its_tools():
    """Those about others are left out."""
    order = {"after": [{"tools": "other", "after": "mail_send"}], "distinct": [{"tools": "mail_*"}]}
    assert processed({"limits": [{"calls": 9}], "order": order}) == (
        f"{HEAD}\n"
        "- Don't repeat a call of mail_* with the same arguments in this session.\n"
        "- Make at most 9 calls in one session."
    )


@pytest.mark.parametrize(
    "settings", [{}, {"limits": [{"calls": 9}], "tell_rules": False}, {"limits": [{"calls": 9, "tools": "other"}]}]
)
def test_without_rules_nothing_is_told(settings):
    """Or where that is switched off, or all rules are about other tools."""
    assert processed(settings) == ""


def test_tools_have_the_names_under_which_they_are_offered():
    """A pattern that fits no offered name is shown as it is, unless it fits a former one."""
    order = {
        "after": [{"tools": ["mail_*", "x"], "after": "log_in"}],
        "required": [{"tools": "y", "when": "mail_send"}],
    }
    settings = {"order": order, "limits": [{"calls": 2, "tools": "send"}, {"calls": 3, "tools": ["mail_send", "se*"]}]}
    assert processed(settings, names={"mail_send": "send"}) == (
        f"{HEAD}\n"
        "- Call send or x only after log_in succeeded in this session.\n"
        "- Make at most 2 calls of send in one session.\n"
        "- Make at most 3 calls of send or se* in one session."
    )


GATE = {"model": "a/b", "calls": "Only to Ann.", "end": "It is thorough.", "tools": "mail_*"}


def test_a_request_tells_by_which_rules_a_model_judges():
    """The calls of its tools, and the answer."""
    assert processed({"gate": GATE}) == (
        f"{HEAD}\n"
        "- Calls of mail_* are judged before they run, by this rule: Only to Ann.\n"
        "- Your answer is judged before the turn ends, by this rule: It is thorough."
    )


def test_an_agent_isnt_told_what_the_turn_of_its_caller_requires():
    """It can't end that turn."""
    agents = ReadonlyContext(root=EMPTY_CONTEXT)
    settings = {"order": {"required": [{"tools": "mail_send"}], "ends_turn": [{"tools": "mail_send"}]}, "gate": GATE}
    assert processed(settings, agents) == (
        f"{HEAD}\n"
        "- A successful call of mail_send ends the turn, so call it last.\n"
        "- Calls of mail_* are judged before they run, by this rule: Only to Ann."
    )
