"""What OpenAI wants of tools, in both of its wire formats."""

from __future__ import annotations

from typing import Any

from model_server.refused import RefusedError, fits, mapping, need, subschemas
from model_server.script import Error, Json

NAME = "^[a-zA-Z0-9_-]{1,64}$"
MOST_TOOLS = 128
"""Known from the provider's error reports."""

_AT_ROOT = ("oneOf", "anyOf", "allOf", "enum", "not")


def check_function(function: dict[str, Any], where: str) -> str:
    """Judges a function's name and schema, and returns the name."""
    name = fits(function.get("name"), NAME, f"{where}.name")
    said = function.get("description")
    need(
        said is None or isinstance(said, str),
        f"{where}.description: a string is required",
        param=f"{where}.description",
    )
    schema = function.get("parameters")
    if schema is not None:
        _check_schema(name, mapping(schema, f"{where}.parameters"), where)
        if function.get("strict"):
            _check_strict(name, schema, where)
    return name


def need_room(tools: list[Json]) -> None:
    """Refuses more tools than the provider takes."""
    message = f"Invalid 'tools': array too long. Expected at most {MOST_TOOLS} elements, but got {len(tools)} instead."
    need(len(tools) <= MOST_TOOLS, message, param="tools", code="array_above_max_length")


def openai_error(error: Error) -> Json:
    """An error body of OpenAI's."""
    kinds = {
        401: ("invalid_request_error", "invalid_api_key"),
        403: ("invalid_request_error", "unsupported_country_region_territory"),
        429: ("requests", "rate_limit_exceeded"),
    }
    kind, code = kinds.get(error.status, ("server_error" if error.status >= 500 else "invalid_request_error", None))
    return {"error": {"message": error.text, "type": kind, "param": None, "code": code}}


def openai_refusal(refused: RefusedError) -> Json:
    """A refusal's body."""
    return {
        "error": openai_error(Error(refused.status, refused.message))["error"]
        | {"param": refused.param, "code": refused.code}
    }


def _check_schema(name: str, schema: dict[str, Any], where: str) -> None:
    found = schema.get("type") == "object" and not any(key in schema for key in _AT_ROOT)
    _need_schema(
        found,
        name,
        "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        where,
    )
    for part in _read(schema):
        _need_schema(part.get("type") != "array" or "items" in part, name, "array schema missing items.", where)


def _check_strict(name: str, schema: dict[str, Any], where: str) -> None:
    """The main rules of strict mode: objects closed, every property required."""
    for part in _read(schema):
        if part.get("type") != "object" and "properties" not in part:
            continue
        closed = part.get("additionalProperties") is False
        _need_schema(closed, name, "'additionalProperties' is required to be supplied and to be false.", where)
        complete = set(part.get("required", ())) == set(part.get("properties", ()))
        _need_schema(
            complete,
            name,
            "'required' is required to be supplied and to be an array including every key in properties.",
            where,
        )


def _read(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts that are schemas by their `type`: a property named `type` holds an object, not a text."""
    return [part for part in subschemas(schema) if isinstance(part.get("type"), str)]


def _need_schema(fact: object, name: str, why: str, where: str) -> None:
    message = f"Invalid schema for function '{name}': {why}"
    need(fact, message, param=f"{where}.parameters", code="invalid_function_parameters")
