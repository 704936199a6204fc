"""Rules on calls: names, scopes, state, and limits."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from pegboard import Deny, ReadonlyContext, StaticToolset, ToolCall, ToolRegistry, ToolResult, register_plugin, tool
from pegboard_guard import CallLimits, Limit
from pegboard_guard.rules import MOST, Call, End, Names, Recent, course_of, join_words, scope_of, streak_of


def test_a_name_matches_one_of_the_patterns():
    tools = Names(["web_*", "mai?"])
    names = ("web_read", "web_", "mail", "mails", "web")
    assert [name in tools for name in names] == [True, True, True, False, False]


def test_words_are_joined_to_a_list():
    assert (join_words("a"), join_words("ab"), join_words("abc", "and")) == ("a", "a or b", "a, b and c")
    assert str(Names(["a", "b"])) == "a or b"


def test_a_value_is_created_once_and_not_by_looking_it_up():
    recent = Recent(list)
    assert (recent.get("a"), len(recent)) == (None, 0)
    recent.of("a").append(1)
    assert recent.of("a", [2]) == recent.get("a") == [1]
    assert recent.of("b", [2]) == recent.get("b") == [2]


def test_the_least_recently_used_key_is_dropped_first():
    recent = Recent(list, most=2)
    for key in ("first", "second", "first", "third"):
        recent.of(key).append(key)
    assert recent.get("second") is None
    assert recent.get("first") == ["first", "first"]
    assert len(recent) == 2


EMPTY_CONTEXT = ReadonlyContext()


@pytest.mark.parametrize("per", ["session", "user", "registry"])
def test_calls_without_a_context_count_together(per):
    assert scope_of(EMPTY_CONTEXT, per) == scope_of(ReadonlyContext(agent="x"), per) is not None


def test_a_turn_is_an_invocation_or_else_a_message_of_the_models():
    assert scope_of(EMPTY_CONTEXT, "turn") is None
    turn = scope_of(ReadonlyContext(session="s", invocation="i", message="m1"), "turn")
    assert turn == scope_of(ReadonlyContext(session="s", invocation="i", message="m2"), "turn")
    assert turn != scope_of(ReadonlyContext(session="other", invocation="i"), "turn")
    assert (
        scope_of(ReadonlyContext(message="m1"), "turn") != scope_of(ReadonlyContext(message="m2"), "turn") is not None
    )


@pytest.mark.parametrize("per", ["turn", "session", "user"])
def test_the_calls_of_an_agent_count_in_the_turn_and_session_of_its_caller(per):
    top = ReadonlyContext(user="u", session="s", invocation="i", message="m")
    agents = ReadonlyContext(user="u", session="s/helper", invocation="j", root=top)
    assert scope_of(agents, per) == scope_of(top, per)
    assert scope_of(agents, per) != scope_of(evolve(agents, root=evolve(top, user="v")), per)


def test_an_agent_has_a_turn_of_its_own_if_its_caller_has_none():
    agents = ReadonlyContext(session="s/helper", invocation="j", root=ReadonlyContext(session="s", message="m"))
    assert scope_of(agents, "turn") == course_of(agents, "turn") == ("turn", None, "s", "j")


def test_a_message_does_not_identify_a_whole_turn():
    assert course_of(ReadonlyContext(message="m"), "turn") is None
    assert course_of(ReadonlyContext(invocation="i"), "turn") is not None
    assert course_of(EMPTY_CONTEXT, "session") is not None


def test_repeated_calls_are_counted_by_session_or_else_by_turn():
    assert streak_of(EMPTY_CONTEXT) is None
    assert streak_of(ReadonlyContext(session="s", invocation="i")) == streak_of(ReadonlyContext(session="s"))
    assert streak_of(ReadonlyContext(invocation="i")) is not None


@tool
async def web_search(about: str = "") -> str:
    """Search."""
    return about


@tool
async def web_read() -> str:
    """Read."""
    return "read"


@tool
async def note() -> str:
    """Note."""
    return "noted"


@tool
async def fail() -> None:
    """Fail."""
    raise OSError


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def make_registry(*limits, clock=None):
    registry = ToolRegistry()
    registry.register(web_search, web_read, note, fail)
    registry.register(StaticToolset("again", [web_search, note]).prefixed("my").renamed({"my_note": "jot"}))
    guard = CallLimits(*limits, clock=clock or Clock())
    assert register_plugin(registry, guard, "limits").status == "loaded"
    return registry


def kinds(registry, names, context=None):
    return [registry.call_sync(name, {}, context).kind for name in names]


def at(words):
    """A context: `session=a,user=b`."""
    return ReadonlyContext(**dict(word.split("=") for word in words.split(",")))


def play(limits, script):
    """Makes the calls of a script, such as `note +10 note! session=b: note`, and returns the text of the last one.

    After a name `!` is a call that is denied, `~` one that fails; `+10` lets 10 seconds pass, and `session=b:` is the
    context of the following calls.
    """
    clock, context, result = Clock(), None, None
    registry = make_registry(*limits, clock=clock)
    for step in script.split():
        if step.endswith(":"):
            context = at(step[:-1])
        elif step.startswith("+"):
            clock.now += float(step)
        else:
            result = registry.call_sync(step.rstrip("!~"), {}, context)
            assert result.kind == {"!": "denied", "~": "tool_failure"}.get(step[-1]), step
    return result.text


@pytest.mark.parametrize(
    ("limits", "script"),
    [
        ([Limit(2, "web_*")], "web_search web_read note web_search! web_read! note"),
        ([Limit(1, "web_*", each=True)], "web_search web_read web_search! web_read!"),
        # What is counted apart, and together.
        ([Limit(1)], "session=a: note note! session=b: note note!"),
        ([Limit(1, per="user")], "user=a: note note! user=b: note note!"),
        ([Limit(1, per="turn")], "invocation=a: note note! invocation=b: note note!"),
        ([Limit(1, per="turn")], "message=a: note note! message=b: note"),
        ([Limit(2, per="registry")], "session=a,user=a: note session=b,user=b: note session=c,user=c: note!"),
        ([Limit(1)], "note note!"),
        ([Limit(1)], "user=a: note user=b: note user=a: note!"),
        ([Limit(1)], "user=a,session=s,message=m: note user=b,session=s,message=m: note user=a,session=s: note!"),
        # All have to be kept, and a refused call takes from none; one that failed has used it.
        ([Limit(3), Limit(1, "web_*")], "web_search web_search! web_search! note note note!"),
        ([Limit(1)], "fail~ note!"),
        # No other name gets round it.
        ([Limit(1, "web_*")], "my_web_search web_search! web_read! my_web_search!"),
        ([Limit(1, "note", each=True)], "note jot! note!"),
        ([Limit(1, "my_*")], "jot note my_web_search!"),
        # A time slides on.
        ([Limit(2, seconds=10)], "note +4 note +5.9 note! +0.1 note +3.9 note! +0.1 note"),
    ],
)
def test_so_many_calls_and_no_more(limits, script):
    play(limits, script)


def test_without_a_turn_a_limit_lets_all_through_and_warns_once(caplog):
    play([Limit(1, "no*", per="turn")], "note note note note")
    (record,) = (each for each in caplog.records if each.name == "pegboard.guard")
    assert record.getMessage().startswith("the limit of 1 calls of no* counts by turns, and a call has none")


def test_outside_of_a_turn_the_calls_of_a_dispatch_are_one_and_those_of_a_session_go_on():
    """Calls without a session share one, which ends with the registry."""
    registry = make_registry(Limit(1, "note", per="turn"), Limit(2, "web_*"))

    def dispatch(*names):
        calls = [ToolCall(name, {}, f"{number}") for number, name in enumerate(names)]
        return [result.kind for result in asyncio.run(registry.dispatch(calls)).results]

    assert dispatch("note", "note", "web_read") == [None, "denied", None]
    assert dispatch("note", "web_read", "web_search") == [None, None, "denied"]
    assert dispatch("web_search") == ["denied"]


# Time -----------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 5), max_size=40), st.integers(1, 5), st.floats(0.5, 10))
def test_no_time_window_has_more_calls_than_the_limit(pauses, calls, seconds):
    """And no call is refused before that."""
    limit, state = Limit(calls, seconds=seconds), Limit.State()
    now, let_through = 0.0, []
    for pause in pauses:
        now += pause
        call = Call("note", ReadonlyContext(), now)
        within = [when for when in let_through if now - when < seconds]
        refused = limit.refusal(call, state) is not None
        assert refused == (len(within) >= calls)
        if not refused:
            limit.begin(call, state)
            let_through.append(now)


# What the model reads -------------------------------------------------------------------------------------------------


TURN = "session=s,invocation=i,user=u: web_search web_search!"


@pytest.mark.parametrize(
    ("limit", "script", "allowed", "again"),
    [
        (
            Limit(1, "web_*", per="turn"),
            TURN,
            "1 call of web_* in one turn",
            "Call it again in the next turn, after the user's next message; until then, continue without it",
        ),
        (
            Limit(1, ["web_search", "web_read"]),
            TURN,
            "1 call of web_search or web_read in one session",
            "Don't call it again in this session; continue without it",
        ),
        (
            Limit(1, "web_*", per="user", each=True),
            TURN,
            "1 call of web_search for one user",
            "Don't call it again for this user; continue without it",
        ),
        (Limit(1, per="registry"), TURN, "1 call", "Don't call it again; continue without it"),
        (
            Limit(2, seconds=60),
            "note web_search +59.2 web_search!",
            "2 calls in one session within 60 s",
            "Call it again in 1 s; until then, continue without it",
        ),
    ],
)
def test_the_refusal_states_when_the_call_may_be_made_again(limit, script, allowed, again):
    text = f"web_search was denied: the limit of {allowed} is used up. {again}."
    assert play([limit], script) == text


# Calls that didn't run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [None, 60])
@pytest.mark.parametrize(
    "answer", [Deny("no"), ToolResult.error("rejected", "no"), ToolResult.error("confirmation_required", "wait")]
)
def test_a_call_that_did_not_run_is_not_counted(seconds, answer):
    registry = make_registry(Limit(1, seconds=seconds))
    with registry.add_callback("before_tool", lambda: answer):
        assert registry.call_sync("note").is_error
    assert kinds(registry, ["note", "note"]) == [None, "denied"]


def test_a_call_that_ends_after_its_time_window_changes_no_later_count():
    limit, state, call = Limit(1, seconds=1), Limit.State(), Call("note", ReadonlyContext())
    late = limit.begin(call, state)
    assert limit.refusal(evolve(call, now=5.0), state) is None
    limit.begin(evolve(call, now=5.0), state)
    limit.end(call, state, late, End("denied", ran=False))
    assert limit.refusal(evolve(call, now=5.5), state) is not None


async def test_a_call_that_ends_after_its_session_was_dropped_changes_no_later_count():
    registry, begun, goes_on = make_registry(Limit(1)), asyncio.Event(), asyncio.Event()

    async def deny(context):
        if context.session == "late":
            begun.set()
            await goes_on.wait()
            return Deny("no")
        return None

    with registry.add_callback("before_tool", deny):
        late = asyncio.ensure_future(registry.call("note", {}, at("session=late")))
        await begun.wait()
        for session in range(MOST):
            await registry.call("note", {}, at(f"session={session}"))
    assert (await registry.call("note", {}, at("session=late"))).kind is None
    goes_on.set()
    assert (await late).kind == "denied"
    assert (await registry.call("note", {}, at("session=late"))).kind == "denied"


@pytest.mark.parametrize("seconds", [None, 60])
def test_a_call_that_a_failed_callback_stopped_is_not_counted(seconds):
    """But one whose result such a callback replaced is: its tool ran."""
    registry = make_registry(Limit(1, seconds=seconds))

    def fail():
        raise OSError

    async def fail_late(call_next):
        await call_next()
        raise OSError

    with registry.add_callback("before_tool", fail):
        assert registry.call_sync("note").kind == "callback_failure"
    with registry.add_callback("wrap_tool", fail_late):
        assert registry.call_sync("note").kind == "callback_failure"
    assert kinds(registry, ["note"]) == ["denied"]


# Bounds ---------------------------------------------------------------------------------------------------------------


def test_memory_is_bounded():
    limits = (Limit(1), Limit(100_000, seconds=60), Limit(2000, seconds=60))
    assert [limit.most for limit in limits] == [1000, 10, 500]
    registry = make_registry(Limit(1))
    contexts = [at(f"session={session}") for session in range(MOST + 1)]
    assert {registry.call_sync("note", {}, context).kind for context in contexts} == {None}
    assert [registry.call_sync("note", {}, context).kind for context in (contexts[-1], contexts[0])] == ["denied", None]


def test_calls_at_once_are_counted():
    registry = make_registry(Limit(3))

    async def main():
        return await asyncio.gather(*(registry.call("note") for _ in range(10)))

    assert [result.kind for result in asyncio.run(main())].count(None) == 3


def test_threads_count_together():
    registry = make_registry(Limit(50))
    with ThreadPoolExecutor(4) as threads:
        went = threads.map(lambda _: kinds(registry, ["note"] * 20), range(4))
        assert sum(each.count(None) for each in went) == 50


def test_two_guards_of_one_registry_count_separately():
    registry = make_registry(Limit(2))
    register_plugin(registry, CallLimits(Limit(1, "web_*")), "more")
    assert kinds(registry, ["web_read", "web_read", "note", "note"]) == [None, "denied", None, "denied"]


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"calls": 0}, ValueError, "calls must be from 1 to 100000, got 0"),
        ({"calls": 1.5}, TypeError, "calls must be a whole number, got 1.5"),
        ({"per": "day"}, ValueError, "per must be one of 'turn', 'session', 'user', 'registry', got a string"),
        ({"seconds": 0}, ValueError, "seconds must be a number of seconds from 0.001 on, got 0"),
        ({"seconds": float("nan")}, ValueError, "seconds must be a number"),
        ({"seconds": "60"}, TypeError, "seconds must be a number of seconds, got a string"),
        ({"tools": []}, ValueError, "tools must name something"),
        ({"tools": [1]}, TypeError, "tools must be a string or a list of strings"),
        ({"each": "yes"}, TypeError, "each must be true or false, got a string"),
    ],
)
def test_wrong_settings_are_refused(settings, error, text):
    with pytest.raises(error, match=text):
        Limit(**{"calls": 1, **settings})
