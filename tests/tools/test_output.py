from __future__ import annotations

import collections.abc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Generator, Iterable, Iterator
from typing import Annotated, Any, Literal, NoReturn, Optional, TypeVar

import attrs
import pytest

from pegboard.callbacks import Flavour
from pegboard.errors import DefinitionError
from pegboard.tools import signature as module
from pegboard.tools.content import ImageContent, TextContent, ToolResult
from pegboard.tools.signature import EMPTY, NO_OUTPUT, output_of, returned_by

T = TypeVar("T")


@attrs.frozen
class Result:
    total: int


RESULT = '{"type":"object","properties":{"total":{"type":"integer"}},"required":["total"],"additionalProperties":false}'


def wrapped(schema):
    return f'{{"type":"object","properties":{{"result":{schema}}},"required":["result"],"additionalProperties":false}}'


@pytest.mark.parametrize(
    "annotation",
    [
        EMPTY,
        Any,
        object,
        None,
        type(None),
        str,
        Annotated[str, "text"],
        bytes,
        ToolResult,
        ImageContent,
        TextContent | ImageContent,
        str | None,
        Optional[bytes],  # noqa: UP045  (as written by hand)
        list[ImageContent],
        list[str | ImageContent],
        tuple[TextContent, ImageContent],
        ToolResult | str | None,
        NoReturn,
        T,
    ],
)
def test_text_and_content_have_no_structured_result(annotation):
    assert output_of(annotation, tool="t") is NO_OUTPUT


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (Result, RESULT),
        (Result | ToolResult, RESULT),
        (Annotated[Result, 1], RESULT),
        (dict[str, int], '{"type":"object","additionalProperties":{"type":"integer"}}'),
        (dict, '{"type":"object","additionalProperties":true}'),
    ],
)
def test_objects_are_the_structured_result_themselves(annotation, schema):
    output = output_of(annotation, tool="t")
    assert (output.schema, output.is_wrapped) == (schema, False)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, '{"type":"integer"}'),
        (list[str], '{"type":"array","items":{"type":"string"}}'),
        (Literal["a", "b"], '{"type":"string","enum":["a","b"]}'),
        (int | ToolResult, '{"type":"integer"}'),
        (Result | None, f'{{"anyOf":[{RESULT},{{"type":"null"}}]}}'),
    ],
)
def test_everything_else_stands_under_result(annotation, schema):
    output = output_of(annotation, tool="t")
    assert (output.schema, output.is_wrapped) == (wrapped(schema), True)


def test_types_that_are_not_hashable_are_read_too():
    assert output_of(Annotated[int, {"minimum": 1}], tool="t").is_wrapped


def test_equal_types_keep_their_own_order():
    """Else the schema of a tool would depend on which other tools were made before it."""
    first, second = output_of(list[int | str], tool="t"), output_of(list[str | int], tool="t")
    assert first.schema != second.schema


def test_types_without_end_are_not_all_remembered(monkeypatch):
    monkeypatch.setattr(module, "_MOST_KNOWN", 2)
    schemas = [output_of(Literal[number], tool="t").schema for number in range(5)]
    assert len(set(schemas)) == 5
    assert len(module._known) <= 2


def test_the_way_back_is_made_at_first_use():
    assert output_of(Result, tool="t").make_unstructure()()(Result(1)) == {"total": 1}
    assert output_of(list[Result], tool="t").make_unstructure()()([Result(1)]) == [{"total": 1}]
    assert NO_OUTPUT.make_unstructure()() is None


def test_a_type_that_json_cannot_say_is_named():
    class Frame: ...

    with pytest.raises(DefinitionError) as caught:
        output_of(list[Frame], tool="t")
    assert caught.value.tool == "t"
    assert caught.value.parameter.startswith("return")
    assert "output_schema=None" in caught.value.hint


def plain(): ...
async def coroutine(): ...
def generator():
    yield


async def async_generator():
    yield


@pytest.mark.parametrize(
    ("function", "annotation", "flavour", "value"),
    [
        (plain, int, Flavour.PLAIN, int),
        (plain, EMPTY, Flavour.PLAIN, EMPTY),
        (plain, Iterable[int], Flavour.PLAIN, Iterable[int]),
        (plain, Awaitable[int], Flavour.ASYNC, int),
        (plain, Coroutine[Any, Any, int], Flavour.ASYNC, int),
        (plain, Iterator[int], Flavour.GENERATOR, list[int]),
        (plain, AsyncIterator[int], Flavour.ASYNC_GENERATOR, list[int]),
        (coroutine, int, Flavour.ASYNC, int),
        (coroutine, list[int], Flavour.ASYNC, list[int]),
        (generator, Iterator[int], Flavour.GENERATOR, list[int]),
        (generator, Iterable[int], Flavour.GENERATOR, list[int]),
        (generator, Generator[int, None, None], Flavour.GENERATOR, list[int]),
        (generator, Generator[str, None, int], Flavour.GENERATOR, int),
        (generator, Generator[str, None, Any], Flavour.GENERATOR, Any),
        (generator, Iterator[str], Flavour.GENERATOR, list[str]),
        (generator, Iterator[Any], Flavour.GENERATOR, EMPTY),
        (generator, Iterator[ImageContent], Flavour.GENERATOR, EMPTY),
        (generator, collections.abc.Iterator, Flavour.GENERATOR, EMPTY),
        (generator, EMPTY, Flavour.GENERATOR, EMPTY),
        (async_generator, AsyncGenerator[int, None], Flavour.ASYNC_GENERATOR, list[int]),
        (async_generator, EMPTY, Flavour.ASYNC_GENERATOR, EMPTY),
    ],
)
def test_what_a_call_gives_is_settled_by_code_and_type(function, annotation, flavour, value):
    returned = returned_by(function, annotation)
    assert (returned.flavour, returned.annotation) == (flavour, value)
