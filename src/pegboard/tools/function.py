"""`@tool`, and the other ways to make a tool of a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, Unpack, overload

from pegboard.errors import DefinitionError, did_you_mean, suggest
from pegboard.schema.json import JsonText, json_text
from pegboard.tools.definition import checked_schema, docstring_of, given_output, handler_of, made_tool, name_of
from pegboard.tools.handler import Binder
from pegboard.tools.input import input_schema_of
from pegboard.tools.method import ATTRIBUTE, Method
from pegboard.tools.options import CommonOptions, ToolOptions, checked_options
from pegboard.tools.output import returned_by
from pegboard.tools.signature import EMPTY, STARRED, Kind, Parameter, Signature, is_method, signature_of
from pegboard.tools.spec import Grammar
from pegboard.tools.tool import Tool
from pegboard.typing import JsonMapping, JsonSchema

F = TypeVar("F", bound="Callable[..., Any] | classmethod[Any, ..., Any]")
_OPEN_OBJECT: Final = json_text({"type": "object"})


@overload
def tool(function: F, /, **options: Unpack[ToolOptions]) -> F: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Makes a tool of a function, which stays what it was and can be called as before.

    Plain, async, generator and async generator functions; methods, static and class methods. The types of the
    parameters give the input schema, the docstring gives the descriptions, the return type gives the output
    schema. A parameter of type `ToolContext` gets the context and is hidden from the model.

        @tool
        def add(a: int, b: int) -> int:
            "Add two numbers."
            return a + b

        @tool(read_only=True, tags=["files"])
        async def size(path: str) -> int: ...

    Args:
        function: The function; left out where options are given.
        options: See `ToolOptions`.

    Raises:
        DefinitionError: Something of it can't be expressed; names the parameter, its type and what to do.
        InvalidNameError: The name isn't one that every provider takes.
    """
    if function is None:
        return functools.partial(_decorated, options=options)
    return _decorated(function, options)


def _decorated(decorated: Any, options: ToolOptions) -> Any:
    function = decorated.__func__ if isinstance(decorated, staticmethod | classmethod) else decorated  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    of_class = isinstance(decorated, classmethod)
    method = of_class or (not isinstance(decorated, staticmethod) and is_method(function))  # pyright: ignore[reportUnknownArgumentType]
    made = _tool_of_function(function, options, method=method)  # pyright: ignore[reportUnknownArgumentType]
    try:
        setattr(function, ATTRIBUTE, Method(made) if method else made)  # pyright: ignore[reportUnknownArgumentType]
    except (AttributeError, TypeError):
        hint = "Use Tool.from_function(...), which leaves it alone."
        raise DefinitionError("it can't carry the tool that is made of it", tool=made.name, hint=hint) from None
    return decorated  # pyright: ignore[reportUnknownVariableType]


def tool_from_function(function: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool:
    """A tool of a function, a `functools.partial`, a bound method or a callable object; leaves the thing alone.

    Raises:
        DefinitionError: Something of it can't be expressed; names the parameter, its type and what to do.
        InvalidNameError: The name isn't one that every provider takes.
    """
    return _tool_of_function(function, options, method=False)


def tool_from_schema(
    name: str,
    input_schema: JsonSchema,
    handler: Callable[..., Any] | None = None,
    **options: Unpack[CommonOptions],
) -> Tool:
    """A tool of a raw JSON Schema and a handler on a mapping; see `Tool.from_schema`."""
    given = checked_options(options, tool=name)
    facts = {"name": name, "input_schema": checked_schema(input_schema, name, "input_schema")}
    return _raw_tool(facts, handler, given)


def tool_from_text(
    name: str,
    handler: Callable[..., Any] | None = None,
    *,
    grammar: Grammar | None,
    input_schema: JsonText,
    **options: Unpack[CommonOptions],
) -> Tool:
    """A tool whose input is text; see `Tool.freeform`."""
    given = checked_options(options, tool=name)
    facts = {"name": name, "kind": "freeform", "grammar": grammar, "input_schema": input_schema}
    return _raw_tool(facts, handler, given, argument="input")


def provider_tool(
    name: str,
    provider_id: str,
    arguments: JsonMapping | None = None,
    handler: Callable[..., Any] | None = None,
    *,
    input_schema: JsonSchema | None = None,
    **options: Unpack[CommonOptions],
) -> Tool:
    """A tool that the model's provider knows; see `Tool.provider`. Without an input schema any object is taken."""
    given = checked_options(options, tool=name)
    facts = {
        "name": name,
        "kind": "provider",
        "provider_id": provider_id,
        "provider_arguments": dict(arguments or {}),
        "input_schema": _OPEN_OBJECT,
    }
    if input_schema is not None:
        facts["input_schema"] = checked_schema(input_schema, name, "input_schema")
    return _raw_tool(facts, handler, given)


def processing_tool(name: str, function: Callable[..., Any], **options: Unpack[CommonOptions]) -> Tool:
    """A tool that only processes requests; see `Tool.processor`."""
    if not callable(function):
        raise DefinitionError(f"{function!r:.100} is no function.", tool=name)
    given = checked_options({**options, "process_request": function, "offered": False}, tool=name)
    return made_tool({"name": name, "description": docstring_of(function).description}, None, given)


def _tool_of_function(function: Callable[..., Any], options: ToolOptions, *, method: bool) -> Tool:
    if isinstance(function, type):
        hint = "Register an instance, or a subclass of TypedTool."
        raise DefinitionError(f"{function.__name__} is a class.", hint=hint)
    if not callable(function):
        hint = "Options go by name: write @tool(name=...) above a function."
        raise DefinitionError(f"{function!r:.100} is no function.", hint=hint)
    name = options.get("name") or name_of(function)
    given = checked_options(options, tool=name, of_function=True)
    signature = signature_of(function, tool=name, method=method)
    _check_named(given.get("permission_arguments", ()), signature, name)
    said = docstring_of(function)
    returned = returned_by(function, signature.returns)
    make_binder = functools.partial(_binder, signature.parameters, signature.taken, "input_schema" in given)
    injects = signature.injects
    handler, output_schema = handler_of(function, returned, make_binder, options=given, tool=name, injects=injects)
    facts = {
        "name": name,
        "description": said.description,
        "input_schema": input_schema_of(given, signature.visible, said.parameters, name),
        "output_schema": output_schema,
    }
    return made_tool(facts, handler, given)


def _check_named(names: Iterable[str], signature: Signature, tool: str) -> None:
    """Refuses a name that no argument has: rules would look for it in vain."""
    if any(each.kind is Kind.VAR_KEYWORD for each in signature.visible):
        return
    known = [each.name for each in signature.visible]
    for name in names:
        if name not in known:
            near = did_you_mean(suggest(str(name), known)) or f" There are {', '.join(known) or 'none'}."
            raise DefinitionError(f"permission_arguments: there is no argument {name!r}.{near}", tool=tool)


def _raw_tool(
    facts: dict[str, Any],
    function: Callable[..., Any] | None,
    options: Mapping[str, Any],
    *,
    argument: str | None = None,
) -> Tool:
    """A tool whose function gets one thing: all arguments as a mapping, or the argument of that name."""
    name: str = facts["name"]
    if function is None:
        return made_tool({**facts, "output_schema": given_output(options, name)}, None, options)
    signature = signature_of(function, tool=name)
    if len(signature.visible) != 1 or signature.visible[0].kind in STARRED:
        hint = "Beside it, a ToolContext parameter gets the context, and Injected[...] ones get services."
        what = "the arguments as a mapping" if argument is None else "the text"
        raise DefinitionError(f"its handler must take exactly one parameter, {what}.", tool=name, hint=hint)
    returned = returned_by(function, signature.returns)
    make_binder = functools.partial(_binder_of_one, signature.parameters, argument)
    injects = signature.injects
    handler, output_schema = handler_of(function, returned, make_binder, options=options, tool=name, injects=injects)
    description = docstring_of(function).description
    return made_tool({**facts, "description": description, "output_schema": output_schema}, handler, options)


def _binder(parameters: tuple[Parameter, ...], taken: frozenset[str], strict: bool) -> Binder:
    """A function's binder, made at its first call; until then only what that needs is kept."""
    from pegboard.tools.binder import binder_of

    return binder_of(Signature(parameters, EMPTY, taken), strict=strict)


def _binder_of_one(parameters: tuple[Parameter, ...], argument: str | None) -> Binder:
    from pegboard.tools.binder import binder_of_one

    return binder_of_one(parameters, argument)
