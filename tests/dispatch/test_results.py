from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime as dt
import decimal
import enum
import itertools
import json
import math
import pathlib
import re
import threading
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from pegboard import (
    AudioContent,
    FileContent,
    ImageContent,
    Limits,
    LinkContent,
    Policy,
    ResultLimits,
    TextContent,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolResult,
    ToolSpec,
    tool,
    tool_of,
)
from pegboard.dispatch.results import MOST_AT_ONCE, quick_result, result_of, values_left, write_json
from pegboard.dispatch.stages import run_call
from pegboard.errors import MOST_DETAIL, FatalToolError, ToolError, detail_of
from pegboard.schema.unstructure import to_json_data
from pegboard.tools import Handler
from strategies import JSON_TREES


@attrs.frozen
class Weather:
    city: str
    days: object = None


@attrs.frozen
class One:
    value: object


@dataclasses.dataclass
class Data:
    value: object


class Hue(enum.Enum):
    RED = "red"


class Unending(Sequence):
    def __len__(self):
        raise ValueError

    def __getitem__(self, index):
        return index

    def __iter__(self):
        number = 0
        while True:
            yield number
            number += 1


Pair = namedtuple("Pair", ["one", "other"])  # noqa: PYI024  the plain form is what is tested
LONG = "x" * 1_000_000


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def shared():
    """61 lists, with 2 ** 60 values in all."""
    value = ["x"]
    for _ in range(60):
        value = [value, value]
    return value


def cycle():
    value = []
    value.append(value)
    return value


PICTURE, SOUND = ImageContent(b"picture"), AudioContent(b"sound")
COUNT = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
    "additionalProperties": False,
}
RESULT = {"type": "object", "properties": {"result": {"type": ["integer", "null", "string"]}}, "required": ["result"]}


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


@attrs.frozen
class Plot:
    image: ImageContent
    number: int


NOTED = "[image 1 beside this text]"


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"plot": PICTURE, "n": 1}, {"plot": NOTED, "n": 1}),
        ([{"n": 1}, PICTURE], [{"n": 1}, NOTED]),
        ((PICTURE, 1), [NOTED, 1]),
        ((PICTURE, memoryview(b"a")), [NOTED, "YQ=="]),
        (Plot(PICTURE, 1), {"image": NOTED, "number": 1}),
        ({"a": [Plot(PICTURE, 1)]}, {"a": [{"image": NOTED, "number": 1}]}),
    ],
)
def test_a_picture_in_data_is_content_beside_the_data(result, value, data):
    got = result(value)
    assert got.content == (TextContent(json.dumps(data)), PICTURE)
    assert got.structured_content == data


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_bytes_of_a_medium_in_data_are_content_beside_them(result, kind):
    got = result([{"plot": kind(b"\xff\xd8\xff\xe0"), "hash": kind(b"\1\2")}])
    assert got.content[1:] == (FileContent("result:", b"\xff\xd8\xff\xe0", "image/jpeg"),)
    assert got.structured_content == [{"plot": "[resource 1 beside this text]", "hash": "AQI="}]


PNG = b"\x89PNG\r\n\x1a\n" + bytes(24)
ENCODED = base64.b64encode(PNG).decode()


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": f"data:image/png;base64,{ENCODED}"}, {"a": "[resource 1 beside this text]"}),
        ([f"data:image/jpeg;name=a;base64,{ENCODED}"], ["[resource 1 beside this text]"]),
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}},
            {"type": "image_url", "image_url": {"url": "[resource 1 beside this text]"}},
        ),
        ([{"type": "image", "data": ENCODED, "mimeType": "image/png"}], ["[resource 1 beside this text]"]),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ENCODED}},
            {"type": "image", "source": "[resource 1 beside this text]"},
        ),
    ],
    ids=["data URL", "in a list", "OpenAI", "MCP", "Anthropic"],
)
def test_a_medium_that_a_tool_has_encoded_is_content_beside_the_data(result, value, data):
    got = result(value)
    assert got.content == (TextContent(json.dumps(data)), FileContent("result:", PNG, "image/png"))
    assert got.structured_content == data


def test_a_text_that_is_the_data_url_of_a_medium_is_content(result):
    assert result(f"data:image/png;base64,{ENCODED}").content == (FileContent("result:", PNG, "image/png"),)


@pytest.mark.parametrize(
    "value",
    [
        "data:image/png;base64,%%%",
        f"data:text/plain;base64,{ENCODED}",
        "data:image/png;base64,aGVsbG8gd29ybGQ=",
        f"see data:image/png;base64,{ENCODED}",
        "data:,hello",
        "data: none",
    ],
)
def test_what_is_no_encoded_medium_stays_text(result, value):
    assert result(value).content == (TextContent(value),)
    got = result({"data": value, "mimeType": "image/png", "url": value})
    assert got.structured_content == {"data": value, "mimeType": "image/png", "url": value}


def test_sounds_and_files_in_data_are_numbered_in_their_order(result):
    file, note = FileContent("file:a", b"\0"), FileContent("file:b", "words")
    got = result({"a": SOUND, "b": [file], "c": note})
    assert got.content[1:] == (SOUND, file)
    assert [got.structured_content[name] for name in "ab"] == [
        "[audio 1 beside this text]",
        ["[resource 2 beside this text]"],
    ]
    assert got.structured_content["c"]["data"] == "words"


def test_data_with_a_picture_are_whole_for_an_output_schema(result):
    got = result({"plot": PICTURE}, output={"type": "object", "properties": {"plot": {"type": "object"}}})
    assert got.content == (TextContent(json.dumps({"plot": NOTED})), PICTURE)
    assert got.structured_content["plot"]["mime_type"] == "image/png"


def test_structured_content_with_a_picture_has_it_as_content_if_there_is_no_other(result):
    assert result(ToolResult((), {"plot": PICTURE})).content == (TextContent(json.dumps({"plot": NOTED})), PICTURE)
    assert result(ToolResult("seen", {"plot": PICTURE})).content == (TextContent("seen"),)


def test_nothing_is_an_empty_object(result):
    got = result(None)
    assert (got.text, got.structured_content) == ("{}", {})


@given(JSON_TREES.filter(lambda value: not isinstance(value, str) and value is not None))
def test_data_becomes_structured_content_and_its_json_text(value):
    tool = Tool(ToolSpec("probe"), Handler(print, lambda: None))
    got = result_of(tool, value)
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
@pytest.mark.parametrize("facts", [{}, {"output": COUNT}])
def test_a_value_that_is_not_json_gives_an_error_with_its_path(result, value, path, facts):
    got = result(value, **facts)
    assert (got.kind, got.is_error) == ("invalid_output", True)
    assert got.text.startswith("probe ran, but its result was refused: ")
    assert path in got.text


@pytest.mark.parametrize("more", [{}, {"mime_type": "text/plain"}])
@pytest.mark.parametrize("facts", [{}, {"output": {"type": "object"}}])
def test_lone_surrogates_are_replaced_in_text_and_data(result, more, facts):
    """An undecodable file name must not lose a whole listing, but can't be sent."""
    assert result("caf\udce9").text == "caf\ufffd"
    value, data = {"names": ["caf\udce9", "café"], **more}, {"names": ["caf\ufffd", "café"], **more}
    got = result(value, **facts)
    assert (got.structured_content, json.loads(got.text)) == (data, data)
    assert result(ToolResult("files", value), **facts).structured_content == data


# With one -------------------------------------------------------------------------------------------------------------


def test_an_object_that_fits_is_the_structured_content(result):
    got = result({"count": 3}, output=COUNT)
    assert (got.structured_content, json.loads(got.text), got.is_error) == ({"count": 3}, {"count": 3}, False)


@pytest.mark.parametrize("value", [3, None, "three"])
def test_a_value_that_is_not_an_object_is_wrapped(result, value):
    got = result(value, output=RESULT)
    assert (got.structured_content, json.loads(got.text)) == ({"result": value}, {"result": value})


def test_an_object_is_wrapped_if_the_handler_wraps_results(make, send):
    """Such as for a union of an object and another type."""
    handler = Handler(lambda: {"count": 3}, lambda: lambda context, arguments: ((), {}), wraps_result=True)
    schema = {"type": "object", "properties": {"result": {}}, "required": ["result"], "additionalProperties": False}
    state = send(make(None, output=schema).evolve(handler=handler))
    assert state.result.structured_content == {"result": {"count": 3}}


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
    assert not result(value, output=RESULT).is_error
    assert result({2: value}, output=RESULT).kind == "invalid_output"


def test_a_value_is_written_and_judged_by_what_it_is(result):
    """A fitting dict instead of the declared class is valid; a subclass with more attributes isn't."""

    @attrs.frozen
    class Counted(Count):
        secret: str = "kept"

    assert result(Count(3), output=COUNT).structured_content == {"count": 3}
    assert result({"count": 3}, output=COUNT).structured_content == {"count": 3}
    assert result(Counted(3), output=COUNT).kind == "invalid_output"


def test_a_tool_without_a_handler_that_a_callback_answers_for_is_not_shaped(make, send):
    own = ToolResult("from the callback")
    assert send(make(None, output=COUNT), before=[lambda *_: own]).result is own


# What is odd ----------------------------------------------------------------------------------------------------------


class Words(str):  # noqa: SLOT000  as users write it
    """A string whose methods are broken."""

    def __len__(self):
        raise ValueError

    def __str__(self):
        return 5  # noqa: PLE0307  the point

    def isascii(self):
        raise ValueError

    def encode(self, *_):
        raise ValueError


class Mute:
    def __repr__(self):
        raise ValueError

    __str__ = __len__ = __iter__ = __eq__ = __hash__ = __repr__


class Touchy:
    @property
    def __class__(self):
        raise KeyError("touched")


class Raising(list):
    def __init__(self, error):
        super().__init__([1])
        self.error = error

    def __iter__(self):
        raise self.error


@pytest.mark.parametrize(
    ("value", "kind", "items"),
    [
        *((each, None, ["b", "a"]) for each in (iter("ba"), {"b": 1, "a": 2}.keys(), {1: "b", 2: "a"}.values())),
        (itertools.repeat("a"), "limit", None),
    ],
    ids=["iterator", "keys", "values", "without end"],
)
def test_a_declared_iterable_may_be_an_iterator_or_a_view_of_a_dict(send, value, kind, items):
    def letters() -> Iterable[str]:
        return value

    got = send(tool_of(tool(letters))).result
    assert (got.kind, got.structured_content) == (kind, items and {"result": items})


def test_a_text_of_another_class_is_its_text(result):
    (content,) = result(Words("words")).content
    assert (type(content.text), content.text) == (str, "words")
    assert result([Words("words")]).structured_content == ["words"]


@pytest.mark.parametrize(
    ("make_value", "kind", "text"),
    [
        (Mute, "invalid_output", "(root): "),
        (lambda: [1, Mute()], "invalid_output", "[1]: "),
        (lambda: [Touchy()], "invalid_output", "[0]: tests.dispatch.test_results.Touchy has no JSON form"),
        (lambda: Raising(ValueError("secret")), "invalid_output", "(root): ValueError"),
        (lambda: [Raising(TypeError("secret"))], "invalid_output", "(root): TypeError"),
        (lambda: (number for number in range(3)), "invalid_output", "generator has no JSON form"),
        (lambda: {"n": [10**5_000]}, "invalid_output", "n[0]: must have at most 4300 digits"),
        (lambda: {"n": {"a": 1, 1: "a", "1": 2}}, "invalid_output", "n: two keys are both written as '1'"),
        (lambda: ToolResult("a", [float("nan")]), "invalid_output", "[0]: nan is not a JSON number"),
        (lambda: ToolResult("a", {"a": Mute()}), "invalid_output", "a: "),
        (lambda: ToolResult("a", [0] * 1_100_000), "limit", "contains more than 1,000,000 values"),
    ],
    ids=range(11),
)
def test_any_return_value_gives_one_typed_result(make, send, make_value, kind, text):
    got = send(make(make_value, blocking=False)).result
    assert (got.kind, got.is_error) == (kind, True)
    assert text in got.text
    assert "secret" not in got.text


def test_the_operator_learns_what_was_raised(make, send):
    got = send(make(lambda: Raising(ValueError("secret")), blocking=False)).result
    assert "ValueError: secret" in got.detail


def test_a_tool_that_ends_the_program_while_its_result_is_read_costs_its_own_call(make, send):
    assert send(make(lambda: Raising(SystemExit()), blocking=False)).result.kind == "tool_failure"


def test_what_is_almost_json_in_a_result_of_the_tools_own_is_written_as_json(result):
    got = result(ToolResult("a", {"day": dt.date(2026, 1, 2), "colour": Colour.RED}))
    assert got.structured_content == {"day": "2026-01-02", "colour": "red"}


SMALL = [
    None,
    5,
    "words",
    b"bytes",
    {"a": 1, "b": [1, 2, {"c": None}]},
    {1: "a", (1, 2): "b"},
    [1] * 1_000,
    {1, 2},
    (1, "a"),
    deque([1]),
    Weather("Rome"),
    [Weather("Rome", 3)] * 100,
    One(Data(Pair(1, Hue.RED))),
    {"when": dt.date(2026, 1, 2), "price": decimal.Decimal(5)},
    "x" * 300_000,
    {"a": "x" * 5_000},
]
LARGE = [
    "x" * 400_000,
    b"x" * 400_000,
    bytearray(400_000),
    [1] * (MOST_AT_ONCE + 1),
    dict.fromkeys(range(MOST_AT_ONCE + 1)),
    {LONG: 1},
    {"a": LONG},
    Weather(LONG),
    Weather("Rome", [0] * 10_000),
    [[0] * 1_000] * 10,
    deep(100),
    shared(),
    cycle(),
    Unending(),
    [Unending()],
    object(),
    OrderedDict(),
    object.__new__(One),  # whose attribute isn't set
    (number for number in range(3)),
]


@pytest.mark.parametrize("value", SMALL, ids=range(len(SMALL)))
def test_what_is_small_and_known_is_not_large(value):
    for _ in range(2):  # the first pass fills the cache of classes
        assert values_left(value) >= 0


@pytest.mark.parametrize("value", LARGE, ids=range(len(LARGE)))
def test_large_or_unknown_values_exceed_the_budget(value):
    for _ in range(2):
        assert values_left(value) < 0


@pytest.mark.parametrize(
    "value", [[0] * 10_001, shared(), Unending(), {"a": Unending()}, [One(Unending())]], ids=range(5)
)
def test_too_many_values_are_refused_however_they_are_held(make, send, monkeypatch, value):
    monkeypatch.setattr("pegboard.dispatch.results.MOST_VALUES", 10_000)
    got = send(make(lambda: value, blocking=False)).result
    assert got.kind == "limit"
    assert got.text == "probe ran, but its result contains more than 10,000 values. Request less at once."


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([[0] * 100_000] * 9, None),
        ("x" * 2_000_000, None),
        (cycle(), "invalid_output"),
        (deep(200), "invalid_output"),
    ],
)
def test_what_is_not_too_much_is_written_or_refused_with_its_path(make, send, value, kind):
    assert send(make(lambda: value, blocking=False)).result.kind == kind


# Large values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("items", "is_on_the_loop"), [(100, True), (10_000, False)])
def test_a_small_value_is_shaped_on_the_loop_and_a_large_one_off_it(result, items, is_on_the_loop):
    threads = []

    class Noticing(pathlib.PurePosixPath):
        def __fspath__(self):
            threads.append(threading.current_thread())
            return "written"

    got = result([*range(items), Noticing()])
    assert [thread is threading.main_thread() for thread in threads] == [is_on_the_loop]
    assert got.structured_content == [*range(items), "written"]


def test_a_large_value_is_the_same_as_a_small_one(make, send):
    value = {"result": {"rows": [{"name": "caf\udce9", "n": n} for n in range(2_000)], "text": "x" * 400_000}}
    schema = {"type": "object", "properties": {"result": {"type": "object"}}, "required": ["result"]}
    limits = ResultLimits(lines=None, bytes=None)
    policy = Policy(result_limits=limits)
    got = send(make(lambda: value, blocking=False, output=schema, policy=policy)).result
    assert got.structured_content["result"]["rows"][1] == {"name": "caf\ufffd", "n": 1}
    assert json.loads(got.text) == got.structured_content


def test_a_large_value_is_held_to_the_schema_too(result):
    schema = {"type": "object", "properties": {"result": {"items": {"type": "string"}}}}
    got = result([*["a"] * 10_000, 5], output=schema)
    assert (got.kind, "result[10000]" in got.text) == ("invalid_output", True)


async def test_while_a_large_value_is_shaped_the_loop_goes_on(make, prepare):
    """The value is read only after the loop has done something else."""
    went_on = threading.Event()

    class Waiting(list):
        def __iter__(self):
            assert went_on.wait(60)
            return super().__iter__()

    state = prepare(make(lambda: Waiting([1, 2]), blocking=False))
    call = asyncio.ensure_future(run_call(state))
    asyncio.get_running_loop().call_later(0.01, went_on.set)
    await call
    assert state.result.structured_content == [1, 2]


@attrs.frozen
class Pair:
    """Two values."""

    one: Any
    other: Any


PARTS = JSON_TREES | st.sampled_from([math.nan, "\ud800", "ä", b"a", {1: 2}, {"mime_type": "a"}, TextContent("a"), {1}])
VALUES = st.recursive(PARTS, lambda inner: st.lists(inner, max_size=3) | st.builds(Pair, inner, inner), max_leaves=4)


@pytest.mark.slow
@given(VALUES, st.sampled_from([None, {"type": "object"}, {"type": "array"}, {"type": "string"}]), st.booleans())
def test_the_quick_result_is_the_result_or_none(value, output, wraps):
    handler = Handler(print, lambda: None, wraps_result=wraps)
    tool = Tool(ToolSpec("probe", input_schema={"type": "object"}, output_schema=output), handler)
    quick = quick_result(tool, value, Limits())
    assert quick is None or quick.to_data() == result_of(tool, value).to_data()


@given(JSON_TREES.filter(lambda value: value is not None), st.booleans())
def test_plain_data_needs_no_second_way(value, in_class):
    value = Pair(value, [value]) if in_class else value
    tool = Tool(ToolSpec("probe", input_schema={"type": "object"}), Handler(print, lambda: None))
    text = json.dumps(to_json_data(value), ensure_ascii=False)
    media = '^"data:' if isinstance(value, str) else '"(mime_type"|mimeType"|media_type"|data:)'
    assert (quick_result(tool, value, Limits()) is None) == (re.search(media, text) is not None)


@pytest.mark.parametrize("value", [[0] * (MOST_AT_ONCE + 1), "a" * 64 * (MOST_AT_ONCE + 1)])
@pytest.mark.parametrize("wrap", [lambda it: Pair(it, 0), lambda it: Pair(0, Pair(0, it)), lambda it: [Pair(it, it)]])
def test_large_data_in_a_class_is_no_quick_result(value, wrap):
    tool = Tool(ToolSpec("probe", input_schema={"type": "object"}), Handler(print, lambda: None))
    limits = Limits(results=ResultLimits(lines=None, bytes=None))
    assert quick_result(tool, wrap(value[:10]), limits) is not None
    assert quick_result(tool, wrap(value), limits) is None


@pytest.mark.parametrize(("own", "of_batch"), [(0.01, None), (60, 0.01)])
def test_reading_a_result_has_a_time_limit(make, own, of_batch):
    let_go = threading.Event()

    class Endless(list):
        def __iter__(self):
            let_go.wait(60)
            return super().__iter__()

    registry = ToolRegistry()
    registry.register(make(lambda: Endless([1]), blocking=False, policy=Policy(timeout=own)))
    (result,) = asyncio.run(registry.dispatch([ToolCall("probe")], timeout=of_batch)).results
    let_go.set()
    assert result.kind == "timeout"
    assert result.text == "probe ran, but its result could not be read within 0.01 s."


# What is too long -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "line\n" * 3_000,
        "x" * 60_000,
        "x" * 2_000_000,
        ToolResult("line\n" * 3_000),
        ["line"] * 20_000,
        b"x" * 11_000_000,
    ],
    ids=["lines", "bytes", "many bytes", "own result", "data", "file"],
)
def test_of_what_is_too_long_the_model_gets_a_part(make, send, value):
    got = send(make(lambda: value, blocking=False)).result
    assert got.metadata["truncated"] is True
    assert len(got.to_json()["content"][0]["text"]) < 52_000
    assert not got.is_error


def test_a_tools_own_limits_win_over_the_registrys(make, send):
    tool = make(lambda: "1\n2\n3\n", blocking=False, policy=Policy(result_limits=ResultLimits(lines=1)))
    assert send(tool).result.text.startswith("1\n[Only the first of 3 lines is")
    limits = attrs.evolve(Limits(), results=ResultLimits(lines=2))
    assert send(make(lambda: "1\n2\n3\n", blocking=False), limits=limits).result.text.startswith("1\n2\n[Only")


def test_the_json_encoder_refuses_nan():
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json([float("nan")])


# Exceptions -----------------------------------------------------------------------------------------------------------

EXPOSED = Limits(expose_errors=True)


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raising(error):
    """Runs in the loop, not in a thread: `test_run.py` has both."""

    async def tool(**_):
        raise error

    return tool


def test_a_tool_error_speaks_for_itself(make, send):
    result = send(make(raising(ToolError("The file is locked.", retryable=True, hint="Try again later.")))).result
    assert (result.is_error, result.kind) == (True, "tool_failure")
    assert result.text == "The file is locked.\nTry again later."
    assert result.metadata == {"retryable": True}
    assert "test_results.py" in result.detail
    assert "test_results.py" not in result.text


@pytest.mark.parametrize(("raised", "text"), [("Gone.", "Gone."), (404, "404")])
def test_a_tool_error_without_a_hint_is_its_text(make, send, raised, text):
    result = send(make(raising(ToolError(raised)))).result
    assert (result.text, result.metadata) == (text, {"retryable": False})


def test_a_tool_error_that_was_never_set_up_is_still_a_result(make, send):
    class CarelessError(ToolError):
        def __init__(self):
            pass

    result = send(make(raising(CarelessError()))).result
    assert (result.kind, result.text) == ("tool_failure", "probe failed.")
    assert "AttributeError" in result.detail


@pytest.mark.parametrize(
    "error",
    [
        ValueError("/etc/secret"),
        SystemExit("/etc/secret"),
        KeyboardInterrupt("/etc/secret"),
        RecursionError("/etc/secret"),
        GeneratorExit("/etc/secret"),
        MemoryError("/etc/secret"),
        TimeoutError("/etc/secret"),
        StopIteration("/etc/secret"),
        StopAsyncIteration("/etc/secret"),
        BaseExceptionGroup("/etc/secret", [SystemExit()]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_of_any_other_exception_the_model_learns_tool_and_type_only(make, send, error):
    state = send(make(raising(error)))
    assert (state.result.is_error, state.result.kind) == (True, "tool_failure")
    assert state.result.text == f"probe failed: {type(error).__name__}."
    assert "/etc/secret" in state.result.detail
    assert "Traceback" in state.result.detail
    assert state.fatal is None


@pytest.mark.parametrize(("error", "times"), [(KeyError("x"), 1), (ToolError("no"), 0), (asyncio.CancelledError(), 0)])
def test_only_unexpected_exceptions_are_logged(make, send, logged, error, times):
    send(make(raising(error)))
    assert logged() == [("probe", error)] * times


def test_real_recursion_is_an_error_result(make, send):
    async def endless(depth=0):
        return await endless(depth + 1)

    assert send(make(endless)).result.text == "probe failed: RecursionError."


def test_expose_errors_lets_the_message_through(make, send):
    tool = make(raising(ValueError("no such row")))
    assert send(tool, limits=EXPOSED).result.text == "probe failed: ValueError: no such row."


@pytest.mark.parametrize("limits", [Limits(), EXPOSED])
@pytest.mark.parametrize("exposes", [True, False])
def test_the_tools_own_policy_decides_before_the_registrys(make, send, limits, exposes):
    tool = make(raising(ValueError("no such row")), policy=Policy(expose_errors=exposes))
    assert ("no such row" in send(tool, limits=limits).result.text) is exposes


def test_an_exception_without_a_text_is_still_a_result(make, send):
    result = send(make(raising(UnprintableError())), limits=EXPOSED).result
    assert result.text == "probe failed: UnprintableError: (no text)."


def test_exposed_text_is_bounded(make, send):
    assert len(send(make(raising(ValueError("x" * 10_000))), limits=EXPOSED).result.text) < 2100


def test_detail_is_bounded():
    assert len(detail_of(ValueError("x" * 10 * MOST_DETAIL))) == MOST_DETAIL


def test_a_fatal_error_has_a_result_and_is_passed_on(make, send):
    error = FatalToolError("the account is closed")
    state = send(make(raising(error)))
    assert state.fatal is error
    assert (state.result.kind, state.result.text) == ("tool_failure", "probe failed: FatalToolError.")
