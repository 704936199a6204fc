"""Decisions on calls by rules and a mode."""

from __future__ import annotations

import asyncio
import gc
import json
import pickle
import sys
import threading
import weakref
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pegboard import (
    Origin,
    PermissionRules,
    Permissions,
    ReadonlyContext,
    Reshape,
    Rule,
    StaticToolset,
    Tool,
    ToolAnnotations,
    ToolRegistry,
    ToolSpec,
)
from pegboard.dispatch.permissions.evaluation import MOST_EXACT
from pegboard.dispatch.permissions.permissions import DEFAULT_PERMISSIONS, MOST_AT_ONCE, Access, policy_of
from pegboard.dispatch.permissions.rule import HOLE, MODES, Folders
from pegboard.tools import EMPTY_CONTEXT, HOST
from pegboard.toolsets.wrappers import _reshape_tool

STRANGER = Origin(plugin="stranger", trusted=False)


def tool(name="probe", *, origin=HOST, confirms=None, **facts):
    hints = {f"{hint}_hint": facts.pop(hint) for hint in ("read_only", "destructive", "edit") if hint in facts}
    facts.setdefault("input_schema", {"type": "object"})
    return Tool(ToolSpec(name, annotations=ToolAnnotations(**hints), **facts), origin=origin, confirms=confirms)


PLAIN = tool()
SHELL = tool("shell", permission="bash", permission_arguments={"line": "command"})
WRITE = tool("write", permission="edit", permission_arguments={"path": "path"}, edit=True)
READ = tool("read", permission="read", permission_arguments={"path": "path"}, read_only=True)


def decide(called, arguments=None, *rules, mode="default", **options):
    return Permissions(rules, mode).decide(called, arguments or {}, **options)


def settled(permissions, called):
    """Whether each call of a tool runs, with any arguments."""
    return policy_of(permissions, called).conditions == ()


def action(called, arguments=None, *rules, **options):
    return decide(called, arguments, *rules, **options).action


# --- what asks ---


@pytest.mark.parametrize(
    ("called", "reason"),
    [
        (tool(permission="x"), "it needs the permission 'x'"),
        (tool(destructive=True), "it is marked destructive"),
        (tool(origin=STRANGER, read_only=True), "it comes from an untrusted origin"),
        (tool(requires_confirmation=True), "it requires confirmation of each call"),
        (
            tool(requires_confirmation=True, confirms=lambda arguments: arguments["a"] == 1),
            "it requires confirmation of this call",
        ),
        (tool(confirms=lambda arguments, context: context.user is None), "it requires confirmation of this call"),
        (tool(confirms=lambda arguments: arguments["b"]), "it isn't known whether this call must be confirmed"),
        (tool(confirms=lambda arguments: sys.exit()), "it isn't known whether this call must be confirmed"),
        *(
            (
                tool(confirms=lambda arguments, answer=answer: answer),
                "it isn't known whether this call must be confirmed",
            )
            for answer in (None, "", 0, [], "no", 1)
        ),
    ],
)
def test_what_asks(called, reason):
    decision = decide(called, {"a": 1})
    assert (decision.action, decision.reason, decision.rule) == ("ask", reason, None)
    assert not settled(DEFAULT_PERMISSIONS, called)


def test_everything_else_runs():
    for called in (PLAIN, tool(destructive=False), tool(edit=True), tool(read_only=False)):
        assert action(called) == "allow"
        assert settled(DEFAULT_PERMISSIONS, called)


def test_a_predicate_is_not_asked_where_rules_decide():
    asked = []
    called = tool(confirms=asked.append)
    for rule in (Rule("probe", "*", "allow"), Rule("probe", "*", "deny"), Rule("probe", "*", "deny", forbid=True)):
        decide(called, {}, rule)
    assert asked == []


def test_a_predicate_cant_change_the_arguments():
    arguments = {"a": 1}
    decide(tool(confirms=lambda given: given.clear()), arguments)
    assert arguments == {"a": 1}


def test_any_tool_asks_that_an_ask_rule_names():
    rule = Rule("probe", "*", "ask")
    assert decide(PLAIN, {}, rule).rule == rule
    assert not settled(Permissions([rule]), PLAIN)


# --- trust ---


def test_the_permission_of_an_untrusted_origin_only_adds_caution():
    stranger = SHELL.evolve(origin=STRANGER)
    assert action(stranger, {"line": "ls"}, Rule("bash", "*", "allow")) == "ask"
    assert action(stranger, {"line": "ls"}, Rule("shell", "*", "allow")) == "allow"
    assert action(stranger, {"line": "ls"}, Rule("bash", "*", "deny")) == "deny"
    assert ask(stranger, {"line": "ls"})["permission"] == "shell"


@pytest.mark.parametrize("origin", [HOST, STRANGER, Origin("git", "pegboard-git")])
def test_renaming_a_tool_bypasses_no_rule(origin):
    """A rule matches a tool by its own name, by the one that it is offered under, and by each in between."""
    shown = tool("delete", destructive=True, origin=origin).with_spec(name="git_delete").with_spec(name="run_tests")
    for name in ("delete", "git_delete", "run_tests", "*_delete"):
        assert action(shown, {}, Rule("run_tests", "*", "allow"), Rule(name, "*", "deny")) == "deny"
        assert Permissions([Rule(name, "*", "deny", forbid=True)], "bypass").hides(shown)
    assert action(shown, {}, Rule("run_tests", "*", "allow")) == "allow"
    assert action(shown, {}, Rule("delete", "*", "allow")) == ("allow" if origin.trusted else "ask")


@pytest.mark.parametrize(
    ("origin", "owner"),
    [(HOST, ""), (Origin("git", "pegboard-git"), "pegboard-git"), (Origin("git"), "git")],
)
def test_what_is_granted_for_one_owner_holds_for_its_tools_only(origin, owner):
    called = SHELL.evolve(origin=origin)
    for granted in ("", "pegboard-git", "git", None):
        grants = (Rule("bash", "*", "allow", owner=granted),)
        wanted = "allow" if granted in (owner, None) else "ask"
        assert action(called, {"line": "ls"}, grants=grants) == wanted
        assert asked(called, "net", "a.org", grants=(Rule("net", "*", "allow", owner=granted),)) == wanted


@pytest.mark.parametrize("stricter", ["ask", "deny"])
def test_a_rule_about_a_source_applies_to_its_tools_only(stricter):
    allow, limit = Rule("*", "*", "allow"), Rule("*", "*", stricter, source="Llm_Tools.SQLite")
    for source, wanted in (("llm-tools-sqlite", stricter), ("other", "allow"), (None, "allow")):
        called = SHELL.evolve(origin=Origin("llm", "pegboard-llm", source=source))
        assert action(called, {"line": "ls"}, allow, limit) == wanted
        assert asked(called, "net", "a.org", rules=[allow, limit]) == wanted
        assert Permissions([allow, limit]).hides(called) is (wanted == "deny")


def test_hints_of_an_untrusted_origin_only_add_caution():
    assert action(tool(origin=STRANGER, destructive=True)) == "ask"
    assert action(tool(origin=STRANGER, read_only=True), mode="plan") == "deny"
    assert action(tool(origin=STRANGER, edit=True, destructive=True), mode="accept_edits") == "ask"


@pytest.mark.parametrize("permission", ["*", "e?it", "edit ", "ed\u200bit", "edit\nasked because safe"])
def test_a_permission_that_is_no_name_is_not_asked_for(permission):
    """An answer "always" would allow everything to all tools."""
    greedy = tool(permission=permission, destructive=True)
    assert ask(greedy, {})["permission"] == "probe"


# --- what is touched ---


MAIL = tool("mail", destructive=True)
PAY = tool(permission="pay", permission_arguments={"cents": "text"})
LISTED = WRITE.with_spec(input_schema={"type": "object", "properties": {"path": {"type": "string", "default": "/a/b"}}})
CLOSED = tool(input_schema={"type": "object", "properties": {"a": {}}, "additionalProperties": False})
SOURCES = [Rule("edit", "src/*", "allow"), Rule("edit", "src/secret/*", "deny")]
PLACES = [Rule("edit", "/a/*", "allow"), Rule("edit", "/b/*", "deny")]
MAILS = [Rule("mail", "*@a.org", "allow", field="to"), Rule("mail", "~/*", "deny", field="file", kind="path")]
ELSEWHERE = [Rule("*", "/etc/*", "deny", field="path", kind="path")]
GIT, NOTHING = [Rule("bash", "git *", "allow")], ({}, *({"path": each} for each in (None, [], 5, [None], {})))


@pytest.mark.parametrize(
    ("called", "arguments", "rules", "wanted"),
    [
        (WRITE, {"path": "src/a"}, SOURCES, "allow"),
        (WRITE, {"path": "src/../b"}, SOURCES, "ask"),
        (WRITE, {"path": "src/x/../secret/a"}, SOURCES, "deny"),
        # What is missing is denied and not allowed.
        *((WRITE, each, [Rule("edit", "/nowhere", "deny")], "deny") for each in NOTHING),
        *((WRITE, each, [Rule("edit", "*", "allow")], "ask") for each in NOTHING),
        # Every item of a list; as a command it is its words.
        (WRITE, {"path": ["/a/x", "/a/y"]}, PLACES, "allow"),
        (WRITE, {"path": ["/a/x", "/c"]}, PLACES, "ask"),
        (WRITE, {"path": ["/a/x", "/b/x"]}, PLACES, "deny"),
        (WRITE, {"path": ["/a/x"] * 501}, PLACES, "deny"),
        (SHELL, {"line": ["git", "log", "a b"]}, GIT, "allow"),
        (SHELL, {"line": ["git", 5]}, GIT, "ask"),
        (SHELL, {"line": ["bash", "-lc", "ls; rm x"]}, [Rule("bash", "rm *", "deny")], "deny"),
        # What is left out has the default of its schema, from an origin that is trusted.
        (LISTED, {}, [Rule("edit", "/a/*", "allow")], "allow"),
        (LISTED, {}, [Rule("edit", "/a/*", "deny")], "deny"),
        (LISTED.evolve(origin=STRANGER), {}, [Rule("write", "/a/*", "allow")], "ask"),
        # Other values as JSON.
        (PAY, {"cents": 5}, [Rule("pay", "?", "allow")], "allow"),
        (PAY, {"cents": {"b": 1, "a": True}}, [Rule("pay", '{"a":true,"b":1}', "allow")], "allow"),
        (PAY, {"cents": float("nan")}, [Rule("pay", "*", "allow")], "ask"),
        # An argument that isn't declared, where a rule names it; one that a tool can't have is no matter of its.
        (MAIL, {"to": "ann@a.org", "file": "/a"}, MAILS, "allow"),
        (MAIL, {"to": "eve@b.org", "file": "/a"}, MAILS, "ask"),
        (MAIL, {"to": ["ann@a.org", "eve@b.org"], "file": "/a"}, MAILS, "ask"),
        (MAIL, {"to": "ann@a.org", "file": "~/x"}, MAILS, "deny"),
        (MAIL, {"to": "ann@a.org"}, MAILS, "deny"),
        (CLOSED, {"a": 1}, ELSEWHERE, "allow"),
        (PLAIN, {"a": 1}, ELSEWHERE, "deny"),
        (PLAIN, {"path": "/tmp/x"}, ELSEWHERE, "allow"),
        # A tool is named by its permission or by its name.
        *((SHELL, {"line": "ls"}, [Rule(name, "*", "deny")], "deny") for name in ("bash", "shell", "*", "b?sh")),
        *((SHELL, {"line": "ls"}, [Rule(name, "ls *", "allow")], "allow") for name in ("bash", "shell", "*", "b?sh")),
        (SHELL, {"line": "ls"}, [Rule("read", "*", "deny")], "ask"),
        # What asks is allowed by a rule.
        (tool(permission="x"), {}, [Rule("x", "*", "allow")], "allow"),
        (tool(destructive=True), {}, [Rule("probe", "*", "allow")], "allow"),
        (tool(requires_confirmation=True), {}, [Rule("probe", "*", "allow")], "allow"),
        (PLAIN, {}, [Rule("probe", "*", "deny")], "deny"),
        # A predicate that picks calls leaves the others alone.
        (tool(requires_confirmation=True, confirms=lambda arguments: False), {}, [], "allow"),
    ],
)
def test_what_rules_look_at(tmp_path, called, arguments, rules, wanted):
    assert action(called, arguments, *rules, context=ReadonlyContext(work_dir=str(tmp_path))) == wanted


def test_rules_apply_to_a_renamed_argument():
    def write(path: str, text: str): ...

    own = Tool.from_function(write, permission="edit", permission_arguments={"path": "path", "text": "text"})
    shown = _reshape_tool(own, Reshape(rename={"path": "file"}, hide={"text": "x"}))
    assert shown.spec.permission_arguments == {"file": "path", "text": "text"}
    assert action(shown, {"file": "/b"}, Rule("edit", "/b", "deny")) == "deny"
    placed = _reshape_tool(
        own.evolve(work_dir=lambda arguments, _: arguments["path"]), Reshape(rename={"path": "file"})
    )
    assert placed.work_dir({"file": "/b", "text": "x"}, None) == "/b"


def test_a_tool_may_have_a_folder_of_its_own(tmp_path, monkeypatch):
    """Relative paths and patterns start there; patterns of deny and ask rules also in the call's folder."""
    monkeypatch.chdir(tmp_path)
    called = WRITE.evolve(work_dir=lambda arguments, context: f"data/{context.user}")
    context = ReadonlyContext(user="ann", work_dir=f"{tmp_path}/call")

    def decided(path, rule):
        return Permissions([rule]).decide(called, {"path": path}, context=context).action

    for pattern in (f"{tmp_path}/call/data/ann/src/*", "src/*"):
        assert decided("src/a", Rule("edit", pattern, "allow")) == "allow"
        assert decided("src/a", Rule("edit", pattern, "deny")) == "deny"
        assert decided("src/../a", Rule("edit", pattern, "allow")) == "ask"
    assert decided("../../src/a", Rule("edit", "src/*", "deny")) == "deny"
    assert decided("../../src/a", Rule("edit", "src/*", "allow")) == "ask"
    assert decided("src/a", Rule("edit", "data/ann/src/*", "deny")) == "deny"
    assert decided("src/a", Rule("edit", "data/ann/src/*", "allow")) == "ask"


def test_a_tool_whose_work_dir_fails_is_denied_and_not_allowed():
    called = WRITE.evolve(work_dir=lambda arguments, context: sys.exit())
    assert action(called, {"path": "/a"}, Rule("edit", "/a", "allow")) == "ask"
    assert action(called, {"path": "/a"}, Rule("edit", "/nowhere", "deny")) == "deny"


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        *((each, True) for each in ([], [Rule("read", "*", "allow")], [Rule("other", "*", "deny")])),
        *((each, False) for each in ([Rule("named", "*.env", "deny")], [Rule("read", "*.env", "deny")])),
        ([Rule("read", "*.env", "deny", field="path")], False),
        *((each, False) for each in ([Rule("read", "*.env", "deny", field="other")], [Rule("read", "*.env", "ask")])),
        ([Rule("read", "src/*", "ask")], False),
        ([Rule("read", "*", "ask")], True),
        ([Rule("read", "src", "ask"), Rule("read", "src*", "ask")], True),
        ([Rule("named", "*", "deny"), Rule("read", "src/*", "allow")], False),
        ([Rule("named", "*.env", "deny"), Rule("named", "*", "allow")], True),
        ([Rule("named", "*.env", "deny", forbid=True), Rule("named", "*", "allow")], False),
    ],
)
def test_a_running_tool_can_check_further_access(tmp_path, rules, allowed):
    """Not if rules ask about it, unless they asked about the whole call; everything only where no rule decides."""
    context = ReadonlyContext(work_dir=str(tmp_path))
    access = Access(policy_of(Permissions(rules), READ), {"path": "src"}, context)
    assert access.allows("named", "src/.env") is access.allows("named", f"{tmp_path}/src/.env") is allowed
    assert allowed or not access.allows("named", None)


def test_a_running_tool_may_access_the_paths_it_was_judged_by(tmp_path):
    """Another path only if a rule allows it."""
    permissions = Permissions([Rule("edit", "src/*", "allow"), Rule("edit", "lib/*", "allow")])
    context = ReadonlyContext(work_dir=str(tmp_path))
    policy = policy_of(permissions, WRITE)
    judged = policy.evaluation({"path": "src/a"}, context, ())
    access = Access(policy, {"path": "src/a"}, context, (), judged)
    assert [access.allows("edit", f"{tmp_path}/{path}") for path in ("src/a/b", "lib/a", "other/a")] == [
        True,
        True,
        False,
    ]
    assert not access.allows("edit", None)


@pytest.mark.parametrize(
    ("rules", "all_allowed"), [([], True), ([Rule("other", "*", "deny")], True), ([Rule("read", "a", "deny")], False)]
)
def test_a_running_tool_can_ask_once_whether_no_rule_limits_it(rules, all_allowed):
    assert Access(policy_of(Permissions(rules), READ), {}, EMPTY_CONTEXT).allows("read", None) is all_allowed


def test_what_is_granted_counts_for_what_a_running_tool_accesses():
    policy = policy_of(Permissions([Rule("read", "*.env", "ask")]), READ)
    access = Access(policy, {}, EMPTY_CONTEXT, [Rule("read", "/a/*", "allow")])
    assert [access.allows("read", path) for path in ("/a/.env", "/b/.env")] == [True, False]


@pytest.mark.parametrize("folder", ["src", "link", "link/../src", "~", "loop", "/", "https://a.b"])
@pytest.mark.parametrize("called", [PLAIN, READ])
def test_names_in_a_folder_are_checked_as_their_paths_are(tmp_path, monkeypatch, called, folder):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, target in [("link", "src"), ("loop", "loop"), ("src/out", "../secret"), ("src/.env", "x")]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(target)
    rules = [Rule("*", pattern, "deny", kind="path") for pattern in ("secret*", "*.env", "~/src/b")]
    access = Access(policy_of(Permissions(rules), called), {}, ReadonlyContext(work_dir=str(tmp_path)))
    names = ["a", "b", "out", ".env", "secret", "se\u200bcret", "x\n.env", "..", "\ud800"]
    one_by_one = tuple(name for name in names if access.allows("read", f"{folder.rstrip('/')}/{name}"))
    assert access.allowed_names("read", folder, names) == one_by_one
    assert folder != "link" or one_by_one == ("a", "secret", "se\u200bcret", "..")


@pytest.mark.parametrize("forbid", [True, False])
def test_the_model_reads_why_a_rule_refuses(forbid):
    registry = ToolRegistry(
        permissions=Permissions([Rule("probe", "*", "deny", forbid=forbid, reason="Use the other.")])
    )
    registry.register(PLAIN)
    assert "the permission 'probe' is denied for this call (Use the other)." in registry.call_sync("probe", {}).text


# --- modes ---


def test_plan_runs_only_what_is_known_to_change_nothing():
    plan = Permissions(mode="plan")
    assert plan.decide(tool(read_only=True), {}).action == "allow"
    assert settled(plan, tool(read_only=True))
    for called in (PLAIN, WRITE, tool(read_only=False), tool(destructive=False)):
        assert plan.decide(called, {}).action == "deny"
        assert plan.hides(called)
        assert not settled(plan, called)
    assert not plan.hides(READ)
    assert action(PLAIN, {}, Rule("probe", "*", "allow"), mode="plan") == "deny"
    assert action(READ, {"path": "/a"}, mode="plan") == "ask"


def shell(arguments):
    """What it does depends on its arguments."""


def by_arguments(**options):
    return Tool.from_schema("shell", {"type": "object"}, shell, **options)


def test_a_tool_may_decide_by_arguments_whether_a_call_is_destructive():
    called = by_arguments(destructive=lambda arguments: arguments["line"].startswith("rm"))
    assert action(called, {"line": "ls"}) == "allow"
    assert decide(called, {"line": "rm a"}).reason == "it marks this call destructive"
    assert decide(called, {}).reason == "it isn't known whether this call is destructive"
    assert action(called, {"line": "rm a"}, Rule("shell", "*", "allow")) == "allow"
    assert called.spec.annotations == ToolAnnotations()
    assert not settled(DEFAULT_PERMISSIONS, called)
    assert action(called.evolve(origin=STRANGER), {"line": "ls"}) == "ask"


def test_functions_of_the_arguments_run_off_the_loop():
    threads = []

    def destroys(arguments):
        threads.append(threading.current_thread())
        return arguments["line"] == "rm a"

    registry = ToolRegistry()
    registry.register(by_arguments(destructive=destroys))
    assert [registry.call_sync("shell", {"line": line}).kind for line in ("ls", "rm a")] == [None, "denied"]
    assert threading.main_thread() not in threads


def test_a_tool_may_decide_by_arguments_whether_a_call_only_reads():
    called, plan = by_arguments(read_only=lambda arguments: arguments["line"] == "ls"), Permissions(mode="plan")
    assert not plan.hides(called)
    assert [plan.decide(called, {"line": line}).action for line in ("ls", "rm a")] == ["allow", "deny"]
    assert plan.decide(called, {}).action == "deny"
    stranger = called.evolve(origin=STRANGER)
    assert (plan.hides(stranger), plan.decide(stranger, {"line": "ls"}).action) == (True, "deny")


def test_annotations_set_by_the_host_replace_functions_of_the_tool():
    called = by_arguments(destructive=lambda arguments: True, read_only=lambda arguments: True)
    toolset = StaticToolset("t", [called]).with_annotations(ToolAnnotations(destructive_hint=False))
    (vouched,) = asyncio.run(toolset.tools(ReadonlyContext()))
    assert action(vouched) == "allow"
    assert list(vouched.by_arguments) == ["read_only"]


def test_accepted_edits_dont_ask():
    assert action(WRITE, {"path": "/a"}, mode="accept_edits") == "allow"
    assert action(WRITE, {"path": "/a"}, Rule("edit", "*", "ask"), mode="accept_edits") == "allow"
    assert action(WRITE, {"path": "/a"}, Rule("edit", "*", "deny"), mode="accept_edits") == "deny"
    assert action(SHELL, {"line": "ls"}, mode="accept_edits") == "ask"
    assert settled(Permissions(mode="accept_edits"), WRITE)
    assert not settled(Permissions([Rule("edit", "/b", "deny")], "accept_edits"), WRITE)


def test_in_bypass_nothing_asks_and_ordinary_rules_are_ignored():
    rules = (Rule("*", "*", "deny"), Rule("bash", "*", "ask"))
    for called in (PLAIN, SHELL, WRITE, tool(requires_confirmation=True)):
        assert action(called, {}, *rules, mode="bypass") == "allow"
        assert settled(Permissions(rules, "bypass"), called)


def test_forbid_rules_apply_in_bypass():
    rule = Rule("bash", "rm *", "deny", forbid=True)
    assert action(SHELL, {"line": "ls; rm x"}, rule, mode="bypass") == "deny"
    assert action(SHELL, {"line": "ls"}, rule, mode="bypass") == "allow"
    assert not settled(Permissions([rule], "bypass"), SHELL)


def test_never_ask_denies_what_would_ask():
    decision = decide(SHELL, {"line": "ls"}, mode="never_ask")
    assert (decision.action, decision.rule) == ("deny", None)
    assert decision.reason == "it needs the permission 'bash', and the mode is never_ask"
    asks = Rule("probe", "*", "ask")
    decision = decide(PLAIN, {}, asks, mode="never_ask")
    assert (decision.action, decision.rule) == ("deny", asks)
    assert action(PLAIN, mode="never_ask") == "allow"
    assert action(SHELL, {"line": "ls"}, Rule("bash", "ls *", "allow"), mode="never_ask") == "allow"


# --- for any rules, grants and modes ---


ANY_MODE = st.sampled_from(MODES)
RULES = st.builds(
    Rule,
    st.sampled_from(["bash", "shell", "*"]),
    st.sampled_from(["*", "rm *", "ls *"]),
    st.sampled_from(["allow", "ask", "deny"]),
)
NARROW = st.builds(Rule, st.just("probe"), st.just("a"), st.just("ask"))
FEW_RULES = st.lists(RULES | NARROW, max_size=3)


@given(FEW_RULES, FEW_RULES, ANY_MODE, st.sampled_from(["rm x", "ls; rm x"]))
def test_what_is_forbidden_is_never_run(rules, grants, mode, line):
    """With any additional rules, grants and modes."""
    forbid = Rule("bash", "rm *", "deny", forbid=True)
    decision = decide(SHELL, {"line": line}, forbid, *rules, mode=mode, grants=tuple(grants))
    assert (decision.action, decision.rule, decision.forbidden) == ("deny", forbid, True)


CALLED = st.sampled_from([PLAIN, SHELL, WRITE, READ, SHELL.evolve(origin=STRANGER), tool(destructive=True)])
ARGUMENTS = st.sampled_from([{}, {"line": "ls", "path": "/a"}, {"line": "ls; rm x", "path": "/b"}, {"line": "$(x)"}])


FIELD_RULES = st.builds(
    Rule,
    st.just("*"),
    st.sampled_from(["*", "/a", "ls *", "*rm*"]),
    st.sampled_from(["allow", "ask", "deny"]),
    field=st.sampled_from([None, "line", "path"]),
    kind=st.sampled_from([None, "text", "command"]),
) | st.builds(
    Rule,
    st.just("*"),
    st.sampled_from(["ls", "*x"]),
    st.just("deny"),
    field=st.just("line"),
    forbid=st.sampled_from([True]),
)


@given(CALLED, ARGUMENTS, st.lists(FIELD_RULES, max_size=4), ANY_MODE)
def test_what_runs_without_a_decision_would_be_allowed(called, arguments, rules, mode):
    permissions = Permissions(rules, mode)
    if policy_of(permissions, called).runs(arguments):
        assert permissions.decide(called, arguments).action == "allow"


FETCH = tool("fetch", permission_arguments={"url": "url"})
NOTE = tool("note", permission_arguments={"text": "text"})
COPY = tool("copy", permission_arguments={"path": "path", "url": "url"}, destructive=True)
OPEN = tool("open", permission_arguments={"path": "path"})
RUN = tool("run", permission_arguments={"line": "command"})
TEXTS = {
    "path": [
        "/a",
        "/a/b",
        "/a/../b",
        "b",
        "./~",
        "~/x",
        "$HOME/b",
        "//a",
        "/A",
        "file:/a",
        "https://a.b/c",
        "\ud800",
        "",
    ],
    "url": [
        "https://a.b/c",
        "a.b",
        "a.b:80/%2e%2e/c",
        "http://127.1",
        "ftp://[::1]/c",
        "u@a.b",
        "/a",
        "tel:1",
        5,
        ["a.b"],
    ],
    "line": ["ls", "ls -l; rm x", "sudo rm x", "$(x) ls", "ls > /a", "echo '", "ls\0", "git -c a=b rm x", "[[ a ]]"],
    "text": ["ls", "a", '["rm x"]', ' {"a": "rm x"}', "x" * (MOST_AT_ONCE + 1), "rm x", None],
}
ANY_ARGUMENTS = st.fixed_dictionaries({}, optional={name: st.sampled_from(texts) for name, texts in TEXTS.items()})
PATTERNS = [
    "*",
    "/a",
    "/a/*",
    "*b",
    "~/*",
    "$HOME/*",
    "a.b",
    "https://*",
    "127.0.0.1",
    "a.b/c",
    "rm *",
    "ls",
    "ls *",
    "?",
]
ANY_RULES = st.builds(
    Rule,
    st.just("*"),
    st.sampled_from(PATTERNS),
    st.sampled_from(["allow", "allow", "deny", "ask"]),
    field=st.sampled_from([None, None, "path", "url", "text"]),
    kind=st.sampled_from([None, None, None, "text", "path", "url"]),
) | st.builds(Rule, st.just("*"), st.sampled_from(PATTERNS), st.just("deny"), forbid=st.sampled_from([True]))


@given(
    st.sampled_from([FETCH, NOTE, COPY, OPEN, RUN, FETCH.evolve(origin=STRANGER), SHELL, WRITE, READ]),
    ANY_ARGUMENTS,
    st.lists(ANY_RULES, max_size=4),
    ANY_MODE,
    st.sampled_from([None, "/", "/a"]),
)
def test_what_runs_by_declared_arguments_alone_would_be_allowed(called, arguments, rules, mode, work_dir):
    policy, context = policy_of(Permissions(rules, mode), called), ReadonlyContext(work_dir=work_dir)
    folders = Folders([work_dir or "."])
    if not policy.runs(arguments, context, folders):
        return
    assert policy.decide(arguments, context, ()).action == "allow"
    judged = [policy.evaluation(arguments, context, (), known) for known in (folders, None)]
    access, again = (Access(policy, arguments, context, (), each) for each in judged)
    for asked in [("copy", "/a/b"), ("read", "/c"), ("other", "/a"), ("open", None)]:
        assert access.allows(*asked) == again.allows(*asked)


@pytest.mark.parametrize(
    ("called", "pattern", "runs", "denied"),
    [
        (NOTE, "*secret*", {"text": "open"}, {"text": "a secret"}),
        (OPEN, "/srv/a/*", {"path": "/srv/b"}, {"path": "/srv/b/../a/c"}),
        (FETCH, "*.internal", {"url": "https://example.com/a"}, {"url": "a.internal"}),
        (RUN, "rm *", {"line": "ls -l && pwd"}, {"line": "ls; sudo rm x"}),
    ],
)
def test_rules_about_declared_arguments_let_calls_run_that_they_surely_do_not_match(called, pattern, runs, denied):
    policy = policy_of(Permissions([Rule("*", "*", "allow"), Rule("*", pattern, "deny")]), called)
    assert policy.runs(runs)
    assert not policy.runs(denied)
    assert not policy.runs({})


def test_a_link_that_is_set_later_counts_at_the_next_call(tmp_path):
    policy = policy_of(Permissions([Rule("*", f"{tmp_path}/a/*", "deny")]), OPEN)
    arguments = {"path": f"{tmp_path}/b/c"}
    assert policy.runs(arguments)
    asking = policy_of(Permissions([Rule("*", f"{tmp_path}/b/*", "allow"), Rule("x", "y", "ask")]), READ)
    folders = Folders(["."])
    assert (asking.runs(arguments), asking.runs(arguments, folders=folders)) == (False, True)
    access = Access(asking, arguments, EMPTY_CONTEXT, (), asking.evaluation(arguments, EMPTY_CONTEXT, (), folders))
    assert access.allows("read", f"{tmp_path}/b/c/d")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert not policy.runs(arguments)
    assert not access.allows("read", f"{tmp_path}/b/c/d")
    (tmp_path / "b").unlink()
    (tmp_path / "a").symlink_to(tmp_path / "b")
    assert not policy.runs(arguments)


def test_a_rule_about_one_argument_leaves_calls_alone_whose_text_it_does_not_match():
    policy = policy_of(Permissions([Rule("*", "*", "allow"), Rule("probe", "*secret*", "deny", field="text")]), PLAIN)
    assert policy.runs({"text": "open"})
    for given_text in ["a secret", "", None, 3, f"a{HOLE}", "a" * (MOST_AT_ONCE + 1)]:
        assert not policy.runs({"text": given_text})
    assert not policy.runs({})


@given(CALLED, ARGUMENTS, FEW_RULES, ANY_MODE)
def test_what_is_hidden_never_runs(called, arguments, rules, mode):
    permissions = Permissions(rules, mode)
    if permissions.hides(called):
        assert permissions.decide(called, arguments).action == "deny"


# --- hiding ---


@pytest.mark.parametrize(
    ("rules", "hidden"),
    [
        ([Rule("bash", "*", "deny")], True),
        ([Rule("*", "*", "deny")], True),
        ([Rule("bash", "rm *", "deny")], False),
        ([Rule("bash", "*", "deny"), Rule("bash", "ls *", "allow")], False),
        ([Rule("bash", "*", "deny"), Rule("read", "*", "allow")], True),
        ([Rule("bash", "*", "ask")], False),
        ([Rule("bash", "*", "deny", field="line")], False),
        ([Rule("bash", "*", "deny", forbid=True), Rule("bash", "*", "allow")], True),
        ([Rule("bash", "rm *", "deny", forbid=True)], False),
        ([], False),
    ],
)
def test_a_tool_is_hidden_where_its_last_rule_denies_every_pattern(rules, hidden):
    assert Permissions(rules).hides(SHELL) is hidden


def test_in_bypass_only_forbid_hides():
    assert not Permissions([Rule("bash", "*", "deny")], "bypass").hides(SHELL)
    assert Permissions([Rule("bash", "*", "deny", forbid=True)], "bypass").hides(SHELL)


# --- asking ---


def ask(called, arguments, *rules):
    policy = policy_of(Permissions(rules), called)
    return policy.request(policy.evaluation(arguments, EMPTY_CONTEXT, ()), arguments, EMPTY_CONTEXT, ())


def here(arguments):
    return f'{{"arguments":{arguments},"in":["{Path.cwd()}"]}}'


def test_a_person_is_shown_what_is_touched_and_offered_exactly_this_and_more():
    line = "git push origin && ls -l && ls -l"
    asked = ask(SHELL, {"line": line})
    assert (asked["permission"], asked["patterns"]) == ("bash", ("git push origin", "ls -l"))
    assert asked["always"] == (here(f'{{"line":"{line}"}}'),)
    assert asked["wider"] == ("git push *", "ls *")
    path = ask(WRITE, {"path": "/a/b"})
    assert (path["always"], path["wider"]) == (('{"path":["/a/b"]}',), ("/a/*",))
    whole = ask(tool(destructive=True), {"n": 1})
    assert (whole["patterns"], whole["always"], whole["wider"]) == (("*",), (here('{"n":1}'),), ("*",))
    (long,) = ask(tool(destructive=True), {"text": "a" * MOST_EXACT})["always"]
    assert long.startswith("sha256:")


@pytest.mark.parametrize(
    ("line", "literal", "wider"),
    [
        ("echo $(x)", False, False),
        ("$X", False, False),
        ("rm '*'", True, False),
        ("", False, False),
        ("sudo rm x", True, False),
        ("ls $X", False, True),
    ],
)
def test_always_is_offered_only_where_it_would_work(line, literal, wider):
    asked = ask(SHELL, {"line": line}, Rule("bash", "rm *", "ask"))
    assert (bool(asked["always"]), bool(asked["wider"])) == (literal, wider)


def test_what_is_missing_is_shown_as_anything():
    assert ask(WRITE, {})["patterns"] == ("*",)
    assert ask(SHELL, {"line": "((x))"})["patterns"] == ("((x))",)


COMMANDS = ["git push a", "ls -l", "rm x", "rm *", "A=b ls", "ls > f", "sudo ls", "echo $X", "cat $(x)"]
LINES = st.lists(st.sampled_from(COMMANDS), min_size=1, max_size=3)


@given(LINES.map("; ".join), FEW_RULES)
def test_what_always_proposes_allows_the_same_call(line, rules):
    """And exactly this, nothing else."""
    permissions = Permissions(rules)
    if permissions.decide(SHELL, {"line": line}).action != "ask":
        return
    asked = ask(SHELL, {"line": line}, *rules)
    for literal, patterns in ((True, asked["always"]), (False, asked["wider"])):
        grants = tuple(Rule("bash", pattern, "allow", literal=literal) for pattern in patterns)
        if grants:
            assert permissions.decide(SHELL, {"line": line}, grants=grants).action == "allow"
        if literal:
            other = {"line": f"{line}; {line}"}
            assert permissions.decide(SHELL, other, grants=grants).action == permissions.decide(SHELL, other).action


@given(FEW_RULES, st.sampled_from(["bash", "*"]), st.sampled_from(["*", "git *", "ls"]), LINES.map("; ".join))
def test_no_grant_overrides_a_deny_or_takes_away_what_is_allowed(rules, permission, pattern, line):
    """It only answers what would be asked."""
    permissions, grants = Permissions(rules), (Rule(permission, pattern, "allow"),)
    before = permissions.decide(SHELL, {"line": line}).action
    after = permissions.decide(SHELL, {"line": line}, grants=grants).action
    assert after == before or (before, after) == ("ask", "allow")


# --- what a running tool asks ---


def asked(called, permission, *patterns, rules=(), mode="default", folder=".", grants=()):
    policy = policy_of(Permissions(rules, mode), called)
    decision, _ = policy.decide_inner(permission, patterns, Folders([folder]), grants)
    return decision.action


def test_rules_decide_what_a_running_tool_asks_for():
    assert asked(PLAIN, "net", "a.org") == "ask"
    assert asked(PLAIN, "net", "a.org", rules=[Rule("net", "a.*", "allow")]) == "allow"
    assert asked(PLAIN, "net", "a.org", "b.org", rules=[Rule("net", "a.*", "allow")]) == "ask"
    assert asked(PLAIN, "net", "a.org", rules=[Rule("net", "*", "deny")]) == "deny"
    assert asked(PLAIN, "net", "a.org", rules=[Rule("probe", "*", "deny")]) == "ask"
    assert asked(PLAIN, "net", "a.org", grants=(Rule("net", "*", "allow"),)) == "allow"
    assert asked(PLAIN, "net", "a.org", mode="bypass") == "allow"
    assert asked(PLAIN, "net", "a.org", mode="never_ask") == "deny"


def test_used_permissions_can_be_pickled():
    permissions = Permissions([Rule("probe", "*", "deny")], "plan")
    permissions.decide(PLAIN, {})
    assert pickle.loads(pickle.dumps(permissions)) == permissions


def test_a_wildcard_that_a_tool_asks_for_matches_anything():
    assert asked(PLAIN, "net", "*", rules=[Rule("net", "?", "allow")]) == "ask"
    assert asked(PLAIN, "net", "a.*", rules=[Rule("net", "a.org", "deny")]) == "deny"
    assert asked(PLAIN, "net", "a.*", rules=[Rule("net", "a.*", "allow")]) == "allow"


def test_a_tool_that_asks_for_its_own_permission_asks_in_its_own_kind(tmp_path):
    rules = [Rule("edit", "src/*", "deny")]
    assert asked(WRITE, "edit", f"{tmp_path}/src/a", rules=rules, folder=str(tmp_path)) == "deny"
    assert asked(WRITE, "other", "src/../a", rules=[Rule("other", "src/*", "deny")]) == "deny"


# --- permission values ---


def test_rules_apply_to_permission_values():
    patch = tool("patch", permission_arguments={"paths": "path"}, permission="edit").evolve(
        permission_values=lambda arguments, context: {"paths": arguments["patch"].split()}
    )
    only = Rule("edit", "/srv/*", "allow")
    assert action(patch, {"patch": "/srv/a /srv/b"}, only) == "allow"
    assert action(patch, {"patch": "/srv/a /etc/b"}, only) == "ask"
    assert action(patch, {"patch": "/srv/a /etc/b"}, only, Rule("edit", "/etc/*", "deny")) == "deny"
    assert ask(patch, {"patch": "/srv/a /etc/b"})["patterns"] == ("/srv/a", "/etc/b")
    shown = _reshape_tool(
        patch.with_spec(input_schema={"type": "object", "properties": {"patch": {}}}).evolve(
            handler=Tool.from_schema("patch", None, lambda arguments: "").handler
        ),
        Reshape(rename={"patch": "text"}),
    )
    assert action(shown, {"text": "/etc/b"}, Rule("edit", "/etc/*", "deny")) == "deny"


def test_a_list_from_permission_values_is_one_command():
    git = tool("log", permission_arguments={"argv": "command"}, permission="bash").evolve(
        permission_values=lambda arguments, context: {"argv": ["git", "log", arguments["author"]]}
    )
    assert action(git, {"author": "x; rm -rf /"}, Rule("bash", "git log *", "allow")) == "allow"
    assert action(git, {"author": "x"}, Rule("bash", "git push *", "allow")) == "ask"


def test_failing_permission_values_are_denied_and_never_allowed():
    for failing in (lambda arguments, context: arguments["b"], lambda arguments, context: sys.exit()):
        failed = tool(permission_arguments={"a": "text"}).evolve(permission_values=failing)
        assert action(failed, {"a": "x"}, Rule("probe", "y", "deny")) == "deny"
        assert action(failed, {"a": "x"}, Rule("probe", "*", "ask"), Rule("probe", "x", "allow")) == "ask"


# --- JSON, copies and references ---


@given(FEW_RULES, ANY_MODE)
def test_permissions_survive_json(rules, mode):
    permissions = Permissions(rules, mode)
    assert Permissions.from_json(json.loads(json.dumps(permissions.to_json()))) == permissions


def test_permissions_are_immutable():
    rule = Rule("bash", "*", "ask")
    permissions = Permissions(PermissionRules([rule]))
    assert permissions.with_mode("plan") == Permissions([rule], "plan")
    assert permissions.with_rules(rule).rules.rules == (rule, rule)
    assert permissions.rules.rules == (rule,)


def test_a_policy_does_not_keep_its_tool_alive():
    permissions, called = Permissions(), tool(destructive=True)
    settled(permissions, called)
    reference = weakref.ref(called)
    del called
    gc.collect()
    assert reference() is None


def test_an_unknown_mode_is_refused():
    for make in (lambda: Permissions(mode="yolo"), lambda: Permissions.from_json({"mode": "yolo"})):
        with pytest.raises(ValueError, match=r"mode: .*default, plan, accept_edits"):
            make()
