"""The rules themselves: each fault that is planted in a list of tools is found, and a sound list has none."""

from __future__ import annotations

import pytest

from fake_vendors.rules.openai_rules import strict_faults
from fake_vendors.rules.rules import RULES
from fake_vendors.rules.schema_places import cycles, target

TEXT = {"type": "string"}
OR_NULL = {"type": ["string", "null"]}
QUERY = {
    "type": "object",
    "properties": {"query": TEXT, "limit": {"type": ["integer", "null"]}},
    "required": ["query", "limit"],
    "additionalProperties": False,
}
NOTED = {"$ref": "#/$defs/A", "description": "x"}
LOCKED = {"additionalProperties": False}


def closed(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), **LOCKED}


def chat(schema=QUERY, name="f", **more):
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


def response(schema=QUERY, name="f", **more):
    return {"type": "function", "name": name, "parameters": schema, "strict": False, **more}


def claude(schema=QUERY, name="f", **more):
    return {"name": name, "input_schema": schema, **more}


def gemini(schema=QUERY, name="f", **more):
    return {"functionDeclarations": [{"name": name, "parametersJsonSchema": schema, **more}]}


def older(schema, name="f", **more):
    return {"functionDeclarations": [{"name": name, "parameters": schema, **more}]}


def bedrock(schema=QUERY, name="f", **more):
    return {"toolSpec": {"name": name, "inputSchema": {"json": schema}, **more}}


def ollama(schema=QUERY, name="f", **more):
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


def mcp(schema=QUERY, name="f", **more):
    return {"name": name, "inputSchema": schema, **more}


PLAIN = {"type": "object", "properties": {"query": TEXT}, "required": ["query"]}
OLDER = {"type": "OBJECT", "properties": {"query": {"type": "STRING"}}, "required": ["query"]}
MAKERS = {
    "openai": chat,
    "openai-responses": response,
    "anthropic": claude,
    "gemini": gemini,
    "gemini-schema": lambda schema=None, name="f", **more: older(OLDER, name, **more),
    "bedrock": bedrock,
    "ollama": ollama,
    "mcp": mcp,
}
SEARCH = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
TREE = {
    **closed(root={"$ref": "#/$defs/Tree"}),
    "$defs": {"Tree": closed(name=TEXT, parts={"type": "array", "items": {"$ref": "#/$defs/Tree"}})},
}
LIST = {
    "type": "object",
    "properties": {"first": {"$ref": "#/$defs/Callback"}},
    "$defs": {"Callback": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Callback"}}}},
}


@pytest.mark.parametrize("exporter", RULES)
def test_a_sound_list_has_no_faults(exporter):
    make = MAKERS[exporter]

    assert RULES[exporter]([make(), make(name="g", description="Says it.")]) == []


@pytest.mark.parametrize("exporter", RULES)
@pytest.mark.parametrize("name", ["", "a b", "größe", "x" * 129, "a/b"])
def test_a_name_that_a_provider_does_not_take_is_found(exporter, name):
    assert len(RULES[exporter]([MAKERS[exporter](name=name)])) == 1


@pytest.mark.parametrize("exporter", RULES)
def test_a_duplicate_name_is_found(exporter):
    make = MAKERS[exporter]

    assert len(RULES[exporter]([make(), make()])) == 1


@pytest.mark.parametrize("exporter", [name for name in RULES if name != "gemini-schema"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": TEXT},
        {"type": "object", "properties": {"a": {"type": "text"}}},
        {"type": "object", "properties": {"a": {"minLength": -1}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}},
    ],
    ids=str,
)
def test_an_invalid_schema_is_found(exporter, schema):
    assert RULES[exporter]([MAKERS[exporter](schema)])


SOUND = [
    ("openai", [chat(TREE, strict=True)]),
    ("openai", [chat(LIST)]),
    ("openai", [{"type": "custom", "custom": {"name": "f"}}]),
    ("openai-responses", [response(TREE, strict=True), {"type": "web_search"}]),
    ("openai-responses", [response(defer_loading=True), {"type": "tool_search"}]),
    ("openai-responses", [{"type": "namespace", "name": "n", "description": "Many.", "tools": [response()]}]),
    ("anthropic", [claude(input_examples=[{"query": "x", "limit": None}]), {"type": "x_1", "name": "x"}]),
    ("anthropic", [claude(strict=True)]),
    ("anthropic", [claude(defer_loading=True), SEARCH]),
    ("gemini", [gemini(LIST), {"googleSearch": {}}]),
    ("gemini-schema", [{"functionDeclarations": [{"name": "f"}]}]),
    ("bedrock", [bedrock(strict=True), {"cachePoint": {"type": "default"}}, {"systemTool": {"name": "nova"}}]),
    ("mcp", [mcp(_meta={"example.com/edit": True, "plain": 1}, annotations={"readOnlyHint": True})]),
    ("ollama", [ollama({"type": "object", "properties": {"a": {"anyOf": [TEXT], "x": 1}}})]),
]


@pytest.mark.parametrize(("exporter", "tools"), SOUND)
def test_what_a_provider_takes_has_no_faults(exporter, tools):
    assert RULES[exporter](tools) == []


def with_keyword(**words):
    return closed(a={"type": "string", **words})


def items(**words):
    return closed(a={"type": "array", "items": TEXT, **words})


PLANTED = [
    # OpenAI chat
    ("openai", [chat(name=f"f{number}") for number in range(129)], "129 tools, of at most 128"),
    ("openai", [chat(description="x" * 1_025)], "f: its description has more than 1024 characters"),
    ("openai", [{"type": "custom", "custom": {"name": "f", "description": "x" * 1_025}}], "f: its description has"),
    ("openai", [chat({**PLAIN, "anyOf": [{"required": ["query"]}]})], "f: 'anyOf' must not stand at the root"),
    ("openai", [chat({**PLAIN, "enum": [{"query": "x"}]})], "f: 'enum' must not stand at the root"),
    ("openai", [chat({**PLAIN, "not": {"required": ["x"]}})], "f: 'not' must not stand at the root"),
    ("openai", [chat({"type": "object"})], "f: its root has no properties"),
    ("openai-responses", [response({"type": "object"})], "f: its root has no properties"),
    ("openai", [chat(closed(a={"type": "array"}))], "f/properties/a: an array needs items"),
    ("openai", [chat(closed(a={"type": ["array", "null"]}))], "f/properties/a: an array needs items"),
    ("openai", [chat(PLAIN, strict=True)], "f: must be closed"),
    ("openai", [chat({**QUERY, "required": []}, strict=True)], "f: must require just its properties"),
    ("openai", [chat(closed(a={}), strict=True)], "f/properties/a: must say a type"),
    ("openai", [chat(closed(a=True), strict=True)], "f/properties/a: a boolean is no strict schema"),
    ("openai", [chat(closed(a={"type": "object", "additionalProperties": TEXT}), strict=True)], "f/properties/a: must"),
    ("openai", [chat(closed(a={"type": "object"}), strict=True)], "f/properties/a: must be closed"),
    ("openai", [chat(closed(a={"oneOf": [TEXT], "type": "string"}), strict=True)], "f/properties/a: 'oneOf' isn't for"),
    ("openai", [chat(closed(a={"allOf": [TEXT], "type": "string"}), strict=True)], "f/properties/a: 'allOf' isn't for"),
    ("openai", [chat({**closed(a=NOTED), "$defs": {"A": TEXT}}, strict=True)], "f/properties/a: a $ref stands alone"),
    ("openai", [chat(items(uniqueItems=True), strict=True)], "f/properties/a: 'uniqueItems' isn't for strict"),
    ("openai", [chat(with_keyword(format="uri"), strict=True)], "f/properties/a: there is no format 'uri'"),
    ("openai", [chat(with_keyword(enum=[f"v{n}" for n in range(1_001)]), strict=True)], "f: 1001 values in enums"),
    ("openai", [chat(with_keyword(enum=["v" * 120_000]), strict=True)], "f: 120001 characters in names and values"),
    # OpenAI responses
    ("openai-responses", [response(closed(a={"type": "array"}))], "f/properties/a: an array needs items"),
    ("openai-responses", [response(None, strict=True)], "f: strict without parameters"),
    ("openai-responses", [response(PLAIN, strict=True)], "f: must be closed"),
    ("openai-responses", [response(defer_loading=True)], "f: deferred, and no tool_search"),
    ("openai-responses", [{"type": "namespace", "name": "n", "tools": []}], "n: a namespace needs a description"),
    ("openai-responses", [{"type": "custom", "name": "a b"}], "'a b': no name like"),
    # Anthropic
    ("anthropic", [claude({**PLAIN, "oneOf": [{}]})], "f: 'oneOf' must not stand at the root"),
    ("anthropic", [claude(closed(**{"a b": TEXT}))], "f/properties: 'a b' must match"),
    ("anthropic", [claude(closed(a=closed(größe=TEXT)))], "f/properties/a/properties: 'größe' must match"),
    ("anthropic", [claude(input_examples=[{"query": 1, "limit": 1}])], "f: example 0 isn't valid: $.query: 1 is not"),
    ("anthropic", [claude(defer_loading=True), claude(name="g")], "f: deferred, and no search tool"),
    ("anthropic", [claude(defer_loading=True), {**SEARCH, "defer_loading": True}], "all tools are deferred"),
    ("anthropic", [claude(closed(a=TEXT), f"f{number}", strict=True) for number in range(21)], "21 strict tools, of"),
    ("anthropic", [claude({**closed(**{f"p{n}": TEXT for n in range(25)}), "required": []}, strict=True)], "25 opti"),
    ("anthropic", [claude(closed(**{f"p{n}": {"anyOf": [TEXT]} for n in range(17)}), strict=True)], "17 unions"),
    ("anthropic", [claude(closed(**dict.fromkeys("abcdefghijklmnopq", OR_NULL)), strict=True)], "17 unions"),
    ("anthropic", [claude(PLAIN, strict=True)], "f: must be closed"),
    ("anthropic", [claude(with_keyword(maxLength=1), strict=True)], "f/properties/a: 'maxLength' isn't for strict"),
    ("anthropic", [claude(closed(a={"type": "integer", "minimum": 1}), strict=True)], "f/properties/a: 'minimum'"),
    ("anthropic", [claude(items(minItems=2), strict=True)], "f/properties/a: minItems may be 0 or 1"),
    ("anthropic", [claude(items(maxItems=2), strict=True)], "f/properties/a: 'maxItems' isn't for strict"),
    ("anthropic", [claude(with_keyword(pattern="^(?=a)"), strict=True)], "f/properties/a: a pattern must not look"),
    ("anthropic", [claude(closed(a={"oneOf": [TEXT]}), strict=True)], "f/properties/a: 'oneOf' isn't for strict"),
    ("anthropic", [claude(closed(a={"enum": [{}]}), strict=True)], "f/properties/a: values must be scalars"),
    ("anthropic", [claude(with_keyword(format="regex"), strict=True)], "f/properties/a: there is no format 'regex'"),
    ("anthropic", [claude({**closed(a=TEXT), "required": ["b"]}, strict=True)], "f: 'b' is required"),
    ("anthropic", [claude(TREE, strict=True)], "f/$defs/Tree: comes back to itself"),
    # Gemini
    ("gemini", [gemini(name=f"f{number}") for number in range(513)], "513 functions, of at most 512"),
    ("gemini", [gemini(name="1f")], "'1f': no name like"),
    ("gemini", [{}], "entry 0 is empty"),
    ("gemini", [{"functionDeclarations": []}], "an entry declares no functions"),
    ("gemini", [gemini(parameters=OLDER)], "f: both schemas, or the wrong one"),
    ("gemini", [older(OLDER)], "f: both schemas, or the wrong one"),
    ("gemini", [gemini(closed(**{"a-b": TEXT}))], "f/properties: 'a-b' must match"),
    ("gemini", [gemini(with_keyword(minLength=1))], "f/properties/a: 'minLength' isn't honoured"),
    ("gemini", [gemini(closed(a={"const": "x"}))], "f/properties/a: 'const' isn't honoured"),
    ("gemini", [gemini(closed(a={"enum": ["a", True]}))], "f/properties/a: an enum lists texts and numbers"),
    ("gemini", [gemini(closed(a={"enum": ["a", None]}))], "f/properties/a: an enum lists texts and numbers"),
    ("gemini", [gemini(with_keyword(description=""))], "f/properties/a: an empty description"),
    ("gemini", [gemini({**closed(a={"$ref": "#/$defs/A", "title": "x"}), "$defs": {"A": TEXT}})], "f/properties"),
    ("gemini", [gemini(TREE)], "f/$defs/Tree: comes back to itself"),
    ("gemini", [gemini(responseJsonSchema={"type": "object", "not": {}})], "f: its response: : 'not' isn't honoured"),
    # Gemini, the older schema
    ("gemini-schema", [gemini()], "f: both schemas, or the wrong one"),
    ("gemini-schema", [older({"type": "OBJECT", "properties": {}})], "f: parameters without properties are left out"),
    ("gemini-schema", [older({**OLDER, "type": "STRING"})], "f: its root must be of the type OBJECT"),
    ("gemini-schema", [older({**OLDER, "required": ["x"]})], "f: 'x' is required and no property"),
    ("gemini-schema", [older({**OLDER, "propertyOrdering": ["x"]})], "f: 'x' is ordered and no property"),
    *(
        ("gemini-schema", [older({"type": "OBJECT", "properties": {"a": schema}})], f"f/properties/a: {fault}")
        for schema, fault in [
            ({"type": ["STRING", "NULL"]}, "['STRING', 'NULL'] is no type"),
            ({}, "None is no type"),
            (True, "is no schema"),
            ({"$ref": "#/$defs/A", "type": "STRING"}, "'$ref' isn't for this schema"),
            ({"type": "ARRAY"}, "an ARRAY needs items"),
            ({"type": "STRING", "enum": ["a", 1]}, "an enum lists texts"),
            ({"type": "STRING", "enum": [""]}, "an enum lists texts"),
            ({"type": "STRING", "properties": {}}, "'properties' isn't for the type STRING"),
            ({"type": "STRING", "description": ""}, "an empty description"),
            ({"type": "NUMBER", "enum": ["1"]}, "an enum of the type NUMBER"),
            ({"anyOf": [{"type": "STRING"}], "type": "STRING"}, "'type' beside anyOf"),
        ]
    ),
    # Bedrock
    ("bedrock", [], "Invalid length for parameter tools"),
    ("bedrock", [bedrock(description="")], "Invalid length for parameter tools[0].toolSpec.description"),
    ("bedrock", [bedrock(title="x")], "Unknown parameter in tools[0].toolSpec"),
    ("bedrock", [{"toolSpec": {"name": "f", "inputSchema": {}}}], "Must set one of the following keys"),
    ("bedrock", [bedrock(name="a b")], "toolConfig.tools[0].toolSpec.name: 'a b' must match"),
    ("bedrock", [bedrock(name="x" * 65)], "toolConfig.tools[0].toolSpec.name: 65 characters, of at most 64"),
    ("bedrock", [bedrock(), {"cachePoint": {"type": "no"}}], "toolConfig.tools[1].cachePoint.type: 'no' is none of"),
    ("bedrock", [bedrock({**PLAIN, "allOf": [{}]})], "f: 'allOf' must not stand at the root"),
    ("bedrock", [bedrock(PLAIN, strict=True)], "f: must be closed"),
    ("bedrock", [bedrock(closed(a=TEXT), f"f{number}", strict=True) for number in range(21)], "21 strict tools"),
    # MCP and Ollama
    ("mcp", [mcp(strict=True)], "[0].strict: Extra inputs are not permitted"),
    ("mcp", [mcp(annotations={"editHint": True})], "[0].annotations.editHint: Extra inputs"),
    ("mcp", [mcp(outputSchema={"type": "array"})], "f: outputSchema: its root must have the type object"),
    ("mcp", [mcp(_meta={"a b": 1})], "f: 'a b' is no key of _meta"),
    ("mcp", [mcp(_meta={"io.modelcontextprotocol/x": 1})], "f: 'io.modelcontextprotocol/x' is kept for MCP itself"),
    ("ollama", [ollama(strict=True)], "[0].function.strict: Extra inputs are not"),
    ("ollama", [ollama(closed(a=True))], "[0].function.parameters.properties.a: Input should be an object"),
    ("ollama", [ollama({"type": ["object"]})], "[0].function.parameters.type: Input should be 'object'"),
]  # fmt: skip


@pytest.mark.parametrize(("exporter", "tools", "fault"), PLANTED, ids=[f"{case[0]}: {case[2]}" for case in PLANTED])
def test_a_planted_fault_is_found_and_nothing_else(exporter, tools, fault):
    found = RULES[exporter](tools)

    assert any(each.startswith(fault) for each in found), found
    assert len({each.rpartition(": ")[2] for each in found}) == 1, found


def nested(levels):
    schema = closed(leaf=TEXT)
    for _ in range(levels - 1):
        schema = closed(inner=schema)
    return schema


def test_ten_levels_are_the_most_of_a_strict_schema():
    assert strict_faults(nested(10)) == []
    assert strict_faults(nested(11)) == [": 11 levels, of at most 10"]


# --- schemas ---


def test_references_lead_where_they_say():
    schema = {"$defs": {"a/b c": TEXT, "B": {"$anchor": "here"}, "L": {"anyOf": [{"type": "null"}]}}}

    assert target(schema, "#") is schema
    assert target(schema, "#/$defs/a~1b%20c") is TEXT
    assert target(schema, "#here") == {"$anchor": "here"}
    assert target(schema, "#/$defs/L/anyOf/0") == {"type": "null"}
    assert target(schema, "#/$defs/L/anyOf/1") is target(schema, "#there") is target(schema, "#/x/y") is None


ROUND = {"A": {"properties": {"b": {"$ref": "#/$defs/B"}}}, "B": {"properties": {"a": {"$ref": "#/$defs/A"}}}}


def test_cycles_are_found_except_through_optional_properties():
    bound = {"A": {**ROUND["A"], "required": ["b"]}, "B": {**ROUND["B"], "required": ["a"]}}
    half = {"A": bound["A"], "B": ROUND["B"]}

    assert [fault.split(":")[0] for fault in cycles({"$defs": ROUND})] == ["/$defs/A"]
    assert cycles({"$defs": ROUND}, free=True) == []
    assert cycles({"$defs": half}, free=True) == []
    assert cycles({"$defs": bound}, free=True) != []
    assert cycles({"$defs": {"A": TEXT}, "properties": {"a": {"$ref": "#/$defs/A"}}}) == []
    assert cycles({"$defs": {"A": {"$anchor": "a", "items": {"$ref": "#a"}}}}, free=True) != []
    assert cycles({"items": {"$ref": "#"}}) != []
