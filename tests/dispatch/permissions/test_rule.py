from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.permissions.rule import Rule
from pegboard.tools.spec import ARGUMENT_KINDS

TEXTS = st.text(min_size=1, max_size=5)
ORDINARY = st.builds(
    Rule,
    TEXTS,
    TEXTS,
    st.sampled_from(["allow", "ask", "deny"]),
    field=st.none() | TEXTS,
    kind=st.none() | st.sampled_from(ARGUMENT_KINDS),
)
FORBIDDING = st.builds(lambda permission, pattern: Rule(permission, pattern, "deny", forbid=True), TEXTS, TEXTS)


@given(ORDINARY | FORBIDDING)
def test_a_rule_survives_json(rule):
    assert Rule.from_json(rule.to_json()) == rule
    assert hash(Rule.from_json(rule.to_json())) == hash(rule)


def test_a_rule_writes_what_it_says_and_no_more():
    assert Rule("bash", "*", "ask").to_json() == {"permission": "bash", "pattern": "*", "action": "ask"}
    full = Rule("bash", "*", "deny", forbid=True, field="line", kind="command")
    assert full.to_json() | {"forbid": True, "field": "line", "kind": "command"} == full.to_json()


def test_a_rule_read_from_data_is_about_everything_unless_it_says_of_what():
    assert Rule.from_json({"permission": "bash", "action": "ask"}) == Rule("bash", "*", "ask")
    assert Rule.from_json({"permission": "bash", "forbid": True}) == Rule("bash", "*", "deny", forbid=True)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"action": "ask"}, "permission: missing"),
        ({"permission": "a"}, "action: missing"),
        ({"permission": "a", "action": "alow"}, "action: 'alow' is none. Did you mean 'allow'?"),
        ({"permission": "a", "action": "zzz"}, "action: 'zzz' is none. There are allow, ask, deny."),
        ({"permission": "a", "action": "ask", "kind": "paht"}, "kind: 'paht' is none. Did you mean 'path'?"),
        ({"permission": "a", "action": "ask", "patern": "*"}, "patern: unknown key. Did you mean 'pattern'?"),
        ({"permission": "a", "action": "ask", "zzz": "*"}, "zzz: unknown key. There are permission"),
        ({"permission": "a", "action": "ask", "pattern": ""}, "pattern is empty"),
        ({"permission": "", "action": "ask"}, "permission is empty"),
        ({"permission": "a", "action": "ask", "field": ""}, "field is empty"),
        ({"permission": 1, "action": "ask"}, "permission must be a text, got 1"),
        ({"permission": "a", "action": "ask", "field": 1}, "field must be a text, got 1"),
        ({"permission": "a", "action": ["ask"]}, "action: ['ask'] is none"),
        ({"permission": "a", "action": "allow", "forbid": True}, "a rule that forbids has the action 'deny'"),
        ({"permission": "a", "action": "deny", "forbid": 1}, "forbid: expected true or false, got 1"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(data, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Rule.from_json(data)


def test_a_rule_prints_itself():
    assert str(Rule("bash", "git *", "allow")) == "allow bash: git *"
    assert str(Rule("bash", "rm *", "deny", forbid=True)) == "forbid bash: rm *"
    assert str(Rule("mail", "*@a.org", "allow", field="to")) == "allow mail: *@a.org (to)"
    assert str(Rule("mail", "/a", "allow", field="to", kind="path")) == "allow mail: /a (to as path)"
    assert str(Rule("mail", "*", "allow", kind="text")) == "allow mail: * (argument as text)"


def test_a_rule_names_permissions_by_a_pattern_too():
    assert Rule("git_*", "*", "ask").names("x", "git_push")
    assert not Rule("git_*", "*", "ask").names("git", "x")
