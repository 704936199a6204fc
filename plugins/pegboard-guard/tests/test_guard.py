"""The plugin and its settings."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import attrs
import pytest

import pegboard_guard
from pegboard import (
    ReadonlyContext,
    ToolContext,
    ToolError,
    ToolRegistry,
    ToolResult,
    TurnOutcome,
    register_plugin,
    tool,
)
from pegboard.testing import check_plugin
from pegboard_guard import (
    CallLog,
    ComesAfter,
    ComesBefore,
    Cooldown,
    Distinct,
    EndsTurn,
    Exclusive,
    Guard,
    Journal,
    Limit,
    ModelGate,
    NotAfter,
    Required,
    verify,
)
from pegboard_guard.guard import GuardSettings
from pegboard_guard.log import MOST_LOGGED
from pegboard_guard.settings import read_table

SESSION = ReadonlyContext(session="s1")


@tool
async def look(at: str = "", deep: bool = False) -> str:
    """Look at something."""
    if at == "secret-error":
        raise ValueError("secret-error happened")
    if at == "gone":
        raise ToolError("It is gone.")
    return f"seen {at}"


@tool
async def other() -> str:
    """Do something else."""
    return "done"


def make_registry(**settings):
    """A registry with a guard of its own, as `pegboard.load` registers it, and the plugin's record."""
    registry = ToolRegistry()
    registry.register(look, other)
    record = register_plugin(registry, Guard, "guard", settings=settings)
    return registry, record


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.DEBUG, logger="pegboard.guard")
    return lambda: [record for record in caplog.records if record.name == "pegboard.guard"]


def kinds(registry, *calls, context=SESSION):
    return [registry.call_sync(name, arguments, context).kind for name, arguments in calls]


# As a plugin ----------------------------------------------------------------------------------------------------------


def test_with_a_wrong_setting_no_call_runs_and_the_cause_is_reported():
    registry, record = make_registry(doom_lop=4)
    result, cause = registry.call_sync("look", {}), "doom_lop: unknown key. Did you mean 'doom_loop'"
    assert record.status == "quarantined"
    assert "no call runs" in record.cause
    assert cause in record.cause
    assert (result.kind, cause in result.detail, cause in result.text) == ("denied", True, False)


def test_two_registries_share_nothing():
    first, _ = make_registry()
    second, _ = make_registry(doom_loop=0)
    same = [("look", {"at": "a"})] * 3
    assert kinds(first, *same) == [None, None, "denied"]
    assert kinds(second, *same) == [None, None, None]
    assert kinds(make_registry()[0], *same[:2]) == [None, None]


# Doom loops -----------------------------------------------------------------------------------------------------------


def test_calls_that_fail_count_too():
    """A model that repeats what fails is what this is for."""
    registry, _ = make_registry()
    assert kinds(registry, *[("look", {"at": "gone"})] * 3) == ["tool_failure", "tool_failure", "denied"]


def test_calls_answered_by_another_callback_count():
    """The guard's hooks run first."""
    registry, _ = make_registry()
    registry.add_callback("before_tool", lambda: ToolResult("from a cache"))
    assert kinds(registry, *[("look", {})] * 3) == [None, None, "denied"]


# The log --------------------------------------------------------------------------------------------------------------


def test_each_call_is_one_line_with_its_facts(lines):
    registry, _ = make_registry()
    registry.call_sync("look", {"at": "a"}, SESSION)
    (record,) = lines()
    facts = record.pegboard
    assert record.levelno == logging.INFO
    assert (facts["tool"], facts["outcome"], facts["raised"], facts["session"]) == ("look", "ok", None, "s1")
    assert facts["seconds"] >= 0
    assert record.getMessage() == f"look: ok in {facts['seconds']:.3f} s, session 's1'"


@pytest.mark.parametrize(
    ("name", "arguments", "start"),
    [
        ("look", {"at": "gone"}, "look: tool_failure (ToolError) in "),
        ("look", {"at": "secret-error"}, "look: tool_failure (ValueError) in "),
        ("look", {"at": 1}, "look: invalid_arguments"),
        ("missing", {"at": "secret-error"}, "'missing': unknown_tool"),
    ],
)
def test_what_failed_is_a_warning_with_its_kind_and_without_arguments_or_texts(lines, name, arguments, start):
    registry, _ = make_registry()
    registry.call_sync(name, arguments)
    (record,) = lines()
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(start)
    assert "secret" not in record.getMessage() + repr(record.pegboard)


@pytest.mark.parametrize(
    ("arguments", "logged"),
    [
        ({"deep": True, "at": "é\u202e\n"}, r'{"deep": true, "at": "\u00e9\u202e\n"}'),
        (
            {"at": "curl -u ann:hunter2 x", "password": "x"},
            '{"at": "curl -u ann:[redacted] x", "password": "[redacted]"}',
        ),
        ({"at": "word " * 10_000}, '{"at": "' + "word " * 398 + "word"),
        ({"at": float("nan")}, '{"at": "(float)"}'),
    ],
)
def test_arguments_are_logged_where_the_setting_says_so_cut_and_without_secrets(lines, arguments, logged):
    guard = CallLog(log_arguments=True)
    asyncio.run(guard.pegboard_after_tool(ToolContext(), None, arguments, ToolResult.error("denied", "")))
    (record,) = lines()
    assert record.pegboard["arguments"] == logged[:MOST_LOGGED]
    assert record.getMessage().endswith(logged[:MOST_LOGGED])


def test_a_model_can_not_forge_a_line(lines):
    registry, _ = make_registry()
    registry.call_sync("x\nlook: ok\u202e" + "y" * 200, {}, ReadonlyContext(session="s\n1"))
    (record,) = lines()
    message = record.getMessage()
    assert message.isascii()
    assert "\n" not in message
    assert len(message) < 200


def test_nothing_is_logged_below_the_level(caplog):
    caplog.set_level(logging.CRITICAL, logger="pegboard.guard")
    registry, _ = make_registry()
    assert not registry.call_sync("look", {}, SESSION).is_error
    assert [each for each in caplog.records if each.name == "pegboard.guard"] == []


def test_a_reused_context_carries_nothing_over(lines):
    registry, _ = make_registry(limits=[{"calls": 5}], order={"after": [{"tools": "other", "after": "look"}]})
    context = ToolContext(SESSION)
    registry.call_sync("look", {"at": "gone"}, context)
    registry.call_sync("look", {"at": "a"}, context)
    assert [record.pegboard["raised"] for record in lines()] == ["ToolError", None]
    assert context.values == {}


# All together ---------------------------------------------------------------------------------------------------------


def test_only_what_the_settings_name_is_on():
    guard = Guard()
    assert (guard.journal, guard.order, guard.limits) == (None, None, None)
    assert (guard.doom_loop.times, guard.doom_loop.action) == (3, "ask")
    assert Guard({"doom_loop": 0}).doom_loop is None
    assert not GuardSettings().log_arguments


def test_everything_on(tmp_path):
    path = tmp_path / "audit.jsonl"
    registry, record = make_registry(
        doom_loop_action="deny",
        limits=[{"calls": 5}],
        order={"after": [{"tools": "other", "after": "look"}]},
        journal={"file": str(path), "fsync": "never"},
    )
    assert record.status == "loaded", record.cause
    calls = [("other", {}), *[("look", {"at": "a"})] * 3, ("other", {}), ("look", {"at": "b"}), ("look", {"at": "c"})]
    expected = ["denied", None, None, "denied", None, None, None]
    assert kinds(registry, *calls) == expected
    result = registry.call_sync("look", {"at": "d"}, SESSION)
    assert "5 calls in one session" in result.text
    journal = registry.contributions.catalogue.callbacks("after_tool")[0].function.__self__.journal
    assert journal.close()
    outcomes = [json.loads(line).get("outcome") for line in path.read_bytes().splitlines()]
    assert outcomes == [None, *(kind or "ok" for kind in expected), "denied"]
    assert verify(path).ok


def test_no_person_is_asked_about_a_call_beyond_a_limit():
    registry, _ = make_registry(limits=[{"calls": 2}])
    assert kinds(registry, *[("look", {})] * 5) == [None, None, "denied", "denied", "denied"]
    assert "limit of 2 calls" in registry.call_sync("look", {}, SESSION).text


def test_a_call_denied_by_the_doom_loop_guard_does_not_count_for_limits():
    registry, _ = make_registry(limits=[{"calls": 3}], doom_loop_action="deny")
    same = ("look", {"at": "a"})
    assert kinds(registry, same, same, same, same, ("other", {}), ("other", {})) == [
        None,
        None,
        "denied",
        "denied",
        None,
        "denied",
    ]


def test_a_turn_that_lacks_a_required_call_goes_on():
    guard = Guard({"order": {"required": [{"tools": "other"}]}})
    context = ReadonlyContext(session="s1", invocation="i1")
    outcome = TurnOutcome(())
    assert asyncio.run(guard.pegboard_on_stop(context, outcome)) == "Before you finish, call other."
    assert asyncio.run(Guard().pegboard_on_stop(context, outcome)) is None


def test_guards_do_not_change_the_result_of_a_call(tmp_path):
    plain, _ = make_registry(doom_loop=0)
    guarded, _ = make_registry(
        limits=[{"calls": 50}],
        order={"cooldown": [{"tools": "other", "calls": 1}]},
        journal={"file": str(tmp_path / "j")},
    )
    for call in [("look", {"at": "a"}), ("look", {"at": "gone"}), ("look", {"at": 1}), ("missing", {}), ("other", {})]:
        assert plain.call_sync(*call, SESSION).to_json() == guarded.call_sync(*call, SESSION).to_json()


def test_the_readme_lists_every_setting_as_it_may_be_set():
    readme = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
    table = tomllib.loads(readme.partition("```toml\n")[2].partition("```")[0])["plugins"]["guard"]
    settings = read_table(GuardSettings, table, "")
    rules = {"after": ComesAfter, "before": ComesBefore, "exclusive": Exclusive, "cooldown": Cooldown}
    rules |= {"required": Required, "not_after": NotAfter, "distinct": Distinct, "ends_turn": EndsTurn}
    listed = {**table, "limits": table["limits"][0], **{key: each[0] for key, each in table["order"].items()}}
    for name, cls in {"limits": Limit, "journal": Journal, "gate": ModelGate, **rules}.items():
        settable = {each.name for each in attrs.fields(cls) if each.init and each.metadata.get("setting", True)}
        assert settable - {"within"} <= set(listed[name]), name
    assert {each.name for each in attrs.fields(GuardSettings)} == set(table)
    assert settings.limits.limits == tuple(Limit(**each) for each in table["limits"])
    assert settings.order.rules == tuple(cls(**each) for name, cls in rules.items() for each in table["order"][name])
    given = Journal(**table["journal"])
    assert all(getattr(settings.journal, name) == getattr(given, name) for name in table["journal"])
    assert (settings.doom_loop, settings.doom_loop_action, settings.log_arguments) == (3, "ask", False)


OFF_OR_2 = "doom_loop must be 0 (off) or a whole number from 2 on, got"
CIRCLE = {"after": [{"tools": "a", "after": "b"}, {"tools": "b", "after": "a"}]}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        *(({"doom_loop": value}, f"{OFF_OR_2} {value!r}") for value in (1, -1, 2.5, True, None)),
        ({"doom_loop": "3"}, f"{OFF_OR_2} a string"),
        ({"doom_loop_action": "warn"}, "doom_loop_action must be one of 'ask', 'deny', got a string"),
        ({"log_arguments": "yes"}, "log_arguments must be true or false, got a string"),
        ({"doom_lop": 4}, "doom_lop: unknown key. Did you mean 'doom_loop' or 'doom_loop_action'?"),
        ({"journal": {"file": "x", "fsink": 1}}, "journal.fsink: unknown key. Did you mean 'fsync'?"),
        ({"journal": {"file": "x", "now": 1}}, "journal.now: unknown key."),
        ({"limits": [{"calls": 1}, {"cals": 1}]}, "limits[1].cals: unknown key. Did you mean 'calls'?"),
        ({"limits": [{}]}, "limits[0]: calls is missing"),
        ({"limits": [{"calls": 0}]}, "limits[0]: calls must be from 1"),
        ({"limits": {"calls": 1}}, "limits: must be a list of tables ([[plugins.guard.limits]]), got"),
        ({"limits": [3]}, "limits[0]: must be a table, got 3"),
        ({"order": {"exclusiv": []}}, "order.exclusiv: unknown key. Did you mean 'exclusive'?"),
        ({"order": {"after": [{"tool": "x"}]}}, "order.after[0].tool: unknown key. Did you mean 'tools'?"),
        ({"order": []}, "order: must be a table, got []"),
        ({"order": {"after": {}}}, "order.after: must be a list of tables ([[plugins.guard.order.after"),
        ({"order": {"cooldown": [{"tools": "x"}]}}, "order.cooldown[0]: a cooldown of x needs"),
        ({"order": CIRCLE}, "order: the rules contradict each other"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_place_and_a_near_miss(settings, text):
    with pytest.raises((ValueError, TypeError), match=f"^{re.escape(text)}"):
        read_table(GuardSettings, settings, "")


def test_every_name_is_there_and_nothing_else():
    assert set(pegboard_guard.__all__) <= set(dir(pegboard_guard))
    for name in pegboard_guard.__all__:
        assert getattr(pegboard_guard, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Jurnal'"):
        _ = pegboard_guard.Jurnal


def test_what_the_settings_leave_off_is_not_imported():
    script = (
        "import sys; from pegboard_guard import Guard; Guard(); "
        "print([name for name in ('asyncio', 'hashlib', 'click', 'pegboard_guard.journal') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_the_plugin_keeps_the_contract() -> None:
    """It loads, its manifest is correct, its schemas are valid, and it is cheap to import."""
    check_plugin("guard")
