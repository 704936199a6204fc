"""The hook `check_tools`, which leaves tools out of a resolution."""

from __future__ import annotations

import pytest

from pegboard import Config, Problem, ToolRegistry, hookimpl, load, load_config, register_plugin, tool, tool_of
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
    registry.contributions.change(lambda now: now.evolve(required_check="lock"))

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
    registry.contributions.change(lambda now: now.evolve(required_check="lock"))
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


async def test_without_one_a_call_resolves_nothing(registry, monkeypatch):
    monkeypatch.setattr(registry, "_resolved", lambda *_: pytest.fail("resolved"))
    assert (await registry.call("a")).text == "a"
