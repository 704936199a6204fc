"""What is indexed of a tool."""

from __future__ import annotations

from pegboard.tools.spec import ToolSpec
from pegboard.toolsets.search import _MOST_INDEXED, _MOST_PARAMETERS, _row_of, parameter_names

NESTED = {
    "type": "object",
    "properties": {
        "outer": {"type": "object", "properties": {"inner": {"type": "string"}}},
        "rows": {"type": "array", "items": {"properties": {"cell": {"enum": [{"properties": {"data": 1}}]}}}},
        "choice": {"anyOf": [{"properties": {"left": {}}}, {"$ref": "#/$defs/other"}, True]},
    },
    "default": {"properties": {"never": 1}},
    "$defs": {"other": {"properties": {"right": True}}},
}


def test_all_texts_of_a_tool_are_indexed():
    spec = ToolSpec("getUser", "Tells of a user.", NESTED, title="User facts", tags=["crm"])
    name, *texts = _row_of(spec)
    assert name == "getUser"
    assert texts == [
        "getUser get user",
        "User facts crm outer rows choice inner cell right left",
        "Tells of a user.",
    ]


def test_names_of_parameters_are_found_at_any_depth_and_data_is_none():
    assert parameter_names(ToolSpec("a", input_schema=NESTED)) == [
        "outer",
        "rows",
        "choice",
        "inner",
        "cell",
        "right",
        "left",
    ]


def test_a_tool_that_takes_nothing_has_no_names_of_parameters():
    assert parameter_names(ToolSpec("a", input_schema={"type": "object"})) == []


def test_what_is_indexed_is_bounded():
    schema = {"type": "object", "properties": {f"p{n}": {"properties": {f"q{n}": {}}} for n in range(600)}}
    assert len(parameter_names(ToolSpec("a", input_schema=schema))) == _MOST_PARAMETERS
    assert len(_row_of(ToolSpec("a", "x" * 100_000))[3]) == _MOST_INDEXED
