"""The input schema of a function: from its parameters, or given and held against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from pegboard.errors import DefinitionError
from pegboard.schema.json import JsonText, json_text
from pegboard.tools.definition import checked_schema
from pegboard.tools.signature import EMPTY, STARRED, Kind, Parameter
from pegboard.typing import JsonSchema


def input_schema_of(
    options: Mapping[str, Any], parameters: Sequence[Parameter], described: Mapping[str, str], tool: str
) -> JsonText:
    """The given schema, held against the parameters, else what they give.

    Args:
        options: Of the tool.
        parameters: What the model may fill.
        described: Their descriptions by the docstring; a text in `Annotated` wins.
        tool: The tool's name, for errors.

    Raises:
        DefinitionError: A type can't be expressed, or the given schema lets through what the function can't take.
        SchemaError: The given schema is refused.
    """
    given = options.get("input_schema")
    if given is None:
        try:
            return json_text(_derived(parameters, described, tool))
        except ValueError as error:  # a number of more digits than Python writes, deep in a default
            raise DefinitionError(f"its schema can't be written as JSON: {error}.", tool=tool) from None
    text = checked_schema(given, tool, "input_schema")
    _check_drift(given, parameters, tool)
    _check_types(parameters, tool)
    return text


def _derived(parameters: Sequence[Parameter], described: Mapping[str, str], tool: str) -> JsonSchema:
    """The schema of what the model may fill; it is right by construction and needs no check."""
    from pegboard.schema.fields import MISSING
    from pegboard.schema.types import Property, object_schema

    properties: list[Property] = []
    additional: Any = MISSING
    for each in parameters:
        if each.kind is Kind.VAR_KEYWORD:
            additional = each.annotation
            continue
        description = described.get(each.name)
        if description and _is_described(each.annotation):
            description = None
        if each.kind is Kind.VAR_POSITIONAL:
            properties.append(Property(each.name, list[each.annotation], description, []))
        else:
            default = MISSING if each.default is EMPTY else each.default
            properties.append(Property(each.name, each.annotation, description, default))
    return object_schema(properties, tool=tool, additional=additional)


def _is_described(annotation: Any) -> bool:
    """Whether a text stands in `Annotated`, which wins over the docstring's."""
    return get_origin(annotation) is Annotated and any(map(_describes, get_args(annotation)[1:]))


def _describes(marker: Any) -> bool:
    if isinstance(marker, Mapping):
        return "description" in marker
    texts = (marker, getattr(marker, "documentation", None), getattr(marker, "description", None))
    return any(isinstance(each, str) for each in texts)


def _check_types(parameters: Sequence[Parameter], tool: str) -> None:
    """Refuses types that nobody can make of JSON: a schema says what a call may carry, not how it becomes a value.

    Raises:
        DefinitionError: A parameter of such a type.
    """
    from pegboard.schema.types import schema_of

    for each in parameters:
        try:
            schema_of(each.annotation, tool=tool, path=each.name)
        except DefinitionError as error:
            raise DefinitionError(
                f"{error.message.rstrip('.')}, so no argument becomes one.",
                tool=tool,
                parameter=error.parameter,
                annotation=error.annotation,
                hint="Annotate what JSON carries and convert it in the function, "
                "or make the tool with Tool.from_schema, whose handler takes a mapping.",
            ) from None


def _check_drift(schema: JsonSchema, parameters: Sequence[Parameter], tool: str) -> None:
    """Refuses an override that lets a call through that the function can't take.

    Raises:
        DefinitionError: A property without a parameter, or a parameter that a call may leave out but must not.
    """
    names = {each.name for each in parameters if each.kind is not Kind.VAR_KEYWORD}
    is_open = any(each.kind is Kind.VAR_KEYWORD for each in parameters)
    for name in schema.get("properties", {}):
        if name not in names and not is_open:
            hint = "Give the function such a parameter, or **kwargs."
            raise DefinitionError("input_schema has it, the function doesn't.", tool=tool, parameter=name, hint=hint)
    for each in parameters:
        if each.default is EMPTY and each.kind not in STARRED and each.name not in schema.get("required", ()):
            hint = "Require it in input_schema, or give it a default."
            raise DefinitionError("the function needs it.", tool=tool, parameter=each.name, hint=hint)
