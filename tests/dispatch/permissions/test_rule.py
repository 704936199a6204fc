"""Rules and their patterns."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, strategies as st

from pegboard import Rule
from pegboard.dispatch.permissions.rule import HOLE, Match, Wildcard, wildcard
from pegboard.text import confusable_key

PATTERNS = st.text("ab *?", max_size=6)
HOLED_TEXTS = st.text("ab ", max_size=6)
FILLINGS = ["".join(letters) for length in range(5) for letters in product("ab ", repeat=length)]


def simply_matches(pattern, text):
    """Reference implementation, exponential in time."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(simply_matches(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and simply_matches(pattern[1:], text[1:])


def is_meant(pattern, text):
    pattern = re.sub(r"\*+", "*", pattern)
    bare = pattern[:-2] if len(pattern) > 2 and pattern.endswith(" *") else None
    return simply_matches(pattern, text) or (bare is not None and simply_matches(bare, text))


@given(PATTERNS, HOLED_TEXTS)
def test_a_pattern_matches_what_the_rule_says(pattern, text):
    assert Wildcard(pattern).matches(text) == is_meant(pattern, text)
    assert Wildcard(pattern).match(text) is (Match.SURELY if is_meant(pattern, text) else Match.NO)


@given(PATTERNS, HOLED_TEXTS, HOLED_TEXTS)
def test_what_covers_a_hole_matches_whatever_fills_it(pattern, before, after):
    if Wildcard(pattern).match(before + HOLE + after) is Match.SURELY:
        assert all(is_meant(pattern, before + filling + after) for filling in FILLINGS)


@given(PATTERNS, HOLED_TEXTS, HOLED_TEXTS, st.sampled_from(FILLINGS))
def test_what_matches_a_filled_hole_touches_it(pattern, before, after, filling):
    if is_meant(pattern, before + filling + after):
        assert Wildcard(pattern).match(before + HOLE + after) is not Match.NO


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("git *", "git push", True),
        ("git *", "git", True),
        ("* *", "a", True),
        ("src/*", "src/deep/down", True),
        ("?.py", "a.py", True),
        ("a.[b]", "a.[b]", True),
        ("*", "", True),
        ("a*c", "a\nb\nc", True),
        ("git *", "gitk", False),
        ("git", "git push", False),
        ("push", "git push", False),
        ("a.b", "axb", False),
        ("?", "", False),
        ("Git", "git", False),
        (" *", "", False),
    ],
)
def test_what_matches(pattern, text, matches):
    assert wildcard(pattern).matches(text) is matches


@pytest.mark.parametrize(
    ("pattern", "match"),
    [("git *", Match.SURELY), ("git log", Match.PERHAPS), ("git ???", Match.PERHAPS), ("rm *", Match.NO)],
)
def test_a_hole_is_covered_by_a_star_only(pattern, match):
    assert wildcard(pattern).match(f"git {HOLE}") is match


def test_a_hole_may_be_empty():
    assert wildcard("git push").match(f"git push{HOLE}") is not Match.NO
    assert wildcard("g* *").match(f"g{HOLE}") is Match.SURELY


def test_only_the_bare_star_is_everything():
    assert [wildcard(each).is_everything for each in ("*", "**", "? *", "a*", "")] == [True, True, False, False, False]


def test_a_pattern_that_would_backtrack_costs_little():
    """Forty stars: trying every division of the text would never end."""
    greedy = Wildcard("*a" * 40 + "b")
    assert not greedy.matches("a" * 20_000)
    assert greedy.match("a" * 5_000 + HOLE + "c") is Match.NO


TEXTS = st.text(min_size=1, max_size=5).filter(lambda text: confusable_key(text) and HOLE not in text)
PERMISSIONS = TEXTS.filter(lambda text: text == text.strip() and text.isprintable())
ORDINARY = st.builds(
    Rule,
    PERMISSIONS,
    TEXTS,
    st.sampled_from(["allow", "ask", "deny"]),
    reason=st.none() | TEXTS,
    field=st.none() | TEXTS,
    kind=st.none() | st.sampled_from(["text", "command", "path", "url"]),
    owner=st.none() | st.text(max_size=3),
)
STRICTER = st.builds(
    Rule,
    PERMISSIONS,
    TEXTS,
    st.sampled_from(["ask", "deny"]),
    source=st.from_regex("[a-z]([_.]?[A-Z0-9]){,3}", fullmatch=True),
)
FORBIDDING = st.builds(lambda permission, pattern: Rule(permission, pattern, "deny", forbid=True), PERMISSIONS, TEXTS)


@given(ORDINARY | STRICTER | FORBIDDING)
def test_a_rule_survives_json(rule):
    assert Rule.from_json(rule.to_json()) == rule
    assert hash(Rule.from_json(rule.to_json())) == hash(rule)


def test_a_rule_writes_only_what_is_set():
    assert Rule("bash", "*", "ask").to_json() == {"permission": "bash", "pattern": "*", "action": "ask"}
    full = Rule("bash", "*", "deny", forbid=True, field="line", kind="command")
    assert full.to_json() | {"forbid": True, "field": "line", "kind": "command"} == full.to_json()


def test_a_rule_without_a_pattern_applies_to_everything():
    assert Rule.from_json({"permission": "bash", "action": "ask"}) == Rule("bash", "*", "ask")
    assert Rule.from_json({"permission": "bash", "forbid": True}) == Rule("bash", "*", "deny", forbid=True)
    unsaid = dict.fromkeys(("field", "kind", "owner", "source", "reason"))  # as other programs write records
    assert Rule.from_json({"permission": "bash", "action": "ask", **unsaid}) == Rule("bash", "*", "ask")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"action": "ask"}, "permission: missing"),
        ({"permission": "a"}, "action: missing"),
        ({"permission": "a", "action": "alow"}, "action: must be one of allow, ask, deny, got 'alow'"),
        ({"permission": "a", "action": "ask", "kind": "paht"}, "kind: must be one of text, command, path, url"),
        ({"permission": "a", "action": "ask", "patern": "*"}, "patern: unknown key. Did you mean 'pattern'?"),
        ({"permission": "a", "action": "ask", "zzz": "*"}, "zzz: unknown key. There are permission"),
        ({"permission": "a", "action": "ask", "pattern": ""}, "pattern is empty"),
        ({"permission": "a", "action": "ask", "pattern": " \t"}, "pattern is empty or blank; '*' stands for all"),
        ({"permission": "a", "action": "ask", "pattern": "\u200b \u3164"}, "pattern is empty or blank"),
        ({"permission": "a", "action": "ask", "pattern": "a\0"}, "pattern holds a NUL character"),
        ({"permission": " a", "action": "ask"}, "permission: ' a' holds blanks or hidden characters"),
        ({"permission": "a\u200b", "action": "ask"}, "holds blanks or hidden characters that no name has"),
        ({"permission": "a", "action": "ask", "reason": 1}, "reason: must be a string, got int"),
        ({"permission": "", "action": "ask"}, "permission is empty"),
        ({"permission": "a", "action": "ask", "field": ""}, "field is empty"),
        ({"permission": 1, "action": "ask"}, "permission: must be a string, got int"),
        ({"permission": "a", "action": "ask", "field": 1}, "field: must be a string, got int"),
        ({"permission": "a", "action": ["ask"]}, "action: must be a string, got list"),
        ({"permission": "a", "action": "forbid"}, 'write action = "deny" and forbid = true'),
        ({"permission": "a", "action": "allow", "forbid": True}, "a rule that forbids has the action 'deny'"),
        ({"permission": "a", "action": "deny", "pattern": None}, "pattern: null is not a value; leave the key out"),
        ({"permission": "a", "action": None}, "action: missing"),
        ([{"permission": "a", "action": "deny"}], "a rule must be a table, got list"),
        ({"permission": "a", "action": "deny", "forbid": None}, "forbid: null is not a value; leave the key out"),
        ({"permission": "a", "action": "deny", "literal": True}, "literal: unknown key"),
        ({"permission": "a", "action": "deny", "forbid": 1}, "forbid: must be a boolean, got int"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(data, text):
    with pytest.raises(ValueError, match=re.escape(text)):
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
