from __future__ import annotations

import asyncio
import threading

import pytest

from pegboard.dispatch.approval.grants import MemoryGrants
from pegboard.dispatch.approve import MOST_AT_ONCE, denial, permit
from pegboard.dispatch.permissions.permissions import Decision, Permissions
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.threads import Threads
from pegboard.dispatch.work import DEFAULT_LIMITS, CallError, Limits, Surroundings, Work
from pegboard.tools.call import ToolCall
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool

SHELL = Tool(
    ToolSpec("shell", input_schema={"type": "object"}, permission="bash", permission_arguments={"line": "command"})
)


@pytest.fixture
def work():
    threads = Threads()

    def work(
        line, *rules, tool=SHELL, mode="default", grants=None, permissions=True, context=None, limits=DEFAULT_LIMITS
    ):
        around = Surroundings(lambda name: tool, threads, limits=limits)
        around = around.evolve(permissions=Permissions(rules, mode) if permissions else None, grants=grants)
        made = Work(ToolCall(tool.name, {"line": line}, "1"), ToolContext(context or ReadonlyContext()), around)
        made.tool, made.arguments = tool, {"line": line}
        return made

    yield work
    threads.close()


def test_what_asks_is_left_to_be_asked(work):
    asks = work("git push")
    assert permit(asks) is None
    assert (asks.asks.permission, asks.asks.patterns, asks.asks.always) == ("bash", ("git push",), ("git push *",))


def test_what_is_allowed_asks_nothing(work):
    for allowed in (work("ls", Rule("bash", "*", "allow")), work("ls", mode="bypass"), work("ls", permissions=False)):
        assert permit(allowed) is None
        assert allowed.asks is None


def test_a_tool_that_nothing_is_said_of_is_not_looked_at(work):
    plain = work("ls", Rule("bash", "*", "deny"), tool=Tool(ToolSpec("plain")))
    assert permit(plain) is None
    assert plain.asks is None


@pytest.mark.parametrize("forbid", [False, True])
def test_what_is_denied_says_so_and_names_no_rule_to_the_model(work, forbid):
    with pytest.raises(CallError) as caught:
        permit(work("rm /srv/vault", Rule("b*", "rm /srv/*", "deny", forbid=forbid)))
    error = caught.value
    assert error.kind == "denied"
    assert error.text == (
        "shell was not run: the permission 'bash' isn't given for this call. "
        "Go on without it, or tell the user what you need."
    )
    assert "rm /srv/*" in error.detail


def test_a_mode_that_denies_says_which(work):
    with pytest.raises(CallError, match="shell was not run: in plan mode only tools run that change nothing"):
        permit(work("ls", mode="plan"))
    with pytest.raises(CallError, match="it needs the permission 'bash', and nobody is asked"):
        permit(work("ls", mode="never_ask"))
    with pytest.raises(CallError, match="it needs the permission 'bash', and nobody is asked"):
        permit(work("ls", Rule("bash", "*", "ask"), mode="never_ask"))


def test_a_denial_may_name_another_permission_than_the_tools_own():
    plain = Tool(ToolSpec("plain"))
    decision = Decision("deny", Rule("net", "*", "deny"))
    assert "the permission 'net' isn't given" in denial(Permissions(), plain, decision, "net").text
    assert "the permission 'plain' isn't given" in denial(Permissions(), plain, decision).text


def test_what_was_granted_in_this_session_runs(work):
    grants = MemoryGrants()
    grants.add("one", "bash", ["git push *"])
    for session, asks in (("one", False), ("two", True)):
        made = work("git push x", grants=grants, context=ReadonlyContext(session=session))
        permit(made)
        assert (made.asks is not None) is asks


def test_relative_paths_start_in_the_calls_folder(work, tmp_path):
    tool = Tool(ToolSpec("read", permission="read", permission_arguments={"line": "path"}))
    made = work("a", Rule("read", f"{tmp_path}/*", "allow"), tool=tool, context=ReadonlyContext(work_dir=str(tmp_path)))
    permit(made)
    assert made.asks is None


@pytest.mark.parametrize("line", ["ls " + "a" * MOST_AT_ONCE, ["ls", "a" * MOST_AT_ONCE], ["ls", *"a" * MOST_AT_ONCE]])
def test_much_is_looked_at_in_a_thread(work, line):
    async def ask():
        made = work(line, Rule("bash", "ls *", "allow"))
        made.arguments = {"line": line, "other": 5}
        pending = permit(made)
        assert pending is not None
        await pending
        return made.asks

    assert asyncio.run(ask()) is None


def test_what_is_denied_in_a_thread_is_denied(work):
    async def ask():
        await permit(work("rm " + "a" * MOST_AT_ONCE, Rule("bash", "rm *", "deny")))

    with pytest.raises(CallError, match="isn't given"):
        asyncio.run(ask())


@pytest.mark.parametrize("answer", [True, False])
def test_a_tools_own_predicate_is_asked_off_the_loop(work, answer):
    asked = []

    def confirms(arguments):
        asked.append(threading.current_thread() is threading.main_thread())
        return answer

    async def ask():
        made = work("ls", tool=Tool(ToolSpec("probe"), confirms=confirms))
        await permit(made)
        return made.asks is not None

    assert asyncio.run(ask()) is answer
    assert asked == [False]


def test_a_predicate_that_never_answers_costs_its_own_call(work):
    never = threading.Event()

    async def ask():
        made = work(
            "ls", tool=Tool(ToolSpec("probe"), confirms=lambda _: never.wait()), limits=Limits(callback_timeout=0.05)
        )
        await permit(made)

    with pytest.raises(CallError, match="probe was not run: it didn't say in time"):
        asyncio.run(ask())
    never.set()
