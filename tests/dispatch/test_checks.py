"""The hook `check_tools`, which leaves tools out of a resolution."""

from __future__ import annotations

import pytest

from pegboard import (
    Config,
    Once,
    Permissions,
    PluginRecord,
    Problem,
    Reject,
    Rule,
    ToolRegistry,
    hookimpl,
    load,
    load_config,
    register_plugin,
    tool,
    tool_of,
)
from pegboard.callbacks import when
from pegboard.errors import ConfigError


@tool
def a() -> str:
    "a"
    return "a"


@tool
def b() -> str:
    "b"
    return "b"


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.register(a, b)
    return made


async def test_a_callback_leaves_tools_out_and_says_why(registry):
    registry.add_callback("check_tools", lambda resolved: resolved.without("lock", {"a": "it has changed"}))
    resolved = await registry.resolve()
    assert resolved.names == ("b",)
    assert "- lock: it has changed" in str(resolved.explain("a"))
    assert (await registry.call("a")).kind == "not_offered"
    assert (await registry.call("b")).text == "b"


@pytest.mark.parametrize("permissions", [None, Permissions(), Permissions([Rule("a", "*", "allow")])])
async def test_a_callback_has_each_call_of_a_tool_ask(registry, permissions):
    asked = []

    def check(resolved):
        return resolved.evolve(tools=[tool.evolve(asks={"lock": f"{tool.name} is new"}) for tool in resolved])

    def approver(request, _context):
        asked.append((request.permission, request.patterns))
        return Once()

    handle = registry.add_callback("check_tools", check)
    registry.permissions, registry.approver = permissions, approver
    resolved = await registry.resolve()
    assert registry.may_ask(resolved.tools[0])
    for _ in range(2):
        assert (await registry.call("a", resolved=resolved)).text == "a"
    assert asked == [("lock", ("a is new",))] * 2
    registry.approver = lambda *_: Reject()
    assert (await registry.call("a")).kind == "rejected"
    registry.permissions = Permissions([Rule("lock", "a is new", "deny")])
    assert (await registry.decide("a")).action == "deny"
    handle.dispose()
    assert (await registry.decide("a")).action == "allow"


async def test_each_gets_the_answer_of_the_one_before_with_the_configuration(registry):
    seen, config = [], Config(where="name:b")
    registry.contributions.config = config

    async def first(resolved):
        return resolved.without("one", {"a": "no"}).evolve(problems=(Problem("odd"),))

    registry.add_callback("check_tools", first)
    registry.add_callback("check_tools", lambda resolved, config: seen.append((resolved.names, config)))
    assert [problem.cause for problem in (await registry.resolve()).problems] == ["odd"]
    assert seen == [(("b",), config)]


async def test_it_comes_before_predicates_and_a_held_name_stays_taken(registry):
    seen = []
    registry.add_callback("check_tools", lambda resolved: seen.append(resolved.names))
    assert (await registry.resolve(where="name:b")).names == ("b",)
    assert seen == [("a", "b")]


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (lambda resolved: 1 / 0, "division by zero"),
        (lambda resolved: ["a"], "answered list; it may answer ResolvedTools or None"),
        (lambda resolved: resolved.evolve(tools=[tool_of(a).with_spec(name="c")]), "tools of other names"),
        (lambda resolved: resolved.evolve(tools=[*resolved, resolved.tools[0]]), "several of one"),
    ],
)
async def test_one_that_fails_changes_nothing_and_is_a_problem(registry, answer, cause):
    registry.add_callback("check_tools", answer)
    resolved = await registry.resolve()
    assert resolved.names == ("a", "b")
    assert "the host couldn't check the tools" in resolved.problems[0].cause
    assert cause in resolved.problems[0].cause


async def test_where_a_check_is_required_one_that_fails_leaves_nothing(registry):
    registry.contributions.config = Config(lock={"required": True})

    class Checking:
        @hookimpl
        def pegboard_check_tools(self, resolved):
            raise OSError("no disk")

    register_plugin(registry, Checking, "lock")
    resolved = await registry.resolve()
    assert resolved.names == ()
    assert "[lock] required = true: plugin 'lock' couldn't check the tools: no disk" in resolved.problems[0].cause
    assert (await registry.call("a")).kind == "not_offered"


async def test_a_required_check_that_isnt_installed_leaves_nothing():
    registry = load(config=Config(lock={"required": True}), autoload=False)
    registry.register(a)
    resolved = await registry.resolve()
    assert resolved.names == ()
    assert "pip install pegboard-lock" in resolved.problems[0].cause


async def test_a_plugin_of_that_name_that_checks_nothing_doesnt_do(registry):
    registry.contributions.config = Config(lock={"required": True})
    register_plugin(registry, object(), "lock")
    resolved = await registry.resolve()
    assert "plugin 'lock' is loaded: it checks no tools" in resolved.problems[0].cause


def test_required_is_true_or_false(tmp_path):

    file = tmp_path / "some.toml"
    file.write_text('[lock]\nrequired = "yes"\n')
    with pytest.raises(ConfigError, match=r"lock\.required: expected true or false"):
        load_config(user=False, explicit=file)
    file.write_text('[lock]\nfile = "./x.lock"\n')
    assert load_config(user=False, explicit=file).lock == {"file": str(tmp_path / "x.lock")}


async def test_one_that_has_nothing_to_check_now_costs_a_call_no_resolution(registry, monkeypatch):
    due, seen = [False], []

    @when(lambda config: due[0])
    def check(resolved):
        seen.append(resolved.names)
        return resolved.without("lock", {"a": "it has changed"})

    registry.add_callback("check_tools", check)
    assert (await registry.resolve()).names == ("a", "b")
    with monkeypatch.context() as patched:
        patched.setattr(registry, "_resolve", lambda *_: pytest.fail("resolved"))
        assert (await registry.call("a")).text == "a"
        assert (await registry.decide("a")).action == "allow"
    assert seen == []
    due[0] = True
    assert (await registry.call("a")).kind == "not_offered"
    assert (await registry.resolve()).names == ("b",)


async def test_a_condition_that_fails_leaves_the_decision_to_the_check(registry):
    def check(resolved):
        return resolved.without("lock", {"a": "it has changed"})

    registry.add_callback("check_tools", when(lambda config: 1 / 0)(check))
    assert (await registry.call("a")).kind == "not_offered"


async def test_a_plugin_that_isnt_imported_yet_is_imported_to_say_whether_it_checks(registry):
    def load():
        registry.add_callback("check_tools", when(lambda config: False)(lambda resolved: None))
        registry.contributions.change(lambda now: now.evolve(plugins={"late": record.evolve(load=None)}))

    record = PluginRecord("late", hooks=("pegboard_check_tools",), load=load)
    registry.contributions.change(lambda now: now.evolve(plugins={"late": record}))
    assert not registry.contributions.is_checked()
    assert (await registry.call("a")).text == "a"
    assert registry.plugins()[0].load is None


async def test_without_one_a_call_resolves_nothing(registry, monkeypatch):
    monkeypatch.setattr(registry, "_resolve", lambda *_: pytest.fail("resolved"))
    assert (await registry.call("a")).text == "a"
