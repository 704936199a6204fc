"""What models of a name know."""

from __future__ import annotations

import pytest

from fake_vendors import Round
from pegboard import ModelConfig, ModelRequest
from pegboard_anthropic.client import earlier_exporter, exporter_of, searches

NEW = [
    "claude-sonnet-5",
    "claude-opus-5-5",
    "claude-opus-4-6",
    "claude-sonnet-4-8-20260801",
    "claude-opus-10",
    "claude-mythos-preview",
]
SEARCHING = [
    *NEW,
    "claude-haiku-4-5",
    "claude-opus-4-5-20251101",
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "claude-opus-4-5@20251101",
]
EARLIER = [
    *("claude-opus-4-1", "claude-opus-4-1-20250805", "claude-opus-4-20250514", "claude-sonnet-4-0", "claude-4-opus"),
    *("claude-3-5-haiku-latest", "claude-3-opus-20240229", "claude-2.1", "claude-v2", "claude-instant-1.2"),
]


@pytest.mark.parametrize("name", SEARCHING)
def test_from_version_4_5_on_models_search(name):
    assert searches(name)


@pytest.mark.parametrize("name", [*EARLIER, "kimi-k2", "", "gpt-5.4"])
def test_earlier_ones_and_those_of_other_makers_do_not(name):
    assert not searches(name)


@pytest.mark.parametrize("name", NEW)
def test_from_version_4_6_on_the_built_in_exporter_writes(name):
    assert exporter_of(name) is not earlier_exporter()


@pytest.mark.parametrize("name", ["claude-haiku-4-5", *EARLIER, "kimi-k2"])
def test_for_others_one_that_keeps_what_it_has_written(name):
    assert exporter_of(name) is exporter_of("claude-2") is earlier_exporter()


@pytest.mark.parametrize(
    ("name", "thinking"),
    [("claude-sonnet-5", {"type": "adaptive"}), ("claude-haiku-4-5", {"type": "enabled", "budget_tokens": 1_024})],
)
def test_reasoning_is_asked_for_as_the_model_knows_it(wire, name, thinking):
    request = ModelRequest("Go on.", config=ModelConfig(reasoning="low"))
    played = wire.play([Round(text="Done.")], request, facts={"name": name})
    assert played.bodies[0]["thinking"] == thinking


@pytest.mark.parametrize(("name", "said"), [("claude-sonnet-5", None), ("claude-haiku-4-5", 0.5)])
def test_a_temperature_is_said_to_models_that_take_one(wire, name, said):
    request = ModelRequest("Go on.", config=ModelConfig(temperature=0.5))
    played = wire.play([Round(text="Done.")], request, facts={"name": name})
    assert played.bodies[0].get("temperature") == said
