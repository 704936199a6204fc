"""What every way of defining a tool ends with: names, descriptions and options become one `Tool`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pegboard.errors import DefinitionError
from pegboard.schema.docstrings import Docstring, parse_docstring
from pegboard.schema.json import JsonText, json_text
from pegboard.tools.handler import Binder, Handler
from pegboard.tools.injection import Injection
from pegboard.tools.options import spec_facts, tool_facts
from pegboard.tools.output import Output, Returned, output_of
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool
from pegboard.typing import JsonSchema

LONG_RUNNING: Final = (
    "This takes long: its first result says that it is pending, and the real one comes later by itself. "
    "Do not call it again for the same thing meanwhile."
)
"""What the description of a long-running tool ends with, so that the model waits."""


def made_tool(facts: Mapping[str, Any], handler: Handler | None, options: Mapping[str, Any]) -> Tool:
    """The tool of all that was worked out, and of what the options say over it.

    Args:
        facts: For the spec, `name` among them.
        handler: Or `None`.
        options: Checked.

    Raises:
        DefinitionError: An option of the wrong form, or an example that doesn't fit.
        InvalidNameError: The name isn't one that every provider takes.
    """
    name: str = facts["name"]
    said = {**facts, **spec_facts(options, tool=name)}
    if said.get("long_running"):
        said["description"] = f"{said.get('description', '')}\n\n{LONG_RUNNING}".lstrip()
    try:
        spec = ToolSpec(**said)
    except (TypeError, ValueError) as error:
        raise DefinitionError(str(error), tool=name) from None
    made = Tool(spec, handler, **tool_facts(options))
    if "examples" not in options:
        return made
    return made.with_spec(examples=_checked_examples(made, options["examples"]))


def _checked_examples(made: Tool, examples: Iterable[Any]) -> tuple[Any, ...]:
    """The examples, each judged and structured as a call's arguments would be, but not put to the tool's own check."""
    judged = made.evolve(checks=None)
    kept = tuple(examples)
    for index, example in enumerate(kept):
        if not isinstance(example, Mapping):
            raise DefinitionError(f"example {index} is no mapping of arguments: {example!r:.100}.", tool=made.name)
        if problems := judged.check(example):  # pyright: ignore[reportUnknownArgumentType]
            hint = "Correct the example or the types."
            raise DefinitionError(f"example {index} doesn't fit: {'; '.join(problems)}.", tool=made.name, hint=hint)
    return kept


def name_of(function: Any) -> str:
    """The name of the function behind partials; of a callable object, that of its class."""
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    name = getattr(function, "__name__", None) or snake_case(type(function).__name__)  # pyright: ignore[reportUnknownArgumentType]
    if name == "<lambda>":
        raise DefinitionError("a lambda has no name of its own.", hint="Pass name=...")
    return name


def snake_case(name: str) -> str:
    """`ReadFile` as `read_file`, `HTTPGet` as `http_get`."""
    import re

    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def docstring_of(function: Any) -> Docstring:
    """What the docstring says of the function behind partials; of a callable object, `__call__`'s or its class's."""
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    text = function.__doc__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not inspect.isroutine(function):  # pyright: ignore[reportUnknownArgumentType]
        text = type(function).__call__.__doc__ or text  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return parse_docstring(text) if text else Docstring()  # pyright: ignore[reportUnknownArgumentType]


def handler_of(  # noqa: PLR0913  (what one handler is made of)
    function: Callable[..., Any],
    returned: Returned,
    make_binder: Callable[[], Binder],
    *,
    options: Mapping[str, Any],
    tool: str,
    injects: tuple[Injection, ...] = (),
) -> tuple[Handler, JsonText | None]:
    """The handler that runs `function`, and the output schema: the option's, else what the return type gives.

    Raises:
        DefinitionError: The return type can't be written as JSON Schema.
        SchemaError: The given schema is refused.
    """
    if "output_schema" in options:
        output = Output(schema=given_output(options, tool))
    else:
        output = output_of(returned.annotation, tool=tool)
    blocking = options.get("blocking", True)
    unstructure = output.make_unstructure()
    handler = Handler(function, make_binder, returned.flavour, blocking, unstructure, output.is_wrapped, injects)
    return handler, output.schema


def given_output(options: Mapping[str, Any], tool: str) -> JsonText | None:
    """The output schema that the options give.

    Raises:
        SchemaError: It is refused.
    """
    schema = options.get("output_schema")
    return None if schema is None else checked_schema(schema, tool, "output_schema")


def checked_schema(schema: JsonSchema, tool: str, what: str) -> JsonText:
    """A given schema as text.

    Args:
        schema: As an object.
        tool: The tool's name, for errors.
        what: `"input_schema"` or `"output_schema"`.

    Raises:
        SchemaError: It is refused.
    """
    from pegboard.schema.validator import check_schema

    check_schema(schema, tool=tool, what=what)
    return json_text(schema)
