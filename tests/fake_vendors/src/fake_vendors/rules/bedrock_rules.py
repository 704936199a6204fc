"""What Bedrock's Converse says no to, of tool lists and messages; by botocore's model, with what it doesn't check."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

import botocore.session
from botocore.validate import ParamValidator

from fake_vendors.rules import anthropic_rules
from fake_vendors.rules.schema_places import Faults, name_faults, tool_schema_faults

_NOT_AT_THE_ROOT: Final = frozenset({"oneOf", "anyOf", "allOf", "$ref"})


@cache
def _shape(member: str) -> Any:
    model = botocore.session.Session().get_service_model("bedrock-runtime")
    return model.operation_model("Converse").input_shape.members[member]


def shape_faults(value: Any, member: str) -> Faults:
    """Of one member of the request (`"toolConfig"`, `"messages"`): types, keys and lengths, patterns and enums."""
    shape = _shape(member)
    report = ParamValidator().validate(value, shape)
    if report.has_errors():
        return report.generate_report().splitlines()
    return list(_unchecked(value, shape, member))


def _unchecked(value: Any, shape: Any, where: str) -> Iterator[str]:
    """What botocore knows of a shape and doesn't check: patterns, most lengths, enums; bytes that are a text."""
    if shape.type_name == "structure" and not shape.is_document_type:
        for name, each in value.items():
            yield from _unchecked(each, shape.members[name], f"{where}.{name}")
    elif shape.type_name == "list":
        for number, each in enumerate(value):
            yield from _unchecked(each, shape.member, f"{where}[{number}]")
    elif shape.type_name == "blob" and not isinstance(value, bytes | bytearray):
        yield f"{where}: bytes are wanted, not a {type(value).__name__}, whose UTF-8 would be sent"
    elif shape.type_name == "string":
        rules = shape.metadata
        if "pattern" in rules and re.fullmatch(rules["pattern"], value) is None:
            yield f"{where}: {value!r:.80} must match {rules['pattern']}"
        if len(value) > rules.get("max", len(value)):
            yield f"{where}: {len(value)} characters, of at most {rules['max']}"
        if rules.get("enum") and value not in rules["enum"]:
            yield f"{where}: {value!r} is none of {', '.join(rules['enum'])}"


def converse(tools: Sequence[dict[str, Any]]) -> Faults:
    """Of a `toolConfig`'s `tools`."""
    found = shape_faults({"tools": list(tools)}, "toolConfig")
    if found:
        return found
    specs = [tool["toolSpec"] for tool in tools if "toolSpec" in tool]
    names = [each["name"] for tool in tools for each in tool.values() if "name" in each]
    found += name_faults(names, ".*")
    for spec in specs:
        schema = spec["inputSchema"]["json"]
        faults = tool_schema_faults(schema, _NOT_AT_THE_ROOT)
        faults += anthropic_rules.strict_faults(schema) if spec.get("strict") and not faults else []
        found += [f"{spec['name']}{fault}" for fault in faults]
    return found + anthropic_rules.count_faults([spec["inputSchema"]["json"] for spec in specs if spec.get("strict")])


def messages(conversation: Sequence[dict[str, Any]]) -> Faults:
    """Of a request's `messages`."""
    return shape_faults(list(conversation), "messages")
