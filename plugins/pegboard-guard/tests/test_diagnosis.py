"""What `registry doctor` says of the guard's settings."""

from __future__ import annotations

import pytest

from pegboard import StaticToolset, ToolRegistry, tool
from pegboard.testing import ScriptedModel
from pegboard_guard import Guard


@tool
def submit() -> None:
    """Submits."""


def diagnose(settings, *toolsets):
    registry = ToolRegistry()
    registry.register(submit, *toolsets)
    registry.add("models", "there", lambda _name: ScriptedModel([]))
    found = []
    Guard(settings).pegboard_diagnose(lambda cause, fix: found.append((cause, fix)), registry)
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"limits": [{"calls": 1}, {"calls": 2, "tools": "sub*"}]},
        {"order": {"ends_turn": [{"tools": "submit"}]}, "gate": {"model": "there/x", "end": "x"}},
    ],
)
def test_settings_that_fit_the_tools_are_no_finding(settings):
    """Nor is a model that there is."""
    assert diagnose(settings) == []


@pytest.mark.parametrize(
    ("order", "pattern"),
    [
        ({"ends_turn": [{"tools": "finish"}]}, "finish"),
        ({"not_after": [{"tools": "*", "after": "finish"}]}, "finish"),
        ({"before": [{"tools": "submit", "before": "mail_*"}]}, "mail_*"),
        ({"required": [{"tools": "submit", "when": ["finish", "submit"]}]}, "finish"),
    ],
)
def test_a_rule_about_tools_that_there_are_not_is_a_finding(order, pattern):
    """A note, if a toolset may bring them."""
    cause, fix = (
        f"rules are about {pattern!r}, and no tool is called so",
        "Correct the rule, or install the tool's plugin.",
    )
    assert diagnose({"order": order}) == [(cause, fix)]
    later = StaticToolset("later", [])
    assert diagnose({"order": order}, later) == [(f"{cause}, unless a toolset brings one later", None)]


def test_a_near_miss_is_named():
    """It is a mistake, whatever a toolset brings."""
    ((_, fix),) = diagnose({"order": {"ends_turn": [{"tools": "submitt"}]}}, StaticToolset("later", []))
    assert fix == "Did you mean 'submit'?"


def test_a_gate_without_its_model_is_a_finding():
    """With what the registry says of it."""
    ((cause, fix),) = diagnose({"gate": {"model": "nosuch/x", "calls": "x"}})
    assert cause.startswith("the gate has no model: ")
    assert "nosuch" in cause
    assert fix == "Correct gate.model, or install the plugin that provides it."
