from __future__ import annotations

import collections.abc
import functools
import inspect
import sys
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Generator, Iterable, Iterator
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NoReturn,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Unpack,
)

import attrs
import pytest
import typing_extensions
from pydantic import Field

from pegboard import (
    ImageContent,
    Injected,
    ReadonlyContext,
    TextContent,
    ToolContext,
    ToolRegistry,
    ToolResult,
    schema_of,
    tool,
)
from pegboard.callbacks import CallableKind
from pegboard.errors import DefinitionError
from pegboard.tools.signature import EMPTY, OMITTED, is_method, output_of, read_return, signature_of

if TYPE_CHECKING:
    from nowhere import Missing


Row = dict[str, int]


class Extra(TypedDict, total=False):
    """What `**options` may hold."""

    depth: Required[int]
    note: str
    later: NotRequired[Row]


def annotations(function, **options):
    return {each.name: each.annotation for each in signature_of(function, tool="t", **options).parameters}


def test_local_types_are_found():
    class Local: ...

    def function(a: Local, b: list[Local]) -> Local: ...

    assert annotations(function) == {"a": Local, "b": list[Local]}
    assert signature_of(function, tool="t").returns is Local


def test_types_of_an_enclosing_function_are_found_after_it_has_returned():
    def make():
        class Local: ...

        def function(a: Local):
            return Local()

        return function, Local

    function, local = make()
    assert annotations(function) == {"a": local}


def test_unassigned_names_of_the_enclosing_function_are_ignored():
    def function(a: int):
        return later

    assert annotations(function) == {"a": int}
    later = 1
    assert function(1) == later


def test_names_nested_in_types_are_resolved():
    def function(a, b, c, d, e): ...

    function.__annotations__ = {
        "a": list["Row"],
        "b": Annotated["Row", "text"],
        "c": typing.Literal["Row"],
        "d": typing.Callable[["Row"], int],
        "e": Annotated[int, {"not": "hashable"}],
    }
    assert annotations(function) == {
        "a": list[Row],
        "b": Annotated[Row, "text"],
        "c": typing.Literal["Row"],
        "d": typing.Callable[[Row], int],
        "e": Annotated[int, {"not": "hashable"}],
    }


def test_a_name_for_type_checkers_only_is_refused_with_the_fix():
    def function(good: int, bad: list[Missing]): ...

    with pytest.raises(DefinitionError) as caught:
        signature_of(function, tool="t")
    assert (caught.value.tool, caught.value.parameter, caught.value.annotation) == ("t", "bad", "list[Missing]")
    assert "'Missing', which isn't defined at run time" in str(caught.value)
    assert "outside `if TYPE_CHECKING:`" in str(caught.value)


def test_the_return_type_is_named_as_such():
    def function() -> Missing: ...

    with pytest.raises(DefinitionError) as caught:
        signature_of(function, tool="t")
    assert caught.value.parameter == "return"


@pytest.mark.parametrize("text", ["list[", "typing.Nothing", "int[str]"])
def test_a_string_that_is_not_a_type_is_refused(text):
    def function(a): ...

    function.__annotations__["a"] = text
    with pytest.raises(DefinitionError, match="can't be evaluated"):
        signature_of(function, tool="t")


def test_a_union_with_an_annotated_schema_works_or_is_refused_with_a_hint():
    def function(a: Annotated[int, {"minimum": 1}] | None): ...

    Price = typing_extensions.TypeAliasType("Price", Annotated[int, {"minimum": 1}])  # noqa: N806  (a type)
    union: Any = Price | None
    if sys.version_info >= (3, 13):  # Python can make such a union
        union = signature_of(function, tool="t").visible[0].annotation
    else:
        with pytest.raises(DefinitionError, match=r"name it first, X = TypeAliasType"):
            signature_of(function, tool="t")
    assert schema_of(union)["anyOf"] == [{"type": "integer", "minimum": 1}, {"type": "null"}]


@pytest.mark.parametrize(
    "annotation",
    [
        ToolContext,
        "ToolContext",
        Optional[ToolContext],  # noqa: UP045  (as written by hand)
        ToolContext | None,
        Annotated[ToolContext, "hidden"],
        "Annotated[ToolContext, 'hidden'] | None",
    ],
)
def test_the_context_is_found_however_it_is_written(annotation):
    def function(a, context=None): ...

    function.__annotations__["context"] = annotation
    signature = signature_of(function, tool="t")
    assert [each.annotation is ToolContext for each in signature.parameters] == [False, True]
    assert [each.name for each in signature.visible] == ["a"]


def test_types_of_enclosing_classes_and_functions_are_found():
    class Outer: ...

    def define():
        class Thing:
            class Inner: ...

            def method(self, a: Outer, b: Inner): ...

            found = annotations(method, method=True)

        return Thing

    thing = define()
    assert thing.found == {"a": Outer, "b": thing.Inner}


def test_a_local_type_hides_one_of_the_module():
    class Row: ...

    def function(a: Row): ...

    assert annotations(function) == {"a": Row}


def test_types_of_callers_are_not_used():
    """A type of the same name there would be another one."""

    class Missing: ...

    with pytest.raises(DefinitionError, match="isn't defined at run time"):
        signature_of(mentions_missing, tool="t")


def mentions_missing(a: Missing): ...


def test_unpacked_keys_are_keyword_parameters():
    def function(a: int, **options: Unpack[Extra]): ...

    parameters = signature_of(function, tool="t").parameters
    assert [(each.name, each.annotation, each.default) for each in parameters] == [
        ("a", int, EMPTY),
        ("depth", int, EMPTY),
        ("note", str, OMITTED),
        ("later", Row, OMITTED),
    ]


class Own(ToolContext): ...


@pytest.mark.parametrize(
    ("parameters", "name", "message"),
    [
        ("a: ToolContext, b: ToolContext", "b", "a second parameter takes the context"),
        ("*context: ToolContext", "context", r"the context can't be \*args"),
        ("context: ReadonlyContext", "context", "Annotate it ToolContext"),
        ("context: Own", "context", "Annotate it ToolContext"),
        ("**options: Unpack[int]", "options", "its type .* isn't Unpack of a TypedDict"),
        ("db: Injected[int | str]", "db", "a service is found by its class or protocol"),
        ("db: Injected[Literal[1]]", "db", "a service is found by its class or protocol"),
        ("db: Injected[ReadonlyContext]", "db", "a service is found by its class or protocol"),
        ("*db: Injected[Own]", "db", "a service is found by its class or protocol"),
        ("*db: Injected[Result]", "db", r"a service can't be \*args"),
        ("**db: Injected[Result]", "db", r"a service can't be \*args"),
        ("*rest: Annotated[int, Field(default=3)]", "rest", r"what has a default can't be \*args"),
        ("**rest: Annotated[int, Field(default=3)]", "rest", r"what has a default can't be \*args"),
    ],
)
def test_invalid_parameters_are_refused(parameters, name, message):
    names = {each.__name__: each for each in (ToolContext, ReadonlyContext, Own, Result)}
    names |= {"Injected": Injected, "Literal": Literal, "Unpack": Unpack, "Annotated": Annotated, "Field": Field}
    exec(f"def function({parameters}): ...", names)
    with pytest.raises(DefinitionError, match=message) as caught:
        signature_of(names["function"], tool="t")
    assert caught.value.parameter == name


def test_bound_and_hidden_names_cannot_go_to_kwargs():
    class Thing:
        def method(self, a, b, context: ToolContext, /, c, **rest): ...

    bound = functools.partial(Thing().method, 1, c=2)
    assert signature_of(bound, tool="t").reserved == {"self", "a", "c", "context"}


class Service:
    """Methods and what only looks like one."""

    def method(self): ...

    @classmethod
    def of_class(cls): ...

    @staticmethod
    def static(a): ...

    @staticmethod
    def static_with_self(self: int): ...  # noqa: PLW0211  (that is the point)

    @functools.wraps(method)
    def wrapped(*args): ...


def test_methods_are_distinguished_from_functions():
    def function(self): ...

    assert is_method(Service.method)
    assert is_method(Service.of_class.__func__)
    assert is_method(Service.wrapped)
    assert not is_method(Service.static)
    assert not is_method(Service.static_with_self)
    assert not is_method(function)
    assert not is_method(len)
    assert not is_method(lambda: None)


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
    assert output_of(annotation, tool="t") == (None, False)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        *((each, RESULT) for each in (Result, Result | ToolResult, Annotated[Result, 1])),
        (dict[str, int], '{"type":"object","additionalProperties":{"type":"integer"}}'),
        (dict, '{"type":"object","additionalProperties":true}'),
    ],
)
def test_objects_are_the_structured_result_themselves(annotation, schema):
    assert output_of(annotation, tool="t") == (schema, False)


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
def test_other_types_are_wrapped_in_result(annotation, schema):
    assert output_of(annotation, tool="t") == (wrapped(schema), True)


def plain(): ...


async def coroutine(): ...


def generator():
    yield


async def async_generator():
    yield


@pytest.mark.parametrize(
    ("function", "annotation", "flavour", "value"),
    [
        (plain, int, CallableKind.PLAIN, int),
        (plain, EMPTY, CallableKind.PLAIN, EMPTY),
        (plain, Iterable[int], CallableKind.PLAIN, Iterable[int]),
        (plain, Awaitable[int], CallableKind.ASYNC, int),
        (plain, Awaitable, CallableKind.ASYNC, EMPTY),
        (plain, typing.Awaitable, CallableKind.ASYNC, EMPTY),
        (plain, Coroutine[Any, Any, int], CallableKind.ASYNC, int),
        (plain, Iterator[int], CallableKind.GENERATOR, list[int]),
        (plain, AsyncIterator[int], CallableKind.ASYNC_GENERATOR, list[int]),
        (coroutine, int, CallableKind.ASYNC, int),
        (coroutine, list[int], CallableKind.ASYNC, list[int]),
        (generator, Iterator[int], CallableKind.GENERATOR, list[int]),
        (generator, Iterable[int], CallableKind.GENERATOR, list[int]),
        (generator, Generator[int, None, None], CallableKind.GENERATOR, list[int]),
        (generator, Generator[str, None, int], CallableKind.GENERATOR, int),
        (generator, Generator[str, None, Any], CallableKind.GENERATOR, Any),
        (generator, Iterator[str], CallableKind.GENERATOR, list[str]),
        *((generator, each, CallableKind.GENERATOR, EMPTY) for each in (Iterator[Any], Iterator[ImageContent])),
        *((generator, each, CallableKind.GENERATOR, EMPTY) for each in (collections.abc.Iterator, EMPTY)),
        (async_generator, AsyncGenerator[int, None], CallableKind.ASYNC_GENERATOR, list[int]),
        (async_generator, EMPTY, CallableKind.ASYNC_GENERATOR, EMPTY),
    ],
)
def test_the_flavour_is_decided_by_code_and_type(function, annotation, flavour, value):
    assert read_return(function, annotation) == (flavour, value)


def test_a_builtin_without_a_signature_is_refused():
    with pytest.raises(DefinitionError, match="signature can't be read"):
        signature_of(max, tool="t")


# --- signatures that no call can satisfy ---


class Shop:
    def stock(self, item: str) -> str:
        return item

    @staticmethod
    def count(item: str) -> str:
        return item

    nails = functools.partialmethod(stock, item="nails")


@pytest.mark.parametrize("function", [Shop.stock, Shop.nails, functools.partial(Shop.stock, item="x"), str.upper])
def test_a_method_without_its_instance_is_refused(function):
    with pytest.raises(DefinitionError, match="a method without its instance"):
        signature_of(function, tool="t")


@pytest.mark.parametrize("function", [Shop().stock, Shop.count, functools.partial(Shop.stock, Shop())])
def test_a_method_with_its_instance_is_a_function(function):
    assert [each.name for each in signature_of(function, tool="t").parameters] == ["item"]


def filled(function):
    """A decorator that fills a parameter itself."""

    @functools.wraps(function)
    def inner(x):
        return function(x, key="k")

    return inner


def passed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


def renamed(function):
    @functools.wraps(function)
    def inner(other):
        return function(other)

    return inner


def given_more(function):
    @functools.wraps(function)
    def inner(*args, more, **kwargs):
        return function(*args, **kwargs)

    return inner


class Filled:
    """A decorator whose objects fill a parameter themselves."""

    def __init__(self, function):
        functools.update_wrapper(self, function)

    def __call__(self, x): ...


def required(x: int, key: str): ...
def optional(x: int, key: str = ""): ...
def one(x: int): ...
def rest(x: int, *more: int, **others: int): ...
def claimed(x: int): ...


claimed.__signature__ = inspect.signature(required)


@functools.wraps(given_more(one))
def shown(x: int):
    return given_more(one)(x, more=1)


shown.__signature__ = inspect.signature(one)


@pytest.mark.parametrize(
    "function",
    [
        filled(required),
        filled(optional),
        passed(filled(required)),
        filled(passed(required)),
        renamed(one),
        renamed(rest),
        given_more(one),
        claimed,
        functools.partial(filled(required), 1),
        functools.lru_cache(filled(required)),
        Filled(required),
        passed(Filled(required)),
    ],
)
def test_a_wrapper_that_doesnt_take_what_its_signature_shows_is_refused(function):
    with pytest.raises(DefinitionError, match="doesn't take what its signature shows"):
        signature_of(function, tool="t")


@pytest.mark.parametrize(
    "function",
    [filled(one), passed(required), passed(rest), functools.partial(passed(required), 1), functools.cache(one), shown],
)
def test_a_wrapper_that_takes_what_it_shows_is_accepted(function):
    assert signature_of(function, tool="t").parameters


def test_local_classes_refer_to_each_other_by_name():
    @attrs.frozen
    class Inner:
        size: int

    class Row(TypedDict):
        inner: Inner

    @tool
    def largest(rows: list[Row]) -> int:
        return max(each["inner"].size for each in rows)

    registry = ToolRegistry()
    registry.register(largest)
    assert registry.call_sync("largest", {"rows": [{"inner": {"size": 3}}]}).structured_content == {"result": 3}
