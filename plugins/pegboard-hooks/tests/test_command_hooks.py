"""Programs are asked before tools run, and told after."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from pegboard import (
    Ask,
    ChangeArguments,
    Limits,
    Once,
    Permissions,
    ReadonlyContext,
    Reject,
    Rule,
    ToolCall,
    ToolRegistry,
    register_plugin,
    tool,
)
from pegboard.schema.converter import read_table
from pegboard.testing import ScriptedApprover
from pegboard_hooks import CommandHooks, HookSettings


@tool(tags=["greeting"])
def greet(name: str, loud: bool = False) -> str:
    """Greets."""
    return f"hello {name}{'!' if loud else ''}"


@tool(destructive=True)
def forget(name: str) -> str:
    """Forgets."""
    return f"forgot {name}"


def hook(script, **settings):
    return read_table(HookSettings, {"command": ["sh", "-c", script], "timeout": 30.0, **settings}, "before[0]")


def saying(answer=None, **specific):
    """A script that answers with an object."""
    said = {**(answer or {}), **({"hookSpecificOutput": specific} if specific else {})}
    return f"cat > /dev/null; echo '{json.dumps(said)}'"


def board(*before, after=(), approver=None, permissions=None):
    registry = ToolRegistry(approver=approver, permissions=permissions)
    registry.register(greet, forget)
    register_plugin(registry, CommandHooks(before, after), "hooks")
    return registry


DENY = saying(permissionDecision="deny", permissionDecisionReason="not today")


def test_a_hook_is_told_the_call_as_json(tmp_path):
    registry = board(hook(f"cat > {tmp_path}/told"), after=[hook(f"cat > {tmp_path}/after")])
    context = ReadonlyContext(session="s", user="ann", invocation="t", model="m", work_dir=str(tmp_path))
    assert registry.call_sync("greet", {"name": "bob"}, context).text == "hello bob"
    told = json.loads((tmp_path / "told").read_text())
    assert told == {
        "hook_event_name": "PreToolUse",
        "session_id": "s",
        "turn_id": "t",
        "cwd": str(tmp_path),
        "model": "m",
        "user": "ann",
        "agent": None,
        "tool_name": "greet",
        "tool_input": {"name": "bob"},
        "tool_use_id": told["tool_use_id"],
    }
    after = json.loads((tmp_path / "after").read_text())
    assert after["hook_event_name"] == "PostToolUse"
    assert after["tool_response"]["content"] == [{"type": "text", "text": "hello bob"}]


@pytest.mark.parametrize("script", ["cat >/dev/null", "exit 0", "echo fine", "echo '[1]'", saying({})])
def test_a_hook_that_says_nothing_lets_the_call_go_on(script):
    assert board(hook(script)).call_sync("greet", {"name": "bob"}).text == "hello bob"


BLOCK = saying({"decision": "block", "reason": "not today"})


@pytest.mark.parametrize("script", [DENY, BLOCK, "echo not today >&2; exit 2"])
def test_a_hook_denies_with_its_reason(script):
    result = board(hook(script)).call_sync("greet", {"name": "bob"})
    assert (result.kind, result.text) == ("denied", "greet was denied: not today")


def test_a_hook_is_asked_about_the_calls_that_its_predicate_takes():
    registry = board(hook(DENY, where="tag:greeting"))
    assert registry.call_sync("greet", {"name": "bob"}).kind == "denied"
    registry.permissions = Permissions([Rule("forget", "*", "allow")])
    assert registry.call_sync("forget", {"name": "bob"}).text == "forgot bob"


def test_the_first_that_denies_ends_it(tmp_path):
    registry = board(hook(saying({})), hook(DENY), hook(f"touch {tmp_path}/asked"))
    assert registry.call_sync("greet", {"name": "bob"}).kind == "denied"
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo oops >&2; exit 1", "exited with 1: oops"),
        ("kill -9 $$", "exited with -9"),
        ("printf '{\"decision\":'", "answered what can't be read"),
        ("printf '\\377'", "answered what can't be read"),
        (saying({"decison": "block"}), "did you mean 'decision'"),
        (saying(permissionDecision="perhaps"), "must be one of allow, deny, ask"),
        (saying(hookEventName="PostToolUse"), "this was PreToolUse"),
        ('echo \'{"continue": false, "continue": true}\'', "answered what can't be read"),
        ("yes", "wrote more than 1,000,000 bytes"),
        (saying(updatedInput={"nam": "x"}), "changed the arguments to what greet doesn't take"),
    ],
)
def test_a_hook_that_fails_denies_unless_it_is_set_to_allow(script, cause, caplog):
    result = board(hook(script)).call_sync("greet", {"name": "bob"})
    assert (result.kind, cause in result.text) == ("callback_failure", False)
    assert cause.lower() in (result.detail or "").lower()
    with caplog.at_level(logging.WARNING, "pegboard"):
        assert board(hook(script, on_failure="allow")).call_sync("greet", {"name": "bob"}).text == "hello bob"
    assert cause.lower() in caplog.text.lower()


def test_a_hook_that_hangs_or_isnt_there_fails():
    assert board(hook("sleep 600", timeout=0.2)).call_sync("greet", {"name": "bob"}).kind == "callback_failure"
    missing = HookSettings(command=("/nosuch/program",))
    assert board(missing).call_sync("greet", {"name": "bob"}).kind == "callback_failure"


def test_changed_arguments_are_seen_by_later_hooks_and_judged_by_rules(tmp_path):
    louder = hook(saying(updatedInput={"name": "eve", "loud": True}))
    seen = hook(f"cat > {tmp_path}/seen")
    assert board(louder, seen).call_sync("greet", {"name": "bob"}).text == "hello eve!"
    assert json.loads((tmp_path / "seen").read_text())["tool_input"] == {"name": "eve", "loud": True}
    rules = Permissions([Rule("greet", "eve", "deny", field="name")])
    assert board(louder, permissions=rules).call_sync("greet", {"name": "bob"}).kind == "denied"
    assert board(permissions=rules).call_sync("greet", {"name": "bob"}).text == "hello bob"


def test_allow_counts_only_where_the_settings_say_so():
    allow = saying(permissionDecision="allow")
    assert board(hook(allow)).call_sync("forget", {"name": "bob"}).kind == "denied"
    assert board(hook(allow, may_allow=True)).call_sync("forget", {"name": "bob"}).text == "forgot bob"


def test_allow_never_overrides_a_rule_or_another_hook():
    allow = hook(saying(permissionDecision="allow"), may_allow=True)
    denied = Permissions([Rule("forget", "*", "deny")])
    assert board(allow, permissions=denied).call_sync("forget", {"name": "bob"}).kind == "denied"
    assert board(allow, hook(DENY)).call_sync("forget", {"name": "bob"}).kind == "denied"
    assert board(allow, hook(saying(permissionDecision="ask"))).call_sync("forget", {"name": "bob"}).kind == "denied"


def test_allow_is_good_for_the_arguments_that_were_judged():
    allow = hook(saying(permissionDecision="allow"), may_allow=True)
    change = hook(saying(updatedInput={"name": "eve"}))
    assert board(allow, change).call_sync("forget", {"name": "bob"}).kind == "denied"
    assert board(change, allow).call_sync("forget", {"name": "bob"}).text == "forgot eve"
    registry = board(allow)
    registry.add_callback("before_tool", lambda: ChangeArguments({"name": "eve"}))
    assert registry.call_sync("forget", {"name": "bob"}).kind == "denied"


def test_ask_asks_a_person_who_sees_the_reason_and_what_was_changed():
    ask = hook(saying(permissionDecision="ask", permissionDecisionReason="odd name", updatedInput={"name": "eve"}))
    with ScriptedApprover([Once(), Reject("no")]) as approver:
        registry = board(ask, approver=approver)
        assert registry.call_sync("greet", {"name": "bob"}).text == "hello eve"
        assert "no" in registry.call_sync("greet", {"name": "bob"}).text
    shown = approver.requests[0].to_text()
    assert "permission: hook" in shown
    assert "odd name" in shown
    assert "eve" in shown
    assert board(ask).call_sync("greet", {"name": "bob"}).kind == "denied"


def test_a_call_that_asks_anyway_is_asked_about_once_with_both_reasons():
    ask = hook(saying(permissionDecision="ask", permissionDecisionReason="odd name"))
    allow = hook(saying(permissionDecision="allow"), may_allow=True)
    with ScriptedApprover([Once()]) as approver:
        assert board(allow, ask, approver=approver).call_sync("forget", {"name": "bob"}).text == "forgot bob"
    (request,) = approver.requests
    assert (request.permission, request.patterns[1:], request.always, request.wider) == ("hook", ("*",), (), ())
    assert "odd name" in request.to_text()
    assert "marked destructive" in request.reason


def test_allow_answers_nothing_that_another_callback_asks():
    registry = board(hook(saying(permissionDecision="allow"), may_allow=True))
    registry.add_callback("before_tool", lambda: Ask("other"))
    assert registry.call_sync("forget", {"name": "bob"}).kind == "denied"


async def test_what_is_said_about_one_call_is_no_other_calls():
    both = asyncio.Barrier(2)

    @tool
    async def meet(name: str) -> str:
        """Meets the other call."""
        await both.wait()
        return name

    script = """read -r call; case "$call" in *bob*) who=bob;; *) who=eve;; esac
    echo "{\\"hookSpecificOutput\\": {\\"additionalContext\\": \\"about $who\\"}}" """
    registry = board(hook(script))
    registry.register(meet)
    calls = [ToolCall("meet", {"name": name}, name) for name in ("bob", "eve")]
    outcome = await registry.dispatch(calls, context=ReadonlyContext(session="s"))
    assert [result.text for result in outcome.results] == ["bob\nabout bob", "eve\nabout eve"]


def test_what_a_hook_adds_stands_behind_the_result():
    before = hook(saying(additionalContext="bob is away"))
    after = [hook(saying(additionalContext="noted")), hook("echo wrong tone >&2; exit 2")]
    result = board(before, after=after).call_sync("greet", {"name": "bob"})
    assert result.text.split("\n") == ["hello bob", "bob is away", "noted", "wrong tone"]
    assert not result.is_error


def test_a_hook_after_is_told_of_calls_that_have_run_only(tmp_path):
    registry = board(after=[hook(f"cat >> {tmp_path}/told")])
    assert registry.call_sync("greet", {"nam": "bob"}).kind == "invalid_arguments"
    assert registry.call_sync("nosuch").kind == "unknown_tool"
    assert registry.call_sync("forget", {"name": "bob"}).kind == "denied"
    assert not (tmp_path / "told").exists()


def test_a_hook_after_that_fails_leaves_the_result_unless_it_is_set_to_deny():
    assert board(after=[hook("exit 1")]).call_sync("greet", {"name": "bob"}).text == "hello bob"
    result = board(after=[hook("exit 1", on_failure="deny")]).call_sync("greet", {"name": "bob"})
    assert (result.kind, "bob" in result.text) == ("callback_failure", False)
    decides = hook(saying(permissionDecision="deny"), on_failure="deny")
    assert "the tool has run" in (board(after=[decides]).call_sync("greet", {"name": "bob"}).detail or "")


@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_hook_may_end_the_turn(place):
    stop = hook(saying({"continue": False, "stopReason": "enough"}))
    registry = board(stop) if place == "before" else board(after=[stop])
    outcome = await registry.dispatch([ToolCall("greet", {"name": "bob"}, "1")])
    assert "enough" in str(outcome.fatal)
    assert outcome.results[0].kind == ("aborted" if place == "before" else None)


def test_what_a_hook_says_is_shown_to_the_model_visibly_and_cut():
    script = "printf 'a\\033[31mb' >&2; head -c 20000 /dev/zero | tr '\\0' x >&2; exit 2"
    text = board(hook(script)).call_sync("greet", {"name": "bob"}).text
    assert "\x1b" not in text
    assert text.endswith("[... cut]")
    assert len(text) < 11_000


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ({}, "has to name a program"),
        ({"command": "check"}, "must be an array"),
        ({"command": ["./check"]}, "relative path"),
        ({"command": ["x"], "timeout": 0}, "timeout"),
        ({"command": ["x"], "where": "tag:"}, "where"),
        ({"command": ["x"], "on_failur": "allow"}, "did you mean 'on_failure'"),
        ({"command": ["x"], "on_failure": "open"}, "must be one of deny, allow"),
        ({"command": ["x"], "cwd": "hooks"}, "isn't absolute"),
        ("check", "must be a table"),
    ],
)
def test_what_is_wrong_with_a_hooks_settings_is_named(table, wrong):
    with pytest.raises(ValueError, match="before") as raised:
        read_table(HookSettings, table, "before[0]")
    assert wrong.lower() in str(raised.value).lower()


def test_a_hook_whose_call_ends_earlier_is_ended(lifeline):
    registry = ToolRegistry(limits=Limits(callback_timeout=0.3))
    registry.register(greet)
    hooks = CommandHooks([hook(f"{lifeline.held} sleep 600", timeout=600.0)])
    register_plugin(registry, hooks, "hooks")
    assert registry.call_sync("greet", {"name": "bob"}).kind == "callback_failure"
    lifeline.wait()
