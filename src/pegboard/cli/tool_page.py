"""The page of one tool, for people: what `registry show NAME` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pegboard.cli.hint import Hint
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool
from pegboard.tools.visible import visible
from pegboard.typing import JsonObject, JsonSchema

MOST_WORDS: Final = 160
"""How many characters a type or a default may take."""
_LEVELS: Final = 3
_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def show_text(tool: Tool) -> str:
    """Who brings the tool, what it says of itself, its arguments, its result; hidden characters are visible."""
    spec = tool.spec
    head = f"{spec.name}{f' - {visible(spec.title)}' if spec.title else ''}\nfrom {visible(str(tool.origin))}"
    blocks = (
        head,
        visible(spec.description.strip(), newlines=True),
        _arguments(spec.input_schema),
        _result(spec.output_schema),
        _examples(spec),
        _grammar(spec),
        "\n".join(f"{name}: {visible(value)}" for name, value in _facts(tool) if value),
    )
    return "\n\n".join(block for block in blocks if block) + "\n"


# Schemas ----------------------------------------------------------------------------------------------------------


def _arguments(schema: JsonSchema) -> str:
    lines = list(_lines(Hint(schema, schema)))
    if not lines:
        return "Arguments: none" if schema.get("additionalProperties") is False else "Arguments: any object"
    return "\n".join(("Arguments:", *lines))


def _result(schema: JsonSchema | None) -> str:
    if schema is None:
        return ""
    lines = list(_lines(Hint(schema, schema)))
    return "\n".join(("Result:", *lines)) if lines else f"Result: {_short(type_words(schema))}"


def _lines(hint: Hint, before: str = "", levels: int = _LEVELS) -> Iterator[str]:
    """A line a property, its description below it; an object's own with dotted names, as `call` takes them."""
    required = hint.required
    for name, below in hint.properties.items():
        yield f"  {visible(before + name)}: {', '.join(_words(below, required=name in required))}"
        described = below.says("description")
        if isinstance(described, str) and described.strip():
            yield f"      {visible(' '.join(described.split()))}"
        if levels > 1 and not below.is_open:
            is_list = "array" in below.types
            yield from _lines(
                below.item(0) if is_list else below, f"{before}{name}{'[]' if is_list else ''}.", levels - 1
            )


def _words(hint: Hint, *, required: bool) -> Iterator[str]:
    """The type, what it is held to, and whether it may be left out."""
    yield _short(type_words(hint.schema))
    yield from map(_short, _limits(hint))
    if required:
        yield "required"
    elif (default := hint.says("default")) is not None:
        yield f"default {_short(_text(default))}"


def _limits(hint: Hint) -> Iterator[str]:
    yield from _between(hint, "minimum", "maximum", "")
    for keyword, words in (("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than")):
        if hint.says(keyword) is not None:
            yield f"{words} {_text(hint.says(keyword))}"
    yield from _between(hint, "minLength", "maxLength", " characters")
    yield from _between(hint, "minItems", "maxItems", " items")
    for keyword, words in (("format", ""), ("pattern", "pattern ")):
        said = hint.says(keyword)
        if isinstance(said, str):
            yield f"{words}{said}"


def _between(hint: Hint, least: str, most: str, unit: str) -> Iterator[str]:
    low, high = hint.says(least), hint.says(most)
    if low is not None and high is not None:
        yield f"{_text(low)} to {_text(high)}{unit}"
    elif low is not None or high is not None:
        yield f"at {'most' if low is None else 'least'} {_text(high if low is None else low)}{unit}"


def _short(text: str) -> str:
    return visible(text if len(text) <= MOST_WORDS else text[: MOST_WORDS - 1] + "…")


def type_words(schema: Any, levels: int = 4) -> str:
    """What a JSON Schema takes, in a few words: `integer`, `list of string`, `"a" or "b"`, `any`.

    Args:
        schema: An object, or a boolean.
        levels: How deep alternatives and lists are followed.
    """
    if not isinstance(schema, dict) or not levels:
        return "any"
    part: JsonObject = schema  # pyright: ignore[reportUnknownVariableType]
    if "const" in part or isinstance(part.get("enum"), list):
        return " or ".join(_text(value) for value in part.get("enum", [part.get("const")]))
    for key in ("anyOf", "oneOf"):
        if isinstance(part.get(key), list):
            return " or ".join(dict.fromkeys(type_words(member, levels - 1) for member in part[key]))
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    kind = part.get("type", "any")
    if kind == "array":
        return f"list of {type_words(part['items'], levels - 1)}" if "items" in part else "list"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)  # pyright: ignore[reportUnknownArgumentType]


# Facts ------------------------------------------------------------------------------------------------------------


def _examples(spec: ToolSpec) -> str:
    lines = [f"  {visible(_text(example))}" for example in spec.examples]
    return "\n".join(("Examples:", *lines)) if lines else ""


def _grammar(spec: ToolSpec) -> str:
    if spec.grammar is None:
        return ""
    lines = visible(spec.grammar.definition.strip(), newlines=True).split("\n")
    return "\n".join((f"Grammar ({spec.grammar.syntax}):", *(f"  {line}" for line in lines)))


def _facts(tool: Tool) -> Iterator[tuple[str, str]]:
    spec = tool.spec
    yield "Kind", "" if spec.kind == "function" else f"{spec.kind} {spec.provider_id or ''}".rstrip()
    yield "Hints", ", ".join(f"{'' if value else 'not '}{name}" for name, value in _hints(spec))
    yield "Tags", ", ".join(spec.tags)
    yield "Permission", spec.permission or ""
    yield "Confirmation", "always asked for" if spec.requires_confirmation else ""
    yield "Running", "long: it answers with an id first" if spec.long_running else ""
    yield "Offered", _offered(tool)
    yield "Instructions", tool.instructions or ""
    yield "Together", _sharing(spec)
    yield "Original name", spec.original_name or ""
    yield "Version", spec.version or ""
    yield "Digest", spec.digest


def _offered(tool: Tool) -> str:
    """When models are offered it, where that isn't always."""
    if not tool.offered:
        return "never: it only processes requests"
    return "only once it was found by a search" if tool.spec.deferred else ""


def _sharing(spec: ToolSpec) -> str:
    """How its calls share, where that isn't with everything."""
    how = spec.concurrency
    if how.mode == "key":
        return f"calls of the same {', '.join(how.key)} wait for each other{', readers share' * (how.access == 'read')}"
    return "runs alone" if how.mode == "exclusive" else ""


def _hints(spec: ToolSpec) -> Iterator[tuple[str, bool]]:
    given = spec.annotations
    named = (
        ("read-only", given.read_only_hint),
        ("destructive", given.destructive_hint),
        ("idempotent", given.idempotent_hint),
        ("open world", given.open_world_hint),
        ("edits files", given.edit_hint),
    )
    return ((name, value) for name, value in named if value is not None)


__all__ = ["show_text", "type_words"]
