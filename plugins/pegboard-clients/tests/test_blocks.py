from __future__ import annotations

import pytest

from pegboard import Tool
from pegboard_anthropic import Anthropic, AnthropicLimits
from pegboard_bedrock import Bedrock
from pegboard_clients.blocks import StrictLimits

TEXT = {"type": "string"}


def tool(name, properties, required=(), **options):
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return Tool.from_schema(name, schema, **options).spec


def strict_names(exporter, specs, **options):
    entries = [entry.get("toolSpec", entry) for entry in exporter.tools(specs, **options).entries]
    return [entry["name"] for entry in entries if entry.get("strict")]


@pytest.mark.parametrize("exporter", [Anthropic(), Bedrock()])
def test_twenty_tools_are_strict_and_the_rest_says_that_it_is_not(exporter):
    specs = [tool(f"t{at:02}", {"a": TEXT}, ["a"]) for at in range(22)]

    exported = exporter.tools(specs, strict=True)

    assert strict_names(exporter, specs, strict=True) == [f"t{at:02}" for at in range(20)]
    assert [(loss.tool, loss.path, loss.refused) for loss in exported.losses] == [
        ("t20", "/strict", False),
        ("t21", "/strict", False),
    ]
    assert "20 strict tools, 24 optional, 16 union-typed parameters" in exported.losses[0].what
    assert len(exported.names) == 22


EITHER = {"anyOf": [TEXT, {"type": "integer"}]}
OPTIONAL = [tool(name, {f"p{at}": TEXT for at in range(count)}) for name, count in (("a", 20), ("b", 5), ("c", 4))]
UNIONS = [tool(name, dict.fromkeys("pqrstuvw", EITHER), "pqrstuvw") for name in "abc"]


@pytest.mark.parametrize(("specs", "names"), [(OPTIONAL, ["a", "c"]), (UNIONS, ["a", "b"])], ids=["optional", "unions"])
def test_properties_are_counted_over_all_tools_and_a_smaller_one_still_fits(specs, names):
    assert strict_names(Anthropic(), specs, strict=True) == names


def test_tools_that_want_to_be_strict_come_before_those_that_are_by_default():
    specs = [tool("a", {"x": TEXT}, ["x"]), tool("b", {"x": TEXT}, ["x"], strict=True), tool("c", {"x": TEXT}, ["x"])]
    exporter = Anthropic(AnthropicLimits(strict=StrictLimits(tools=1, optional=24, unions=16)))

    assert strict_names(exporter, specs, strict=True) == ["b"]
    exported = exporter.tools(specs, strict=True)
    assert [entry["name"] for entry in exported.entries] == ["a", "b", "c"]
    assert [(loss.tool, loss.keyword) for loss in exported.losses] == [("a", "strict"), ("c", "strict")]


def test_a_tool_that_wants_to_be_strict_is_so_plainly_beyond_the_limit():
    specs = [tool("a", {"x": TEXT}, ["x"], strict=True), tool("b", {"x": TEXT}, ["x"], strict=True)]
    exporter = Anthropic(AnthropicLimits(strict=StrictLimits(tools=1, optional=24, unions=16)))

    assert strict_names(exporter, specs) == ["a"]
    assert strict_names(exporter, specs[1:]) == ["b"]


def test_limits_can_be_taken_away():
    specs = [tool(f"t{at:02}", {"a": TEXT}) for at in range(40)]
    exporter = Anthropic(AnthropicLimits(strict=StrictLimits(None, None, None)))

    assert len(strict_names(exporter, specs, strict=True)) == 40


def test_the_cache_of_counts_is_bounded(monkeypatch):
    monkeypatch.setattr("pegboard_clients.strict.MOST_CACHED", 2)
    exporter = Anthropic()
    specs = [tool(f"t{at}", {"a": TEXT}) for at in range(5)]

    exporter.tools(specs, strict=True)

    assert len(exporter._budget._counts) <= 2
