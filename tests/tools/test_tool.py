"""Tools: of functions, methods, schemas, texts; what a tool knows of itself; code that is found at the first call."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import math
import sys
import threading
import types
from typing import Annotated, Any, Literal

import attrs
import pytest
import typing_extensions

from pegboard import (
    Grammar,
    Once,
    Origin,
    ReadonlyContext,
    Reshape,
    StaticToolset,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolSpec,
    TypedTool,
    tool,
    tool_of,
    wrap,
)
from pegboard.errors import DefinitionError, InvalidNameError, SchemaError


def function(day: dt.date, count: int = 1) -> dt.date:
    return day


@pytest.fixture
def made():
    return Tool.from_function(function)


def test_a_check_validates_then_structures_then_calls_the_tools_own(made):
    asked = []

    def own(arguments):
        asked.append(arguments)
        return (f"count: reason {index}" for index in range(30))

    made = made.evolve(checks=own)
    assert made.check({"count": "x"}) == (
        'count: must be an integer, got string "x"',
        "day: required, missing",
    )
    assert made.check({"day": "never"})[0].startswith("day: ")
    assert asked == []
    assert len(made.check({"day": "2026-01-02"})) == 20
    assert asked == [{"day": "2026-01-02"}]


def test_a_check_takes_any_mapping(made):
    assert made.check(types.MappingProxyType({"day": "2026-01-02"})) == ()
    assert made.check(types.MappingProxyType({"day": b""}))[0].startswith("day: must be JSON")


@pytest.mark.parametrize("handler", [None, Tool.lazy(ToolSpec("a"), "module:function").handler])
def test_without_its_code_a_tool_is_checked_by_its_schema(handler):
    made = Tool(ToolSpec("a"), handler)
    assert made.check({}) == ()
    assert made.check({"x": 1}) == ("x: unknown key (no keys are known here)",)


def test_a_changed_tool_has_a_new_validator(made):
    assert made.check({"day": "2026-01-02"}) == ()
    closed = made.with_spec(input_schema={"type": "object", "maxProperties": 0})
    assert closed.check({"day": "2026-01-02"}) == ("(root): must have at most 0 keys, got 1",)
    assert made.evolve(origin=Origin("p")).origin.plugin == "p"


CONTEXT = ToolContext(call_id="c1")


@attrs.frozen
class Filter:
    """A condition."""

    field: str
    value: float


def run(made, arguments, context=CONTEXT):
    """What the tool's function gives for a call with these arguments, which have to be valid."""
    assert made.check(arguments) == ()
    args, kwargs = made.bind(context, arguments)
    return made.handler.function(*args, **kwargs)


def search(
    query: str,
    limit: Annotated[int, "How many.", {"maximum": 100}] = 10,
    mode: Literal["fast", "exact"] = "fast",
    filters: list[Filter] | None = None,
    *,
    context: ToolContext,
) -> list[str]:
    """Search the warehouse.

    In order.

    Args:
        query: What to look for.
        limit: From the docstring.
        filters: Conditions.
    """
    return [query, str(limit), mode, *(each.field for each in filters or ()), context.call_id]


def test_the_spec_is_derived_from_the_function():
    made = Tool.from_function(search)
    assert made.spec.to_json() == {
        "name": "search",
        "description": "Search the warehouse.\n\nIn order.",
        "kind": "function",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "description": "How many.", "maximum": 100, "default": 10},
                "mode": {"type": "string", "enum": ["fast", "exact"], "default": "fast"},
                "filters": {
                    "anyOf": [
                        {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "description": "A condition.",
                                "properties": {"field": {"type": "string"}, "value": {"type": "number"}},
                                "required": ["field", "value"],
                                "additionalProperties": False,
                            },
                        },
                        {"type": "null"},
                    ],
                    "description": "Conditions.",
                    "default": None,
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {"result": {"type": "array", "items": {"type": "string"}}},
            "required": ["result"],
            "additionalProperties": False,
        },
    }


class Described:
    """As pydantic's Field has it."""

    description = "From the annotation."


@pytest.mark.parametrize(
    "marker",
    [
        "From the annotation.",
        {"description": "From the annotation."},
        typing_extensions.Doc("From the annotation."),
        Described(),
    ],
)
def test_annotated_descriptions_win_over_the_docstring(marker):
    def function(a, b): ...

    function.__doc__ = "Do.\n\nArgs:\n    a: From the docstring.\n    b: From the docstring."
    function.__annotations__ = {"a": Annotated[int, marker], "b": Annotated[int, 5, {"minimum": 1}, math]}
    properties = Tool.from_function(function).spec.input_schema["properties"]
    assert properties["a"]["description"] == "From the annotation."
    assert properties["b"]["description"] == "From the docstring."


def test_a_call_reaches_the_function():
    made = Tool.from_function(search)
    assert run(made, {"query": "q"}) == ["q", "10", "fast", "c1"]
    arguments = {"query": "q", "limit": 1, "mode": "exact", "filters": [{"field": "f", "value": 1}]}
    assert run(made, arguments) == ["q", "1", "exact", "f", "c1"]


def test_a_decorated_function_can_be_called_as_before():
    def add(a: int, b: int = 1) -> int:
        return a + b

    assert tool(add) is add
    assert add(1, 2) == 3
    assert run(tool_of(add), {"a": 1}) == 2


class Adder:
    """Adds what it was made with."""

    def __init__(self, more: int) -> None:
        self.more = more

    def __call__(self, a: int) -> int:
        """Add."""
        return a + self.more

    def add(self, a: int) -> int:
        return a + self.more


def test_bound_methods_partials_and_callable_objects_are_functions():
    made = Tool.from_function(Adder(1).add)
    assert (made.name, run(made, {"a": 1})) == ("add", 2)
    made = Tool.from_function(Adder(2))
    assert (made.name, made.spec.description, run(made, {"a": 1})) == ("adder", "Add.", 3)
    made = Tool.from_function(functools.partial(functools.partial(search, mode="exact"), limit=3))
    assert (made.name, made.spec.description) == ("search", "Search the warehouse.\n\nIn order.")
    assert made.spec.input_schema["properties"].keys() == {"query", "filters"}
    assert run(made, {"query": "q"}) == ["q", "3", "exact", "c1"]


def test_wrappers_keep_the_signature_and_run():
    calls = []

    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            calls.append(kwargs)
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    def below(a: int) -> int:
        return a

    @logged
    @tool
    def above(a: int) -> int:
        return a

    assert run(tool_of(below), {"a": 1}) == 1
    assert run(tool_of(above), {"a": 2}) == 2
    assert calls == [{"a": 1}, {"a": 2}]


def test_a_lambda_needs_a_name():
    with pytest.raises(DefinitionError, match=r"a lambda has no name\. Pass name="):
        Tool.from_function(lambda a: a)
    assert Tool.from_function(lambda a: a, name="same").name == "same"


def test_classes_and_bound_methods_cannot_be_decorated():
    with pytest.raises(DefinitionError, match="Adder is a class"):
        tool(Adder)
    with pytest.raises(DefinitionError, match=r"Tool\.from_function"):
        tool(Adder(1).add)


class Socket:
    """No JSON becomes one."""


def test_a_return_type_without_a_schema_is_refused_with_a_hint():
    def function() -> Socket: ...

    with pytest.raises(DefinitionError, match="output_schema=None") as caught:
        Tool.from_function(function)
    assert caught.value.parameter == "return"
    assert Tool.from_function(function, output_schema=None).spec.output_schema is None


def test_stars_are_arrays_and_open_objects():
    def function(a: int, /, *names: str, **others: float):
        return a, names, others

    made = Tool.from_function(function)
    schema = made.spec.input_schema
    assert schema["properties"]["names"] == {"type": "array", "items": {"type": "string"}, "default": []}
    assert (schema["required"], schema["additionalProperties"]) == (["a"], {"type": "number"})
    assert run(made, {"a": 1, "names": ["x"], "b": 2.5}) == (1, ("x",), {"b": 2.5})
    assert made.check({"a": 1, "b": "x"}) == ('b: must be a number, got string "x"',)


def test_a_function_without_types_takes_anything():
    def function(a, b=1, **rest):
        return a, b, rest

    made = Tool.from_function(function)
    assert made.spec.input_schema["properties"] == {"a": {}, "b": {"default": 1}}
    assert run(made, {"a": None, "c": [1]}) == (None, 1, {"c": [1]})


def test_options_may_be_functions_of_the_arguments():
    class Disk:
        full = True

        def _destroys(self, arguments: dict[str, Any]) -> bool:
            return self.full and arguments["path"] != "/tmp"

        @tool(destructive=_destroys, concurrency=lambda arguments: "shared")
        def wipe(self, path: str) -> None: ...

    made = tool_of(Disk().wipe)
    assert made.by_arguments["destructive"]({"path": "/"}) is True
    assert made.concurrency({"path": "/"}).mode == "shared"


def test_a_preview_gets_the_context_if_it_asks_for_it():
    seen = []

    def show(arguments, *, context):
        return f"{context.user}: {arguments['query']}"

    def approve(request, context):
        seen.append(request.preview.summary)
        return Once()

    class Typed(TypedTool[str, str]):
        destructive = True

        def call(self, context: ToolContext, query: str) -> str:
            return query

        def preview(self, query: str, context: ReadonlyContext) -> str:
            return f"typed {context.user}: {query}"

    shown = StaticToolset("t", [Tool.from_function(search, name="shown", preview=show, destructive=True)])
    registry = ToolRegistry(approver=approve)
    registry.register(shown.reshaped({"shown": Reshape(rename={"query": "words"})}), Typed())
    for name, arguments in (("shown", {"words": "q"}), ("typed", {"query": "q"})):
        asyncio.run(registry.call(name, arguments, ReadonlyContext(user="ann")))
    assert seen == ["ann: q", "typed ann: q"]


INPUT = {
    "type": "object",
    "properties": {"query": {"type": "string", "minLength": 3}, "limit": {"type": "integer"}},
    "required": ["query"],
}


def test_schemas_may_be_given():
    output = {"type": "object", "properties": {"rows": {"type": "integer"}}}
    made = Tool.from_function(search, input_schema=INPUT, output_schema=output)
    assert (made.spec.input_schema, made.spec.output_schema) == (INPUT, output)
    assert not made.handler.wraps_result
    assert made.check({"query": "q"}) == ("query: must have at least 3 characters, got 1",)


def test_the_types_validate_too_if_the_given_schema_is_wider():
    made = Tool.from_function(search, input_schema={"type": "object", "properties": {}, "required": ["query"]})
    assert made.check({"query": 5}) == ("query: must be a string, got number 5",)


@pytest.mark.parametrize(
    ("schema", "parameter"),
    [
        ({**INPUT, "required": []}, "query"),
        ({**INPUT, "properties": {**INPUT["properties"], "nosuch": {}}}, "nosuch"),
    ],
)
def test_a_given_schema_that_drifts_from_the_function_is_refused(schema, parameter):
    with pytest.raises(DefinitionError) as caught:
        Tool.from_function(search, input_schema=schema)
    assert caught.value.parameter == parameter


def test_an_open_function_takes_a_schema_with_more_properties():
    made = Tool.from_function(lambda **rest: rest, name="t", input_schema={"type": "object", "properties": {"a": {}}})
    assert run(made, {"a": 1}) == {"a": 1}


@pytest.mark.parametrize("schema", [{"type": "array"}, False, [], "", 0])
def test_given_schemas_are_checked(schema):
    with pytest.raises(SchemaError):
        Tool.from_schema("raw", schema)
    for option in ("input_schema", "output_schema"):
        with pytest.raises(DefinitionError, match=option):
            Tool.from_function(search, **{option: schema})


# ---- methods ----


class Store:
    """Holds rows."""

    def __init__(self, rows: dict[str, int]) -> None:
        self.rows = rows

    def _preview(self, arguments: dict[str, Any]) -> str:
        return f"{arguments['key']} of {len(self.rows)}"

    @tool(preview=_preview, check=lambda arguments: None)
    def read(self, key: str) -> int:
        """Read a row."""
        return self.rows[key]

    @classmethod
    @tool
    def kind(cls, suffix: str) -> str:
        return cls.__name__ + suffix

    @tool
    @classmethod
    def kind_too(cls, suffix: str) -> str:
        return cls.__name__ + suffix

    @staticmethod
    @tool
    def twice(a: int) -> int:
        return 2 * a

    @tool
    @staticmethod
    def thrice(a: int) -> int:
        return 3 * a


def test_a_method_belongs_to_its_instance():
    one, other = Store({"a": 1}), Store({"a": 2, "b": 3})
    assert one.read("a") == 1
    assert tool_of(one.read).spec.input_schema["required"] == ["key"]
    assert run(tool_of(one.read), {"key": "a"}) == 1
    assert run(tool_of(other.read), {"key": "a"}) == 2
    assert tool_of(other.read).preview({"key": "a"}) == "a of 2"
    assert tool_of(one.read).spec is tool_of(other.read).spec


def test_class_and_static_methods_are_tools_in_either_order():
    class Derived(Store): ...

    assert run(tool_of(Derived.kind), {"suffix": "!"}) == "Derived!"
    assert run(tool_of(Derived({}).kind_too), {"suffix": "!"}) == "Derived!"
    assert run(tool_of(Store.twice), {"a": 2}) == 4
    assert run(tool_of(Store({}).thrice), {"a": 2}) == 6
    assert (Store.kind("?"), Store.kind_too("?"), Store.twice(1), Store.thrice(1)) == ("Store?", "Store?", 2, 3)


def test_errors_in_methods_are_raised_with_the_class_definition():
    with pytest.raises(DefinitionError, match=r"tool 'method': 'bad\[\]': Store has no JSON Schema\. Pass"):

        class Broken:
            @tool
            def method(self, bad: list[Store]): ...


# ---- raw schemas, text, providers ----


def test_a_raw_schema_has_a_handler_on_a_mapping():
    def handler(arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """From the handler."""
        return {**arguments, "id": context.call_id}

    made = Tool.from_schema("raw", INPUT, handler, read_only=True)
    assert made.spec.input_schema == INPUT
    assert made.spec.description == "From the handler."
    assert made.spec.output_schema == {"type": "object", "additionalProperties": True}
    assert run(made, {"query": "abc"}) == {"query": "abc", "id": "c1"}
    assert made.check({}) == ("query: required, missing",)


@pytest.mark.parametrize("schema", [None, {}])
def test_a_raw_tool_without_a_schema_takes_no_arguments(schema):
    made = Tool.from_schema("raw", schema, lambda arguments: arguments)
    assert made.spec.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert made.validator.problems({"a": 1}) == ("a: unknown key (no keys are known here)",)


UNRUNNABLE = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(y"}}}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["(?R)", "a" * 100_000])
def test_a_pattern_that_no_engine_reads_is_skipped_too(pattern):
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    with pytest.raises(SchemaError):
        Tool.from_schema("raw", schema, lambda arguments: arguments)
    assert Tool.from_schema("raw", schema, lambda arguments: arguments, skip_patterns=True).check({"a": "q"}) == ()


def test_a_pattern_that_cannot_be_run_is_refused_unless_it_is_skipped():
    def raw(**options):
        return Tool.from_schema("raw", UNRUNNABLE, lambda arguments: arguments, **options)

    spec = ToolSpec(name="raw", input_schema=UNRUNNABLE)
    for options in ({}, {"skip_patterns": False}, {"skip_patterns": None}):
        with pytest.raises(SchemaError, match="can be run here"):
            raw(**options)
    with pytest.raises(SchemaError, match="can be run here"):
        ToolRegistry().register(Tool(spec))
    cases = (Tool(spec), Origin(plugin="p")), (raw(skip_patterns=True), Origin())
    for each, origin in cases:
        registry = ToolRegistry()
        registry.register(each, origin=origin)
        made = registry.get("raw")
        assert made.check({"a": "q"}) == ()
        assert made.check({"a": 1}) == ("a: must be a string, got number 1",)
        assert registry.exporter("mcp").tools([made.spec]).entries[0]["inputSchema"] == UNRUNNABLE


def test_a_freeform_tool_gets_the_text():
    grammar = Grammar("regex", "^a+$")
    made = Tool.freeform("note", lambda text: text.upper(), grammar=grammar, title="Note")
    assert (made.spec.kind, made.spec.grammar, made.spec.title) == ("freeform", grammar, "Note")
    assert made.spec.input_schema["properties"] == {"input": {"type": "string"}}
    assert run(made, {"input": "a"}) == "A"
    assert Tool.freeform("note").handler is None


def test_what_a_docstring_says_of_no_parameter_of_the_model_or_the_host_stays_in_the_description():
    def find(x: int, context: ToolContext, key: str, **others: int):
        """Finds.

        Args:
            x: The x.
            context: Unseen.
            key: Unseen.
            **others: Filters, as column=value.
            Note: Never twice.
        """

    spec = Tool.from_function(functools.partial(find, key="k")).spec
    assert spec.description == "Finds.\n\n**others: Filters, as column=value.\nNote: Never twice."
    described = {name: each.get("description") for name, each in spec.input_schema["properties"].items()}
    assert described == {"x": "The x."}


def test_a_function_of_singledispatch_is_called_by_position():
    @functools.singledispatch
    def twice(x: int, y: int = 1) -> int:
        return 2 * x + y

    assert called(Tool.from_function(twice), {"x": 2}).structured_content == {"result": 5}


def test_the_docstring_of_a_handler_describes_the_text_of_a_freeform_tool():
    def note(text):
        """Keep a note.

        Args:
            text: The note.
        """

    made = Tool.freeform("note", note)
    assert made.spec.description == "Keep a note."
    assert made.spec.input_schema["properties"] == {"input": {"type": "string", "description": "The note."}}


def test_a_provider_tool_may_have_a_handler():
    made = Tool.provider("shell", "openai.local_shell", {"x": 1}, lambda arguments: arguments["command"])
    assert (made.spec.kind, made.spec.provider_id, made.spec.provider_arguments) == (
        "provider",
        "openai.local_shell",
        {"x": 1},
    )
    assert run(made, {"command": "ls"}) == "ls"
    assert Tool.provider("search", "openai.web_search").handler is None
    assert Tool.provider("shell", "x.shell", input_schema=INPUT).spec.input_schema == INPUT


@pytest.mark.parametrize("handler", [lambda: None, lambda a, b: None, lambda *a: None, lambda **a: None])
def test_a_handler_takes_exactly_one_parameter(handler):
    with pytest.raises(DefinitionError, match="exactly one parameter, the arguments as a mapping"):
        Tool.from_schema("raw", INPUT, handler)
    with pytest.raises(DefinitionError, match="exactly one parameter, the text"):
        Tool.freeform("note", handler)


@pytest.mark.parametrize("handler", [lambda a, n=1: (a, n), lambda a, /, *, n=1: (a, n), lambda n=1, *, a: (a, n)])
def test_other_parameters_of_a_handler_need_defaults(handler):
    assert run(Tool.from_schema("raw", INPUT, handler), {"query": "que"}) == ({"query": "que"}, 1)
    assert run(Tool.freeform("note", handler), {"input": "text"}) == ("text", 1)


def remember(request):
    """Adds what is remembered.

    And more.
    """


def test_a_request_processor_has_no_handler_and_is_never_offered():
    made = Tool.processor("memory", remember, tags=["memory"])
    assert (made.name, made.handler, made.offered, made.process_request) == ("memory", None, False, remember)
    assert made.spec.description == "Adds what is remembered.\n\nAnd more."
    assert made.spec.tags == ("memory",)


@pytest.mark.parametrize(
    ("name", "function", "error"),
    [("memory", 5, DefinitionError), ("memory", None, DefinitionError), ("a b", remember, InvalidNameError)],
)
def test_an_invalid_request_processor_is_refused(name, function, error):
    with pytest.raises(error):
        Tool.processor(name, function)


def test_request_processing_is_not_in_the_digest():
    """A tool's digest is over its spec."""
    plain = Tool.from_schema("a", {"type": "object"})
    made = Tool.from_schema("a", {"type": "object"}, process_request=remember, instructions="x", offered=False)
    assert (made.process_request, made.instructions, made.offered) == (remember, "x", False)
    assert made.spec.digest == plain.spec.digest
    assert (plain.process_request, plain.instructions, plain.offered) == (None, None, True)


def test_former_names_survive_every_change():
    wipe = Tool.from_schema("wipe", {"type": "object"})
    tidy = wipe.evolve(spec=wipe.spec.evolve(name="tidy"))
    swept = tidy.evolve(spec=tidy.spec.evolve(name="sweep"), former_names=())
    assert (tidy.former_names, swept.former_names) == (("wipe",), ("wipe", "tidy"))
    assert tidy.with_spec(name="sweep").former_names == ("wipe", "tidy")
    assert wipe.evolve(offered=False).former_names == ()


# ---- found at the first call ----

LATE = ToolSpec("late", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})


def called(made, arguments=None, **options):
    registry = ToolRegistry()
    registry.register(made)
    return asyncio.run(registry.call(made.name, arguments or {"a": 1}, **options))


def test_a_lazy_tool_is_imported_at_its_first_call(tmp_path, monkeypatch):
    (tmp_path / "lazy_code.py").write_text("def plus(a: int, b: int = 1) -> int:\n    return a + b\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = ToolRegistry()
    registry.register(Tool.lazy(LATE, "lazy_code:plus"))
    assert registry.get("late").check({"a": "x"}) == ('a: must be an integer, got string "x"',)
    assert registry.get("late").check({"a": 1}) == ()
    assert "lazy_code" not in sys.modules
    assert registry.call_sync("late", {"a": 1}).text == "2"
    assert registry.call_sync("late", {"a": 1, "b": 2}).text == "3"
    assert sys.modules.pop("lazy_code")


@pytest.mark.parametrize("change", [lambda made: made, lambda made: wrap(StaticToolset("t", [made])).prefixed("x")])
async def test_a_lazy_tool_is_loaded_once_for_all_calls(change):
    opened = []

    async def connect():
        opened.append(asyncio.current_task())
        await asyncio.sleep(0)

        async def plus(a: int, *, context: ToolContext) -> list[Any]:
            return [a + len(opened), context.tool]

        return plus

    registry = ToolRegistry()
    registry.register(change(Tool.lazy(LATE, connect)))

    resolved = await registry.resolve()
    batch = [ToolCall(resolved.names[0], {"a": n}) for n in range(20)]
    name, outcome = resolved.names[0], await registry.dispatch(batch, resolved)
    assert [each.structured_content for each in outcome.results] == [[n + 1, name] for n in range(20)]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_lazy_tool_is_loaded_once_for_all_event_loops(is_async):
    opened = []

    def connect():
        opened.append(1)
        return lambda a: a

    async def connect_later():
        return connect()

    registry = ToolRegistry()
    registry.register(Tool.lazy(LATE, connect_later if is_async else connect))
    assert [registry.call_sync("late", {"a": n}).text for n in range(3)] == ["0", "1", "2"]
    assert len(opened) == 1


def test_a_plain_loader_runs_off_the_loop():
    threads = []

    def load():
        threads.append(threading.current_thread())
        return lambda text: text.upper()

    assert called(Tool.lazy(ToolSpec("note", kind="freeform"), load), {"input": "a"}).text == "A"
    assert threads[0] is not threading.main_thread()


async def test_a_lazy_tool_that_cannot_be_loaded_fails_its_call_and_the_next_retries(caplog):
    tries = []

    async def load():
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no such host")
        return lambda a: a

    registry = ToolRegistry()
    registry.register(Tool.lazy(LATE, load))

    failed, answered = [await registry.call("late", {"a": 5}) for _ in range(2)]
    assert (failed.kind, failed.text) == ("tool_failure", "late failed: OSError.")
    assert "no such host" in failed.detail
    assert answered.text == "5"


def test_a_loaded_lazy_tool_is_cached():
    made, handler = Tool.lazy(LATE, lambda: None), Tool.from_function(lambda a: a, name="late").handler
    assert made.handler.complete(made, handler) is made.handler.complete(made, handler)


def test_a_lazy_tool_runs_by_its_spec():
    spec = LATE.evolve(output_schema={"type": "object", "required": ["b"]})
    assert called(Tool.lazy(spec, lambda: lambda a: {"a": a})).kind == "invalid_output"
    assert called(Tool.lazy(spec, lambda: lambda a: {"b": a})).structured_content == {"b": 1}
    failed = called(Tool.lazy(LATE, lambda: lambda b: b))
    assert "'a': the function has no such parameter" in failed.detail


@pytest.mark.parametrize("load", ["module", ":f", "m:", 5, None])
def test_an_invalid_loader_is_refused_at_once(load):
    with pytest.raises(DefinitionError, match="neither 'module:function' nor a function"):
        Tool.lazy(LATE, load)
