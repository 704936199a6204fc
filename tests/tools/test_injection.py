from __future__ import annotations

import asyncio
from typing import Annotated, Generic, Literal, Optional, TypeVar

import pytest

from pegboard.errors import DefinitionError, FatalToolError, MissingServiceError, ToolError
from pegboard.schema.json import StructureError
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.injection import Injected, Injection, injected_kind, opened
from pegboard.tools.tool import Tool, tool
from pegboard.tools.typed import tool_of

T = TypeVar("T")


class Database:
    """Stands for one."""


class Repository(Generic[T]): ...


DATABASE = Database()


def called(function, arguments, services=None):
    """What `function` gives as a tool's, called as dispatch calls it."""
    made = Tool.from_function(function)
    context = ToolContext(ReadonlyContext(user="ann"), tool=made.name, services=services or {})

    async def run():
        await opened(made.handler.injects, context)
        args, kwargs = made.bind(context, arguments)
        try:
            return function(*args, **kwargs)
        finally:
            await context.close_services()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (Injected[Database], Database),
        (Injected[Repository[int]], Repository[int]),
        (Annotated[Injected[Database], "more"], Database),
        (Injected[Database] | None, Database),
        (Optional[Injected[Database]], Database),  # noqa: UP045  (the other way to write it)
        (Injected[Database | None], Database),
        (Database, None),
        (Annotated[Database, "injected"], None),
        (Database | None, None),
        (list[Injected[Database]], None),
    ],
)
def test_an_annotation_says_what_is_injected(annotation, kind):
    assert injected_kind(annotation) == kind


def test_the_marker_shows_itself():
    assert repr(Injected[Database]).endswith("Database, injected]")


def test_what_is_injected_is_hidden_from_the_model():
    @tool
    def function(a: int, db: Injected[Database], log: Injected[Database] | None = None): ...

    made = tool_of(function)
    assert list(made.spec.input_schema["properties"]) == ["a"]
    assert made.handler.injects == (Injection("db", Database), Injection("log", Database, is_optional=True))


def test_a_tool_without_injection_pays_nothing():
    @tool
    def function(a: str, b: str): ...

    made = tool_of(function)
    arguments = {"a": "x", "b": "y"}
    assert made.handler.injects == ()
    assert made.bind(ToolContext(), arguments)[1] is arguments


@pytest.mark.parametrize("place", range(7))
def test_services_are_passed_wherever_their_parameter_stands(place):
    def first(db: Injected[Database], a: int, context: ToolContext):
        return db, a, context.user

    def last(context: ToolContext, a: int, db: Injected[Database]):
        return db, a, context.user

    def keyword(a: int, *, db: Injected[Database], context: ToolContext):
        return db, a, context.user

    def positional(db: Injected[Database], a: int, context: ToolContext, /):
        return db, a, context.user

    def before_a_star(context: ToolContext, db: Injected[Database], *a: int):
        return db, a[0], context.user

    def open_ended(a: int, db: Injected[Database], context: ToolContext, **rest: int):
        return db, a, context.user

    def structured(a: Annotated[int, "x"], db: Injected[Database], context: ToolContext, day: str = "x"):
        return db, a, context.user

    function = [first, last, keyword, positional, before_a_star, open_ended, structured][place]
    arguments = {"a": [1]} if function is before_a_star else {"a": 1}
    assert called(function, arguments, {Database: DATABASE}) == (DATABASE, 1, "ann")


def test_a_parameter_with_a_default_may_stay_without_a_service():
    def by_name(a: int, db: Injected[Database] | None = None):
        return db

    def by_position(a: int, db: Injected[Database] | None = None, /):
        return db

    for function in (by_name, by_position):
        assert called(function, {"a": 1}) is None
        assert called(function, {"a": 1}, {Database: DATABASE}) is DATABASE


def test_the_handler_of_a_schema_gets_services_too():
    def handler(arguments, db: Injected[Database], note: Injected[str] = "default"):
        return arguments, db, note

    made = Tool.from_schema("t", {"type": "object"}, handler)
    context = ToolContext(services={Database: DATABASE})
    asyncio.run(opened(made.handler.injects, context))
    args, kwargs = made.bind(context, {"a": 1})
    assert handler(*args, **kwargs) == ({"a": 1}, DATABASE, "default")


def test_methods_get_services():
    class Desk:
        @tool
        def find(self, a: int, db: Injected[Database]):
            return db

    from pegboard.tools.typed import _tools_of

    (made,) = _tools_of(Desk())
    context = ToolContext(services={Database: DATABASE})
    asyncio.run(opened(made.handler.injects, context))
    assert made.bind(context, {"a": 1}) == ((), {"a": 1, "db": DATABASE})


def test_the_model_cannot_fill_what_is_injected():
    def function(a: int, db: Injected[Database], **rest: int): ...

    with pytest.raises(StructureError, match="db: unknown key"):
        Tool.from_function(function).bind(ToolContext(), {"a": 1, "db": 5})


def test_arguments_are_checked_without_opening_anything():
    def function(a: int, db: Injected[Database]): ...

    made = Tool.from_function(function, examples=[{"a": 1}])
    assert made.check({"a": 1}) == ()
    assert made.check({"a": 1, "db": 1}) != ()


async def makes_one(context):
    yield Database()
    context.values["closed"] = True


def test_what_is_opened_for_a_parameter_is_closed_after_the_call():
    made = Tool.from_function(lambda a: a, name="t")
    context = ToolContext(services={Database: makes_one})

    async def run():
        await opened((Injection("db", Database),), context)
        assert isinstance(context.service(Database), Database)
        assert "closed" not in context.values
        await context.close_services()

    asyncio.run(run())
    assert context.values == {"closed": True}
    assert made.handler.injects == ()


def test_a_missing_service_is_told_to_the_operator_and_little_to_the_model():
    def lookup(db: Injected[Database]): ...

    with pytest.raises(ToolError) as caught:
        called(lookup, {})
    assert caught.value.text == "lookup isn't set up here, so it can't run. Do without it, or say so."
    assert isinstance(caught.value.__cause__, MissingServiceError)
    assert "registry.provide(Database, ...)" in str(caught.value.__cause__)


def test_a_service_that_cannot_be_opened_is_told_so_too():
    def lookup(db: Injected[Database]): ...

    def fails():
        raise ConnectionError("postgres://user:secret@host")

    with pytest.raises(ToolError) as caught:
        called(lookup, {}, {Database: fails})
    assert caught.value.text == "lookup can't run now: something that it needs can't be opened."
    assert isinstance(caught.value.__cause__, ConnectionError)


@pytest.mark.parametrize("error", [ToolError("log in first"), FatalToolError("stop")])
def test_a_factory_may_speak_to_the_model_and_may_end_the_turn(error):
    def lookup(db: Injected[Database]): ...

    def fails():
        raise error

    with pytest.raises(type(error)) as caught:
        called(lookup, {}, {Database: fails})
    assert caught.value is error


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def function(db: Injected[int | str]): ...", "a service is found by its class or protocol"),
        ("def function(db: Injected[Literal[1]]): ...", "a service is found by its class or protocol"),
        ("def function(db: Injected[ReadonlyContext]): ...", "a service is found by its class or protocol"),
        ("def function(*db: Injected[Database]): ...", "a service can't be starred"),
        ("def function(**db: Injected[Database]): ...", "a service can't be starred"),
    ],
)
def test_what_cannot_be_injected_is_refused_at_definition(source, message):
    names = {
        "Injected": Injected,
        "Database": Database,
        "Literal": Literal,
        "ReadonlyContext": ReadonlyContext,
    }
    exec(source, names)
    with pytest.raises(DefinitionError, match=message) as caught:
        Tool.from_function(names["function"])
    assert caught.value.parameter == "db"
