"""What Gemini's API says no to, of tool lists that its SDK lets pass; by JSON Schema, and by its own older schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fake_vendors.rules.schema_places import Faults, cycles, name_faults, places, property_faults, schema_faults

NAME: Final = r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
PROPERTY: Final = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
MOST_TOOLS: Final = 512

_KEYWORDS: Final = frozenset(
    {
        *("$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems"),
        *("minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties"),
        *("required", "propertyOrdering"),
    }
)
_TYPES: Final = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
_OF_TYPE: Final = {
    **dict.fromkeys(("properties", "required", "propertyOrdering", "minProperties", "maxProperties"), "OBJECT"),
    **dict.fromkeys(("items", "minItems", "maxItems"), "ARRAY"),
}
_BESIDE_A_CHOICE: Final = frozenset({"anyOf", "description", "title", "nullable", "default", "example"})


def declarations(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every function that is declared in a list of tools."""
    return [each for tool in tools for each in tool.get("functionDeclarations", ())]


def _list_faults(tools: Sequence[dict[str, Any]]) -> Faults:
    names = [each.get("name", "") for each in declarations(tools)]
    found = name_faults(names, NAME)
    found += [f"entry {number} is empty" for number, tool in enumerate(tools) if not tool]
    found += ["an entry declares no functions" for tool in tools if tool.get("functionDeclarations") == []]
    if len(names) > MOST_TOOLS:
        found.append(f"{len(names)} functions, of at most {MOST_TOOLS}")
    return found


# --- by JSON Schema ---


def by_json_schema(tools: Sequence[dict[str, Any]]) -> Faults:
    """Of tools whose parameters are said as `parametersJsonSchema`."""
    found = _list_faults(tools)
    for each in declarations(tools):
        if "parameters" in each or "response" in each:
            found.append(f"{each['name']}: both schemas, or the wrong one")
        if (schema := each.get("parametersJsonSchema")) is not None:
            root = [] if schema.get("type") == "object" else [": its root must have the type object"]
            found += [f"{each['name']}{fault}" for fault in (*root, *_json_schema_faults(schema))]
        if (schema := each.get("responseJsonSchema")) is not None:
            found += [f"{each['name']}: its response: {fault}" for fault in _json_schema_faults(schema)]
    return found


def _json_schema_faults(schema: dict[str, Any]) -> Faults:
    found = schema_faults(schema)
    if found:
        return found
    found += property_faults(schema, PROPERTY)
    for place in places(schema):
        found += [f"{place.path}: {word!r} isn't honoured" for word in place.words if word not in _KEYWORDS]
        if "$ref" in place.words and any(not word.startswith("$") for word in place.words):
            found.append(f"{place.path}: a $ref stands alone")
        if place.words.get("description") == "":
            found.append(f"{place.path}: an empty description")
        if any(value is None or isinstance(value, bool | dict | list) for value in place.words.get("enum", ())):
            found.append(f"{place.path}: an enum lists texts and numbers")
    return found + cycles(schema, free=True)


# --- by the older schema ---


def by_schema(tools: Sequence[dict[str, Any]]) -> Faults:
    """Of tools whose parameters are said as `parameters`."""
    found = _list_faults(tools)
    for each in declarations(tools):
        if "parametersJsonSchema" in each or "responseJsonSchema" in each:
            found.append(f"{each['name']}: both schemas, or the wrong one")
        if (schema := each.get("parameters")) is None:
            continue
        if schema.get("type", "").upper() != "OBJECT":
            found.append(f"{each['name']}: its root must be of the type OBJECT")
            continue
        if not schema.get("properties"):
            found.append(f"{each['name']}: parameters without properties are left out")
        found += [f"{each['name']}{fault}" for fault in property_faults(schema, PROPERTY)]
        for path, node in _nodes(schema):
            found += [f"{each['name']}{path}: {fault}" for fault in _node_faults(node)]
    return found


def _nodes(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path, schema
    if not isinstance(schema, dict):
        return
    for name, each in schema.get("properties", {}).items():
        yield from _nodes(each, f"{path}/properties/{name}")
    for number, each in enumerate(schema.get("anyOf", ())):
        yield from _nodes(each, f"{path}/anyOf/{number}")
    if "items" in schema:
        yield from _nodes(schema["items"], f"{path}/items")


def _node_faults(node: Any) -> Faults:
    if not isinstance(node, dict):
        return ["is no schema"]
    found = [f"{word!r} isn't for this schema" for word in ("ref", "defs", "$ref", "$defs", "oneOf") if word in node]
    kind = node.get("type")
    if "anyOf" in node:
        found += [f"{word!r} beside anyOf" for word in node if word not in _BESIDE_A_CHOICE]
    elif not isinstance(kind, str) or kind.upper() not in _TYPES:
        found.append(f"{kind!r} is no type")
    kind = str(kind).upper()
    found += [f"{word!r} isn't for the type {kind}" for word, of in _OF_TYPE.items() if word in node and kind != of]
    if node.get("description") == "":
        found.append("an empty description")
    if kind == "ARRAY" and not isinstance(node.get("items"), dict):
        found.append("an ARRAY needs items")
    if "enum" in node:
        if not all(isinstance(value, str) and value for value in node["enum"]):
            found.append("an enum lists texts that aren't empty")
        if kind not in ("STRING", "INTEGER"):
            found.append(f"an enum of the type {kind}")
    found += [f"{name!r} is required and no property" for name in _unknown(node, "required")]
    return found + [f"{name!r} is ordered and no property" for name in _unknown(node, "propertyOrdering")]


def _unknown(node: dict[str, Any], keyword: str) -> list[str]:
    return [name for name in node.get(keyword, ()) if name not in node.get("properties", {})]


def as_json_schema(node: dict[str, Any]) -> dict[str, Any]:
    """What the older schema says, in JSON Schema's words."""
    said = {word: rule for word, rule in node.items() if word not in ("nullable", "propertyOrdering")}
    if "type" in said:
        said["type"] = said["type"].lower()
    if "properties" in said:
        said["properties"] = {name: as_json_schema(each) for name, each in said["properties"].items()}
    if "items" in said:
        said["items"] = as_json_schema(said["items"])
    if "anyOf" in said:
        said["anyOf"] = [as_json_schema(each) for each in said["anyOf"]]
    return {"anyOf": [said, {"type": "null"}]} if node.get("nullable") else said
