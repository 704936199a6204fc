"""Evaluation of rules against what a call touches."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, strategies as st

from pegboard import PermissionRules, Rule
from pegboard.dispatch.permissions.evaluation import Decision, Resource
from pegboard.dispatch.permissions.rule import HOLE, Folders, Part, PlainText


def test_relative_paths_start_in_the_folder_of_the_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    top = os.path.realpath(tmp_path)
    for work_dir, place in [(".", f"{top}/x"), ("a", f"{top}/a/x"), ("/b", "/b/x")]:
        assert Resource("path", "x").parts("path", Folders([work_dir]))[0].shown == place


def test_parts_offer_exactly_themselves_and_wider_patterns():
    parts = (PlainText("a*"), PlainText(HOLE), Part(shown="x"))
    assert [(part.literal, part.wider) for part in parts] == [("a*", None), (None, None), (None, None)]


STRICTNESS = ["allow", None, "ask", "deny"]
PERMISSIONS = st.sampled_from(["read", "edit", "bash"])
PATTERNS = st.sampled_from(["*", "a", "a*", "?b", "b *", "zz"])
ACTIONS = st.sampled_from(["allow", "ask", "deny"])
TEXTS = st.sampled_from(["a", "ab", "b", "b c", "zz", ""])
KINDS = st.sampled_from([None, "text", "command", "path", "url"])
ANY_RULES = st.builds(Rule, PERMISSIONS | st.just("*"), PATTERNS, ACTIONS, kind=KINDS)
TEXT_RULES = st.builds(Rule, st.just("read"), PATTERNS, ACTIONS)
SUBJECT_KINDS = ["text", "command", "path", "url"]
SUBJECTS = st.lists(st.builds(Resource, st.sampled_from(SUBJECT_KINDS), TEXTS | st.none()), max_size=3)


def ruled(rules, *subjects, permission="read"):
    return PermissionRules(rules).decide(permission, subjects)


def text(value):
    return Resource("text", value)


@given(st.lists(TEXT_RULES, max_size=5), TEXTS.filter(bool))
def test_the_last_match_wins(rules, value):
    matching = [rule for rule in rules if rule.wildcard.matches(value)]
    assert ruled(rules, text(value)).rule == (matching[-1] if matching else None)


@given(st.lists(TEXT_RULES, max_size=4), st.lists(TEXTS.filter(bool), min_size=1, max_size=4))
def test_of_several_subjects_each_is_decided_and_the_strictest_counts(rules, values):
    alone = [ruled(rules, text(value)).action for value in values]
    assert ruled(rules, *map(text, values)).action == max(alone, key=STRICTNESS.index)


@given(st.lists(ANY_RULES, max_size=4), st.lists(ANY_RULES, max_size=4), SUBJECTS, PATTERNS)
def test_a_forbid_rule_is_never_beaten(before, after, subjects, pattern):
    forbid = Rule("read", pattern, "deny", forbid=True)
    alone = ruled([forbid], *subjects)
    among = ruled([*before, forbid, *after], *subjects)
    assert among.forbidden == alone.forbidden
    if alone.forbidden:
        assert (among.action, among.rule) == ("deny", forbid)


@given(st.lists(ANY_RULES, max_size=4), PATTERNS, KINDS, SUBJECTS)
def test_an_allow_rule_for_another_permission_changes_nothing(rules, pattern, kind, subjects):
    more = PermissionRules(rules).with_rules(Rule("other", pattern, "allow", kind=kind))
    assert more.decide("read", subjects) == ruled(rules, *subjects)


@given(st.lists(ANY_RULES, max_size=4), PATTERNS, KINDS, SUBJECTS)
def test_an_appended_deny_rule_never_makes_a_decision_milder(rules, pattern, kind, subjects):
    more = PermissionRules(rules).with_rules(Rule("read", pattern, "deny", kind=kind))
    before, after = ruled(rules, *subjects).action, more.decide("read", subjects).action
    assert STRICTNESS.index(after) >= STRICTNESS.index(before)


@given(st.lists(ANY_RULES, max_size=4), SUBJECTS, SUBJECTS)
def test_what_touches_more_is_never_decided_more_mildly(rules, subjects, more):
    before = ruled(rules, *subjects, text("a")).action
    after = ruled(rules, *subjects, text("a"), *more).action
    assert STRICTNESS.index(after) >= STRICTNESS.index(before)


def test_without_an_applicable_rule_there_is_no_decision():
    assert ruled([]) == ruled([Rule("edit", "*", "deny")], text("a")) == Decision(None)


def test_only_the_star_surely_applies_to_a_call_that_touches_nothing():
    assert ruled([Rule("read", "*", "allow")]).action == "allow"
    assert ruled([Rule("read", "a", "allow")]).action is None
    assert ruled([Rule("read", "a", "deny")]).action == "deny"
    assert ruled([Rule("read", "*", "allow", kind="path")]).action is None
    assert ruled([Rule("read", "*", "deny"), Rule("read", "*", "allow")]).action == "allow"


@pytest.mark.parametrize("kind", SUBJECT_KINDS)
def test_what_is_missing_is_denied_and_not_allowed(kind):
    for value in (None,) if kind == "command" else (None, ""):  # an empty line is one that `*` allows
        assert ruled([Rule("read", "zz", "deny")], Resource(kind, value)).action == "deny"
        assert ruled([Rule("read", "zz", "ask")], Resource(kind, value)).action == "ask"
        assert ruled([Rule("read", "*", "allow")], Resource(kind, value)).action is None
        assert ruled([Rule("read", "zz", "deny", forbid=True)], Resource(kind, value)).forbidden


def test_the_star_as_text_applies_to_everything():
    """It applies to any value, also if it can't be read."""
    everything = Rule("read", "*", "allow", kind="text")
    for subject in (Resource("command", "$(x)"), Resource("path", None), Resource("url", "http://a@b")):
        assert ruled([everything], subject).action == "allow"
    assert ruled([everything]).action == "allow"
    assert ruled([Rule("read", "*", "allow")], Resource("path", None)).action is None


def test_a_rule_may_read_an_argument_in_another_way():
    assert ruled([Rule("read", "rm *", "deny", kind="command")], text("ls; rm x")).action == "deny"
    assert ruled([Rule("read", "ls *", "allow", kind="command")], text("ls; ls -l")).action == "allow"
    assert ruled([Rule("read", "ls *", "allow", kind="command")], text("ls; rm x")).action is None
    assert ruled([Rule("read", "ls *", "allow", kind="command")], text("sh -c 'ls'")).action is None
    assert ruled([Rule("read", "sh *", "allow", kind="command")], text("sh -c 'ls'")).action == "allow"
    assert ruled([Rule("read", "ls;*", "deny", kind="text")], Resource("command", "ls; rm x")).action == "deny"
    assert ruled([Rule("read", "rm *", "deny", kind="command")], text("sudo rm x")).action == "deny"
    assert ruled([Rule("read", "nowhere", "deny", kind="path")], text("x")).action is None


def test_a_rule_may_name_the_argument():
    to, body = Resource("text", "ann@a.org", "to"), Resource("text", "hi", "body")
    rule = Rule("mail", "*@a.org", "allow", field="to")
    assert ruled([rule], to, permission="mail").action == "allow"
    assert ruled([rule], to, body, permission="mail").action is None
    assert ruled([rule, Rule("mail", "*", "allow", field="body")], to, body, permission="mail").action == "allow"


def test_an_undeclared_argument_decides_about_the_whole_call():
    """It counts only if a rule names it: no rule has to allow `mode` itself."""
    path, mode = Resource("text", "a", "path"), Resource("text", "w", "mode", declared=False)
    rules = [Rule("read", "a", "allow"), Rule("read", "w", "deny", field="mode")]
    assert ruled(rules, path, mode).action == "deny"
    assert ruled(rules, path, Resource("text", "r", "mode", declared=False)).action == "allow"
    assert ruled([Rule("read", "w", "allow", field="mode")], path, mode).action == "allow"
    assert ruled([Rule("read", "w", "deny", field="mode")], path).action == "deny"
    assert ruled([Rule("read", "w", "allow", field="mode")], path).action is None


def test_a_rule_that_names_an_argument_looks_at_no_other():
    path, target = Resource("text", "a", "path"), Resource("text", "b", "target")
    assert ruled([Rule("read", "b", "deny", field="path")], path, target).action is None


def test_a_line_of_which_everything_is_inside_is_only_allowed_as_any_other():
    assert ruled([Rule("read", "x", "allow")], Resource("command", "((x))")).action is None
    assert ruled([Rule("read", "*", "allow")], Resource("command", "((x))")).action == "allow"
    assert ruled([Rule("read", "*", "allow", kind="command")], text("((x))")).action is None


def test_rules_are_rules():
    with pytest.raises(TypeError, match="rules must be of type Rule"):
        PermissionRules(["deny"])
    assert len(PermissionRules([Rule("a", "*", "ask")]).rules) == 1


def test_a_decision_names_its_rule_and_why():
    rule = Rule("read", "*", "ask")
    decision = ruled([rule], text("a"))
    assert (decision.rule, decision.forbidden, decision.reason) == (rule, False, "a rule asks")
