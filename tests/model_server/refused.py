"""`RefusedError`: a request that breaks the provider's rules; and the readers of what a client sent."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from model_server.script import Json


class RefusedError(Exception):
    """The request breaks a rule.

    Args:
        message: Which, and where.
        param: OpenAI's path to the bad field.
        code: OpenAI's short code.
        status: The HTTP status.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


def need(fact: object, message: str, *, param: str | None = None, code: str | None = None) -> None:
    """Refuses the request unless the fact holds."""
    if not fact:
        raise RefusedError(message, param=param, code=code)


def mapping(value: Json, where: str) -> dict[str, Any]:
    """An object, or a refusal that names the place."""
    need(isinstance(value, dict), f"{where}: an object is required, not {_kind(value)}", param=where)
    return value


def sequence(value: Json, where: str) -> list[Any]:
    """A list, or a refusal that names the place."""
    need(isinstance(value, list), f"{where}: an array is required, not {_kind(value)}", param=where)
    return value


def text(value: Json, where: str) -> str:
    """Text that isn't empty, or a refusal that names the place."""
    if value is None:
        raise RefusedError(f"Missing required parameter: '{where}'.", param=where, code="missing_required_parameter")
    need(isinstance(value, str), f"{where}: a string is required, not {_kind(value)}", param=where)
    need(value, f"{where}: the string is empty", param=where)
    return value


def optional_text(value: Json, where: str) -> str | None:
    """Text or nothing, or a refusal that names the place."""
    need(value is None or isinstance(value, str), f"{where}: a string is required, not {_kind(value)}", param=where)
    return value


def known(value: dict[str, Any], keys: Collection[str], where: str) -> None:
    """Refuses a key that the provider doesn't know, as a client that sends answers back unread would send."""
    for key in value:
        need(key in keys, f"Unknown parameter: '{where}.{key}'.", param=f"{where}.{key}", code="unknown_parameter")


def one_each(names: Collection[Any], message: str, *, param: str | None = None) -> None:
    """Refuses the first that stands twice; `message` has a `{}` for it."""
    seen = set()
    for name in names:
        need(name not in seen, message.format(name), param=param)
        seen.add(name)


def fits(name: Json, pattern: str, where: str) -> str:
    """A name that matches the provider's pattern."""
    found = text(name, where)
    message = (
        f"Invalid '{where}': string does not match pattern. Expected a string that matches the pattern '{pattern}'."
    )
    need(re.fullmatch(pattern, found), message, param=where, code="invalid_value")
    return found


def subschemas(schema: Json) -> Iterator[dict[str, Any]]:
    """Every object in a schema, the schema first."""
    open_ones = [schema]
    while open_ones:
        one = open_ones.pop()
        if isinstance(one, dict):
            yield one
            open_ones.extend(one.values())
        elif isinstance(one, list):
            open_ones.extend(one)


def _kind(value: Json) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
