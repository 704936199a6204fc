"""The page of one tool tells everything; `test_listing` holds its outline."""

from __future__ import annotations

import pytest

from pegboard.cli.tool_page import show_text
from pegboard.tools.spec import EXCLUSIVE, Concurrency, Grammar, ToolSpec
from pegboard.tools.tool import Tool


def page(**facts) -> list[str]:
    return show_text(Tool(ToolSpec("t", **facts))).splitlines()


def arguments(**properties) -> list[str]:
    lines = page(input_schema={"type": "object", "properties": properties})
    return lines[lines.index("Arguments:") + 1 : -2]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer, 1 to 9"),
        ({"type": "integer", "minimum": 1}, "integer, at least 1"),
        ({"type": "number", "maximum": 1.5}, "number, at most 1.5"),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "number, more than 0, less than 1"),
        ({"type": "string", "minLength": 1, "maxLength": 5}, "string, 1 to 5 characters"),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, "list of string, at least 1 items"),
        ({"type": "string", "format": "date"}, "string, date"),
        ({"type": "string", "pattern": "^x\x1b$"}, "string, pattern ^x\\u{1b}$"),
        ({"type": "string", "pattern": 3, "default": ""}, 'string, default ""'),
    ],
)
def test_what_an_argument_is_held_to(schema, words):
    assert arguments(a=schema) == [f"  a: {words}"]


def test_parts_of_objects_stand_under_dotted_names():
    part = {"type": "object", "properties": {"op": {"type": "string", "description": "How.\nSo."}}, "required": ["op"]}
    assert arguments(filter=part, all={"type": "array", "items": part}) == [
        "  filter: object",
        "  filter.op: string, required",
        "      How. So.",
        "  all: list of object",
        "  all[].op: string, required",
        "      How. So.",
    ]


def test_what_refers_to_itself_is_followed_some_levels_deep():
    lines = page(
        input_schema={
            "$ref": "#/$defs/node",
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        }
    )
    assert lines[3:7] == ["Arguments:", "  next: node", "  next.next: node", "  next.next.next: node"]


def test_the_result():
    lines = page(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    assert lines[lines.index("Result:") + 1] == "  n: integer"
    assert "Result: object" in page(output_schema={"type": "object"})


def test_examples_and_grammar():
    lines = page(
        kind="freeform",
        examples=[{"input": "x\u202e"}],
        grammar=Grammar("lark", "start: A\nA: /x\x1b/\n"),
    )
    assert lines[lines.index("Examples:") + 1] == '  {"input":"x\\u{202e}"}'
    at = lines.index("Grammar (lark):")
    assert lines[at + 1 : at + 3] == ["  start: A", "  A: /x\\u{1b}/"]
    assert "Kind: freeform" in lines


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"kind": "provider", "provider_id": "openai.web_search"}, "Kind: provider openai.web_search"),
        ({"long_running": True}, "Running: long: it answers with an id first"),
        ({"deferred": True}, "Offered: only once it was found by a search"),
        ({"concurrency": EXCLUSIVE}, "Together: runs alone"),
        ({"concurrency": Concurrency("key", ["a", "b"])}, "Together: calls of the same a, b wait for each other"),
        (
            {"concurrency": Concurrency("key", ["a"], "read")},
            "Together: calls of the same a wait for each other, readers share",
        ),
        ({"original_name": "a.b"}, "Original name: a.b"),
    ],
)
def test_facts(facts, line):
    assert line in page(**facts)


def test_a_tool_that_no_model_is_offered_says_so_and_what_it_tells_the_model():
    made = Tool.processor("memory", lambda request: None, instructions="Mind\x1b the gap.", deferred=True)
    lines = show_text(made).splitlines()
    assert "Offered: never: it only processes requests" in lines
    assert "Instructions: Mind\\u{1b} the gap." in lines
