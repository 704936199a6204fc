"""`registry.decide`: what would become of a call, without running it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from pegboard import Ask, ChangeArguments, Deny, Once, Permissions, Reject, Rule, Tool, ToolRegistry, ToolResult, tool
from pegboard.callbacks import read_only


@pytest.fixture
def ran():
    return []


@pytest.fixture
def registry(ran):
    made = ToolRegistry()

    @made.register
    @tool
    def look(path: str) -> str:
        """Looks."""
        ran.append(path)
        return path

    @made.register
    @tool(destructive=True)
    def wipe(path: str) -> str:
        """Wipes."""
        ran.append(path)
        return path

    return made


@pytest.mark.parametrize(
    ("name", "arguments", "action", "reason"),
    [
        ("look", {"path": "a"}, "allow", "nothing asks"),
        ("Look", {"path": "a"}, "allow", "nothing asks"),
        ("wipe", '{"path": "a"}', "ask", "it is marked destructive"),
        ("wipe", {"path": 3}, "deny", "path: must be a string"),
        ("wipe", "no json", "deny", "JSON"),
        ("nosuch", {}, "deny", "No tool is called"),
    ],
)
async def test_a_call_is_allowed_asked_about_or_denied_with_the_reason(  # noqa: PLR0917
    registry, ran, name, arguments, action, reason
):
    """A call that can't run needs no person. Nothing runs, and nobody is asked."""
    registry.approver = lambda request, context: ran.append("asked")
    decision = await registry.decide(name, arguments)
    assert (decision.action, reason in decision.reason, ran) == (action, True, [])


async def test_rules_mode_grants_and_what_was_offered_decide(registry):
    registry.permissions = Permissions([Rule("look", "*", "deny", reason="not today")])
    assert "not today" in (await registry.decide("look", {"path": "a"})).reason
    registry.permissions = Permissions(mode="bypass")
    assert (await registry.decide("wipe", {"path": "a"})).action == "allow"
    registry.permissions = None
    offered = await registry.resolve(where="name:look")
    assert (await registry.decide("wipe", {"path": "a"}, resolved=offered)).action == "deny"


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (None, "allow"),
        (Deny("no"), "deny"),
        (Ask("network"), "ask"),
        (ToolResult("cached"), "allow"),
        (ChangeArguments({"path": 3}), "deny"),
    ],
)
@pytest.mark.parametrize("marked", [True, False])
async def test_only_callbacks_that_change_nothing_are_called(registry, ran, answer, action, marked):
    """Another one may decide otherwise."""

    def callback(arguments):
        ran.append("called")
        return answer

    registry.add_callback("before_tool", read_only(callback) if marked else callback)
    decision = await registry.decide("look", {"path": "a"})
    assert (decision.action, ran) == ((action, ["called"]) if marked else ("ask", []))


@pytest.mark.parametrize(("answer", "action"), [(Once(), "allow"), (Reject("no"), "deny"), (None, "ask")])
@pytest.mark.parametrize("marked", [True, False])
async def test_marked_callbacks_that_approve_calls_answer(registry, answer, action, marked):
    def approve(request):
        return answer

    registry.add_callback("approve_call", read_only(approve) if marked else approve)
    assert (await registry.decide("wipe", {"path": "a"})).action == (action if marked else "ask")


async def test_a_marked_callback_that_fails_denies(registry):
    registry.add_callback("before_tool", read_only(lambda: 1 / 0))
    assert (await registry.decide("look", {"path": "a"})).action == "deny"


ACTIONS = st.sampled_from(["allow", "ask", "deny"])
RULES = st.lists(st.builds(Rule, st.sampled_from(["*", "t", "x"]), st.just("*"), ACTIONS))
MODE = st.sampled_from(["default", "plan", "accept_edits", "bypass", "never_ask"])


@given(RULES, MODE, st.booleans(), st.booleans())
def test_a_tool_that_may_not_ask_is_never_asked_about(rules, mode, destructive, edits):
    registry = ToolRegistry(permissions=Permissions(rules, mode))
    (made,) = registry.register(Tool.from_function(lambda: "", name="t", destructive=destructive, edit=edits)).tools
    assert registry.may_ask(made) or asyncio.run(registry.decide("t")).action != "ask"


def test_callbacks_may_ask_about_every_tool(registry):
    look = next(each for each in registry.tools() if each.name == "look")
    assert not registry.may_ask(look)
    registry.add_callback("before_tool", lambda: None)
    assert registry.may_ask(look)
