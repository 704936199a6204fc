from __future__ import annotations

import datetime as dt
import enum
import json
import pathlib

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from pegboard.dispatch.shape import shaped
from pegboard.tools.content import AudioContent, FileContent, ImageContent, LinkContent, TextContent, ToolResult
from pegboard.tools.handler import Handler
from pegboard.tools.spec import ToolSpec
from pegboard.tools.structure import unstructurer
from pegboard.tools.tool import Tool

PICTURE, SOUND = ImageContent(b"picture"), AudioContent(b"sound")
COUNT = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
    "additionalProperties": False,
}
RESULT = {"type": "object", "properties": {"result": {"type": ["integer", "null", "string"]}}, "required": ["result"]}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


class Colour(str, enum.Enum):  # noqa: UP042  a plain string to the JSON encoder, which is the point
    RED = "red"


@attrs.frozen
class Count:
    count: int


@pytest.fixture
def result(make, send):
    """The result of a tool that gives back this value."""

    def result(value, **facts):
        return send(make(lambda: value, blocking=False, **facts)).result

    return result


# Without an output schema ---------------------------------------------------------------------------------------------


def test_a_result_is_taken_as_it_is(result):
    own = ToolResult("text", {"data": 1}, metadata={"for": "the host"})
    assert result(own) is own


def test_an_error_result_of_the_tools_own_is_taken_as_it_is(result):
    own = ToolResult.error("limit", "too many")
    assert result(own, output=COUNT) is own


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("words", (TextContent("words"),)),
        ("", (TextContent(""),)),
        (b"raw", (FileContent("result:", b"raw", "application/octet-stream"),)),
        (bytearray(b"raw"), (FileContent("result:", b"raw", "application/octet-stream"),)),
        (PICTURE, (PICTURE,)),
        (LinkContent("file:///a", "a"), (LinkContent("file:///a", "a"),)),
        ([PICTURE, SOUND], (PICTURE, SOUND)),
        ((PICTURE, SOUND), (PICTURE, SOUND)),
        (["before", PICTURE, "after"], (TextContent("before"), PICTURE, TextContent("after"))),
    ],
)
def test_text_bytes_and_content_become_content(result, value, content):
    got = result(value)
    assert (got.content, got.structured_content, got.is_error) == (content, None, False)


def test_nothing_is_an_empty_object(result):
    got = result(None)
    assert (got.text, got.structured_content) == ("{}", {})


@settings(max_examples=50)
@given(json_values.filter(lambda value: not isinstance(value, str) and value is not None))
def test_data_becomes_structured_content_and_its_json_text(value):
    tool = Tool(ToolSpec("probe"), Handler(print, lambda: None))
    got = shaped(tool, value)
    assert got.structured_content == value
    assert json.loads(got.text) == value


def test_a_list_of_texts_is_data(result):
    assert result(["a", "b"]).structured_content == ["a", "b"]
    assert result([]).structured_content == []


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (Count(3), {"count": 3}),
        ([Count(3)], [{"count": 3}]),
        ({"day": dt.date(2026, 1, 2)}, {"day": "2026-01-02"}),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        ({1: "a"}, {"1": "a"}),
        ((1, 2), [1, 2]),
        (Colour.RED, "red"),
    ],
)
def test_what_has_a_json_form_is_written_in_it(result, value, data):
    if value == Colour.RED:
        assert result(value).text == "red"
    else:
        got = result(value)
        assert got.structured_content == data
        assert json.loads(got.text) == data


class Odd:
    pass


def endless():
    items = {"inner": []}
    items["inner"].append(items)
    return items


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def kind_of(value):
    return value if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"rows": [1.0, float("nan")]}, "rows[1]"),
        ({"rows": {"a": float("inf")}}, "rows.a"),
        (float("-inf"), "(root)"),
        ({"rows": [Odd()]}, "rows[0]"),
        (Odd(), "(root)"),
        ({"rows": {(1, 2): 3}}, "rows"),
        (endless(), "inner[0]"),
        ([PICTURE, Odd()], "[1]"),
        (deep(10_000), "[0][0]"),
    ],
    ids=kind_of,
)
@pytest.mark.parametrize("facts", [{}, {"output": COUNT}, {"unstructure": lambda value: value}])
def test_what_is_no_json_is_an_error_that_names_the_path(result, value, path, facts):
    got = result(value, **facts)
    assert (got.kind, got.is_error) == ("invalid_output", True)
    assert got.text.startswith("probe ran, but its result was refused: ")
    assert path in got.text


def test_lone_surrogates_are_replaced_in_text_and_data(result):
    """An undecodable file name is no reason to lose a whole listing, but no wire takes it."""
    assert result("caf\udce9").text == "caf\ufffd"
    got = result({"names": ["caf\udce9", "café", "\U0001f600"]})
    assert got.structured_content == {"names": ["caf\ufffd", "café", "\U0001f600"]}
    assert json.loads(got.text) == got.structured_content


# With one -------------------------------------------------------------------------------------------------------------


def test_an_object_that_fits_is_the_structured_content(result):
    got = result({"count": 3}, output=COUNT)
    assert (got.structured_content, json.loads(got.text), got.is_error) == ({"count": 3}, {"count": 3}, False)


@pytest.mark.parametrize("value", [3, None, "three"])
def test_a_value_that_is_no_object_is_wrapped(result, value):
    got = result(value, output=RESULT)
    assert (got.structured_content, json.loads(got.text)) == ({"result": value}, {"result": value})


def test_an_object_is_wrapped_too_where_the_handler_says_so(make, send):
    """Its type is a union with something that is no object, say."""
    handler = Handler(lambda: {"count": 3}, lambda: lambda context, arguments: ((), {}), wraps_result=True)
    schema = {"type": "object", "properties": {"result": {}}, "required": ["result"], "additionalProperties": False}
    work = send(make(None, output=schema).evolve(handler=handler))
    assert work.result.structured_content == {"result": {"count": 3}}


@pytest.mark.parametrize(
    ("value", "path"),
    [({"count": "three"}, "count"), ({}, "count"), ({"count": 1, "more": 2}, "more"), (3, "result"), (None, "result")],
)
def test_a_breach_is_an_error_that_names_the_path(result, value, path):
    got = result(value, output=COUNT)
    assert (got.kind, got.is_error) == ("invalid_output", True)
    assert path in got.text


def test_a_result_of_the_tools_own_is_held_to_the_schema_too(result):
    assert not result(ToolResult("three", {"count": 3}), output=COUNT).is_error
    assert result(ToolResult("three", {"count": "three"}), output=COUNT).kind == "invalid_output"
    assert result(ToolResult("three"), output=COUNT).kind == "invalid_output"
    assert result(ToolResult("deep", deep(100_000)), output=COUNT).kind == "invalid_output"


@pytest.mark.parametrize("value", [{"result": Colour.RED}, {"result": 1, 2: "a key that is a number"}])
def test_what_is_json_only_once_it_is_written_is_judged_as_it_is_written(result, value):
    assert not result(value, output=RESULT, unstructure=lambda value: value).is_error
    assert result({2: value}, output=RESULT, unstructure=lambda value: value).kind == "invalid_output"


def test_a_way_back_that_gives_no_json_is_an_error(result):
    got = result(3, output=RESULT, unstructure=lambda value: float("nan"))
    assert (got.kind, "(root)" in got.text) == ("invalid_output", True)


def test_the_types_way_back_to_json_is_used(result):
    got = result(Count(3), output=COUNT, unstructure=lambda value: {"count": value.count})
    assert got.structured_content == {"count": 3}


def test_a_value_that_is_not_of_its_type_is_judged_by_what_it_is(result):
    """A function that promises a class and gives a fitting dict is taken at what it gave."""

    unstructure = unstructurer(Count)
    assert result({"count": 3}, output=COUNT, unstructure=unstructure).structured_content == {"count": 3}
    assert result({"cuont": 3}, output=COUNT, unstructure=unstructure).kind == "invalid_output"


def test_a_tool_without_a_handler_that_a_callback_answers_for_is_not_shaped(make, send):
    own = ToolResult("from the callback")
    assert send(make(None, output=COUNT), before=[lambda *_: own]).result is own
