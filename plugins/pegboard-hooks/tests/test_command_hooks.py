"""Programs that run before and after calls of tools."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select

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


def answering(answer=None, **specific):
    """A script that answers with an object."""
    output = {**(answer or {}), **({"hookSpecificOutput": specific} if specific else {})}
    return f"cat > /dev/null; echo '{json.dumps(output)}'"


def registry_with(*before, after=(), approver=None, permissions=None):
    registry = ToolRegistry(approver=approver, permissions=permissions)
    registry.register(greet, forget)
    register_plugin(registry, CommandHooks(before, after), "hooks")
    return registry


DENY = answering(permissionDecision="deny", permissionDecisionReason="not today")


def test_a_hook_gets_the_call_as_json(tmp_path):
    registry = registry_with(hook(f"cat > {tmp_path}/before"), after=[hook(f"cat > {tmp_path}/after")])
    context = ReadonlyContext(session="s", user="ann", invocation="t", model="m", work_dir=str(tmp_path))
    assert registry.call_sync("greet", {"name": "bob"}, context).text == "hello bob"
    before = json.loads((tmp_path / "before").read_text())
    assert before == {
        "hook_event_name": "PreToolUse",
        "session_id": "s",
        "turn_id": "t",
        "cwd": str(tmp_path),
        "model": "m",
        "user": "ann",
        "agent": None,
        "tool_name": "greet",
        "tool_input": {"name": "bob"},
        "tool_use_id": before["tool_use_id"],
    }
    after = json.loads((tmp_path / "after").read_text())
    assert after["hook_event_name"] == "PostToolUse"
    assert after["tool_response"]["content"] == [{"type": "text", "text": "hello bob"}]


@pytest.mark.parametrize("script", ["cat >/dev/null", "exit 0", "echo fine", "echo '[1]'", answering({})])
def test_a_hook_without_a_decision_lets_the_call_run(script):
    assert registry_with(hook(script)).call_sync("greet", {"name": "bob"}).text == "hello bob"


BLOCK = answering({"decision": "block", "reason": "not today"})


@pytest.mark.parametrize("script", [DENY, BLOCK, "echo not today >&2; exit 2"])
def test_a_hook_denies_with_its_reason(script):
    result = registry_with(hook(script)).call_sync("greet", {"name": "bob"})
    assert (result.kind, result.text) == ("denied", "greet was denied: not today")


def test_a_hook_runs_for_calls_that_match_its_predicate():
    registry = registry_with(hook(DENY, where="tag:greeting"))
    assert registry.call_sync("greet", {"name": "bob"}).kind == "denied"
    registry.permissions = Permissions([Rule("forget", "*", "allow")])
    assert registry.call_sync("forget", {"name": "bob"}).text == "forgot bob"


def test_the_first_hook_that_denies_ends_the_call(tmp_path):
    registry = registry_with(hook(answering({})), hook(DENY), hook(f"touch {tmp_path}/third"))
    assert registry.call_sync("greet", {"name": "bob"}).kind == "denied"
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo oops >&2; exit 1", "exited with 1: oops"),
        ("kill -9 $$", "exited with -9"),
        ("printf '{\"decision\":'", "returned an invalid answer"),
        ("printf '\\377'", "returned an invalid answer"),
        (answering({"decison": "block"}), "did you mean 'decision'"),
        (answering(permissionDecision="perhaps"), "must be one of allow, deny, ask"),
        (answering(hookEventName="PostToolUse"), "this was PreToolUse"),
        ('echo \'{"continue": false, "continue": true}\'', "returned an invalid answer"),
        ("yes", "wrote more than 1,000,000 bytes"),
        (answering(updatedInput={"nam": "x"}), "changed the arguments to invalid ones for greet"),
    ],
)
def test_a_hook_that_fails_denies_unless_it_is_set_to_allow(script, cause, caplog):
    result = registry_with(hook(script)).call_sync("greet", {"name": "bob"})
    assert (result.kind, cause in result.text) == ("callback_failure", False)
    assert cause.lower() in (result.detail or "").lower()
    with caplog.at_level(logging.WARNING, "pegboard"):
        assert registry_with(hook(script, on_failure="allow")).call_sync("greet", {"name": "bob"}).text == "hello bob"
    assert cause.lower() in caplog.text.lower()


def test_a_hook_that_hangs_or_is_missing_fails():
    assert registry_with(hook("sleep 600", timeout=0.2)).call_sync("greet", {"name": "bob"}).kind == "callback_failure"
    missing = HookSettings(command=("/nosuch/program",))
    assert registry_with(missing).call_sync("greet", {"name": "bob"}).kind == "callback_failure"


def test_later_hooks_and_rules_see_changed_arguments(tmp_path):
    louder = hook(answering(updatedInput={"name": "eve", "loud": True}))
    seen = hook(f"cat > {tmp_path}/seen")
    assert registry_with(louder, seen).call_sync("greet", {"name": "bob"}).text == "hello eve!"
    assert json.loads((tmp_path / "seen").read_text())["tool_input"] == {"name": "eve", "loud": True}
    rules = Permissions([Rule("greet", "eve", "deny", field="name")])
    assert registry_with(louder, permissions=rules).call_sync("greet", {"name": "bob"}).kind == "denied"
    assert registry_with(permissions=rules).call_sync("greet", {"name": "bob"}).text == "hello bob"


def test_allow_counts_only_where_the_settings_say_so():
    allow = answering(permissionDecision="allow")
    assert registry_with(hook(allow)).call_sync("forget", {"name": "bob"}).kind == "denied"
    assert registry_with(hook(allow, may_allow=True)).call_sync("forget", {"name": "bob"}).text == "forgot bob"


def test_allow_never_overrides_a_rule_or_another_hook():
    allow = hook(answering(permissionDecision="allow"), may_allow=True)
    denied = Permissions([Rule("forget", "*", "deny")])
    assert registry_with(allow, permissions=denied).call_sync("forget", {"name": "bob"}).kind == "denied"
    assert registry_with(allow, hook(DENY)).call_sync("forget", {"name": "bob"}).kind == "denied"
    assert (
        registry_with(allow, hook(answering(permissionDecision="ask"))).call_sync("forget", {"name": "bob"}).kind
        == "denied"
    )


def test_allow_is_valid_only_for_the_same_arguments():
    allow = hook(answering(permissionDecision="allow"), may_allow=True)
    change = hook(answering(updatedInput={"name": "eve"}))
    assert registry_with(allow, change).call_sync("forget", {"name": "bob"}).kind == "denied"
    assert registry_with(change, allow).call_sync("forget", {"name": "bob"}).text == "forgot eve"
    registry = registry_with(allow)
    registry.add_callback("before_tool", lambda: ChangeArguments({"name": "eve"}))
    assert registry.call_sync("forget", {"name": "bob"}).kind == "denied"


def test_ask_shows_the_user_the_reason_and_the_changes():
    ask = hook(answering(permissionDecision="ask", permissionDecisionReason="odd name", updatedInput={"name": "eve"}))
    with ScriptedApprover([Once(), Reject("no")]) as approver:
        registry = registry_with(ask, approver=approver)
        assert registry.call_sync("greet", {"name": "bob"}).text == "hello eve"
        assert "no" in registry.call_sync("greet", {"name": "bob"}).text
    shown = approver.requests[0].to_text()
    assert "permission: hook" in shown
    assert "odd name" in shown
    assert "eve" in shown
    assert registry_with(ask).call_sync("greet", {"name": "bob"}).kind == "denied"


def test_a_call_that_also_asks_itself_is_one_prompt_with_both_reasons():
    ask = hook(answering(permissionDecision="ask", permissionDecisionReason="odd name"))
    allow = hook(answering(permissionDecision="allow"), may_allow=True)
    with ScriptedApprover([Once()]) as approver:
        assert registry_with(allow, ask, approver=approver).call_sync("forget", {"name": "bob"}).text == "forgot bob"
    (request,) = approver.requests
    assert (request.permission, request.patterns[1:], request.always, request.wider) == ("hook", ("*",), (), ())
    assert "odd name" in request.to_text()
    assert "marked destructive" in request.reason


def test_allow_doesnt_answer_the_question_of_another_callback():
    registry = registry_with(hook(answering(permissionDecision="allow"), may_allow=True))
    registry.add_callback("before_tool", lambda: Ask("other"))
    assert registry.call_sync("forget", {"name": "bob"}).kind == "denied"


async def test_the_notes_on_concurrent_calls_arent_mixed_up():
    both = asyncio.Barrier(2)

    @tool
    async def meet(name: str) -> str:
        """Meets the other call."""
        await both.wait()
        return name

    script = """read -r call; case "$call" in *bob*) who=bob;; *) who=eve;; esac
    echo "{\\"hookSpecificOutput\\": {\\"additionalContext\\": \\"about $who\\"}}" """
    registry = registry_with(hook(script))
    registry.register(meet)
    calls = [ToolCall("meet", {"name": name}, name) for name in ("bob", "eve")]
    outcome = await registry.dispatch(calls, context=ReadonlyContext(session="s"))
    assert [result.text for result in outcome.results] == ["bob\nabout bob", "eve\nabout eve"]


def test_texts_of_hooks_are_appended_to_the_result():
    before = hook(answering(additionalContext="bob is away"))
    after = [hook(answering(additionalContext="noted")), hook("echo wrong tone >&2; exit 2")]
    result = registry_with(before, after=after).call_sync("greet", {"name": "bob"})
    assert result.text.split("\n") == ["hello bob", "bob is away", "noted", "wrong tone"]
    assert not result.is_error


def test_hooks_after_calls_run_only_for_executed_calls(tmp_path):
    registry = registry_with(after=[hook(f"cat >> {tmp_path}/after")])
    assert registry.call_sync("greet", {"nam": "bob"}).kind == "invalid_arguments"
    assert registry.call_sync("nosuch").kind == "unknown_tool"
    assert registry.call_sync("forget", {"name": "bob"}).kind == "denied"
    assert not (tmp_path / "after").exists()


def test_a_failing_hook_after_a_call_leaves_the_result_unless_set_to_deny():
    assert registry_with(after=[hook("exit 1")]).call_sync("greet", {"name": "bob"}).text == "hello bob"
    result = registry_with(after=[hook("exit 1", on_failure="deny")]).call_sync("greet", {"name": "bob"})
    assert (result.kind, "bob" in result.text) == ("callback_failure", False)
    decides = hook(answering(permissionDecision="deny"), on_failure="deny")
    assert "the tool has run" in (registry_with(after=[decides]).call_sync("greet", {"name": "bob"}).detail or "")


@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_hook_may_end_the_turn(place):
    stop = hook(answering({"continue": False, "stopReason": "enough"}))
    registry = registry_with(stop) if place == "before" else registry_with(after=[stop])
    outcome = await registry.dispatch([ToolCall("greet", {"name": "bob"}, "1")])
    assert "enough" in str(outcome.fatal)
    assert outcome.results[0].kind == ("aborted" if place == "before" else None)


@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_hook_that_ends_the_turn_is_quoted_in_full(place):
    stop = hook(
        answering({"continue": False, "stopReason": "enough", "reason": "ask Ann"}, additionalContext="at noon")
    )
    registry = registry_with(stop) if place == "before" else registry_with(after=[stop])
    outcome = await registry.dispatch([ToolCall("greet", {"name": "bob"}, "1")])
    assert str(outcome.fatal).endswith("enough\nask Ann\nat noon")
    alone = hook(answering({"continue": False, "reason": "ask Ann"}))
    outcome = await registry_with(alone).dispatch([ToolCall("greet", {"name": "bob"}, "1")])
    assert outcome.results[0].text.endswith("ask Ann")


def test_a_denial_comes_with_the_additional_context_of_the_hooks():
    first = hook(answering(additionalContext="bob is away"))
    second = hook(answering({"decision": "block", "reason": "no"}, additionalContext="back on Monday"))
    text = registry_with(first, second).call_sync("greet", {"name": "bob"}).text
    assert text == "greet was denied: no\nbob is away\nback on Monday"


def test_texts_of_hooks_are_escaped_and_truncated():
    script = "printf 'a\\033[31mb' >&2; head -c 20000 /dev/zero | tr '\\0' x >&2; exit 2"
    text = registry_with(hook(script)).call_sync("greet", {"name": "bob"}).text
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
        ({"command": ["x"], "cwd": "hooks"}, "isn't an absolute path"),
        ("check", "must be a table"),
    ],
)
def test_invalid_settings_of_a_hook_are_refused(table, wrong):
    with pytest.raises(ValueError, match="before") as raised:
        read_table(HookSettings, table, "before[0]")
    assert wrong.lower() in str(raised.value).lower()


def test_a_hook_is_ended_with_its_call(tmp_path):
    os.mkfifo(tmp_path / "held")
    ended = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)  # readable once no process holds it open
    registry = ToolRegistry(limits=Limits(callback_timeout=0.3, grace=60))
    registry.register(greet)
    hooks = CommandHooks([hook(f"exec 9>{tmp_path}/held; sleep 600", timeout=600.0)])
    register_plugin(registry, hooks, "hooks")
    assert registry.call_sync("greet", {"name": "bob"}).kind == "callback_failure"
    assert select.select([ended], [], [], 60)[0]
    os.close(ended)
