from __future__ import annotations

import json

import pytest

from pegboard import Tool, ToolRegistry
from pegboard_clients.wire.entries import MOST_DESCRIPTION, Entries, Entry

EXPORTERS = ("openai", "openai-responses", "anthropic", "bedrock", "gemini", "gemini-schema", "ollama", "mcp")
PLAIN = {"type": "object", "properties": {"a": {"type": "string", "description": "What."}}}


def spec(name, schema=PLAIN, **facts):
    return Tool.from_schema(name, schema, lambda arguments: arguments, **facts).spec


@pytest.fixture(scope="module")
def exporter():
    return ToolRegistry().exporter


@pytest.mark.parametrize("name", EXPORTERS)
def test_a_long_description_is_cut_by_every_exporter_and_reported(name, exporter):
    long = "x" * (1 << 20)
    in_schema = {"type": "object", "properties": {"a": {"type": "string", "description": long[: 1 << 18]}}}
    exported = exporter(name).tools([spec("a", description=long), spec("b", in_schema), spec("c")])

    assert len(json.dumps(exported.entries)) < 3 * MOST_DESCRIPTION
    assert exported.names == {"a", "b", "c"}
    assert {(loss.tool, loss.path, loss.what) for loss in exported.losses} >= {
        ("a", "/description", "cut to 20,000 of 1,048,576 characters"),
        ("b", "/inputSchema/properties/a", "cut to 20,000 of 262,144 characters"),
    }
    assert "c" not in {loss.tool for loss in exported.losses if loss.keyword == "description"}


@pytest.mark.parametrize("name", EXPORTERS)
def test_long_examples_are_left_out_by_every_exporter_and_reported(name, exporter):
    exported = exporter(name).tools([spec("a", examples=[{"a": "x" * MOST_DESCRIPTION}])])

    assert "xxx" not in json.dumps(exported.entries)
    assert ("/examples", "left out: over 20,000 characters") in {(loss.path, loss.what) for loss in exported.losses}


class UnwritableError(Exception):
    def __str__(self):
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (AttributeError("no attribute"), "AttributeError: no attribute"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (UnwritableError(), "UnwritableError"),
    ],
)
def test_an_exporter_that_fails_with_one_tool_costs_that_tool_only(error, what):
    def write(spec, _strict):
        if spec.name == "bad":
            raise error
        return Entry({"name": spec.name})

    exported = Entries(write).exported([spec("good"), spec("bad"), spec("fine")])

    assert exported.entries == ({"name": "good"}, {"name": "fine"})
    assert exported.refused == {"bad"}
    (loss,) = exported.losses
    assert loss.what == f"the exporter failed with {what}"


@pytest.mark.parametrize("name", EXPORTERS)
def test_booleans_within_all_of_are_exported(name, exporter):
    schema = {
        "type": "object",
        "anyOf": [{"type": "object"}],
        "allOf": [{"anyOf": [True, {"type": "object", "properties": {"a": {}}}]}],
    }
    assert exporter(name).tools([spec("t", schema)]).names == {"t"}


def test_examples_within_a_description_hide_nothing(exporter):
    exported = exporter("mcp").tools([spec("a", examples=[{"a": "x\u202ey"}])])
    assert exported.entries[0]["description"].endswith('{"a":"x\\u202ey"}')
