"""Definitions of tools that aren't the host's own, with hidden characters in their texts escaped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pegboard.errors import SchemaError
from pegboard.json import is_object
from pegboard.schema.references import NAMED, ONE, SOME, mapped
from pegboard.text import escape_hidden
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonSchema


def visible_spec(spec: ToolSpec) -> ToolSpec:
    r"""A spec with hidden characters in its descriptions, titles and comments escaped as `\u{202e}`, or itself.

    Raises:
        SchemaError: There are some in a name, value or pattern of a schema, an example, a grammar or data for the
            provider, where an escape would change the meaning.
    """
    changed: dict[str, Any] = {}
    for name in ("description", "title"):
        text = getattr(spec, name) or ""
        if (shown := escape_hidden(text)) != text:
            changed[name] = shown
    for name, text in (("input_schema", spec.input_schema_text), ("output_schema", spec.output_schema_text)):
        if text is not None and (not text.isascii() or "\\u" in text):  # else it has no hidden characters
            changed[name] = _visible_schema(getattr(spec, name), spec.name)
    for name in ("examples", "provider_arguments", "provider_options"):
        _refuse_hidden(name, getattr(spec, name), spec.name)
    _refuse_hidden("grammar", None if spec.grammar is None else spec.grammar.definition, spec.name)
    return spec.evolve(**changed) if changed else spec


def _visible_schema(schema: JsonSchema, tool: str) -> JsonSchema:
    new = dict(mapped(schema, lambda part, _: _visible_schema(part, tool)))
    for keyword, rule in new.items():
        if keyword in ("description", "title", "$comment") and isinstance(rule, str):
            new[keyword] = escape_hidden(rule)
        elif keyword in NAMED and isinstance(rule, dict):
            _refuse_hidden(keyword, list(cast("dict[str, Any]", rule)), tool)
        elif keyword not in ONE | SOME:
            _refuse_hidden(keyword, [keyword, rule], tool)
    return new


def _refuse_hidden(what: str, data: Any, tool: str) -> None:
    for text in _texts(data):
        if (shown := escape_hidden(text)) != text:
            raise SchemaError(f"{what}: '{shown[:100]}' contains hidden characters", tool=tool)


def _texts(data: Any) -> Iterator[str]:
    """All strings of JSON data, including keys."""
    if isinstance(data, str):
        yield data
    elif is_object(data):
        yield from _texts([*data, *data.values()])
    elif isinstance(data, list | tuple):
        for each in cast("list[Any]", data):
            yield from _texts(each)
