"""What `list`, `show` and `schema` print of tools."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from pegboard import Grammar, Origin, Policy, Problem, Tool, ToolAnnotations, ToolSpec
from pegboard.cli import tool_texts
from pegboard.cli.tool_texts import (
    listing_json,
    listing_plain,
    listing_rows,
    notice_text,
    schema_text,
    show_json,
    show_text,
    summary_of,
    type_words,
)

ORIGIN = Origin("files", "pegboard-files", "0.1.0")
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Which file.\nRelative to the root."},
        "limit": {"type": "integer", "default": 2000},
        "rest": True,
    },
    "required": ["path"],
    "additionalProperties": False,
}
READ = Tool(
    ToolSpec(
        "read_file",
        "Reads a file. Gives its lines.\n\nUp to a limit.",
        title="Read a file",
        input_schema=SCHEMA,
        output_schema={"type": "object"},
        annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False),
        tags=("fs", "read"),
        version="3",
        permission="read",
        requires_confirmation=True,
    ),
    origin=ORIGIN,
)
BARE = Tool(ToolSpec("bare"))


def test_a_tools_object_has_every_key_that_is_known():
    head, bare, read, end = listing_json([BARE, READ]).splitlines()  # a tool a line
    assert (head, end, list(json.loads(bare.rstrip(",")))) == (
        *('{"tools":[', '],"problems":[]}'),
        ["name", "description", "inputSchema", "kind", "digest"],
    )
    tool = json.loads(read)
    assert tool == {
        "name": "read_file",
        "title": "Read a file",
        "description": "Reads a file. Gives its lines.\n\nUp to a limit.",
        "inputSchema": SCHEMA,
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True, "destructiveHint": False},
        "tags": ["fs", "read"],
        "kind": "function",
        "toolVersion": "3",
        "plugin": "files",
        "distribution": "pegboard-files",
        "version": "0.1.0",
        "digest": READ.spec.digest,
    }


def test_where_a_tool_runs_and_its_limits_are_listed_and_shown():
    policy = Policy(executor="far", queue="gpu", timeout=5.0, memory_limit=1 << 30, retries=2, max_concurrency=3)
    placed = BARE.evolve(policy=policy)
    facts = {"executor": "far", "queue": "gpu", "timeout": 5.0, "memoryLimit": 1 << 30, "retries": 2}
    for text in (listing_json([placed]), show_json(placed)):
        (listed,) = json.loads(text).get("tools", [json.loads(text)])
        assert {key: listed.get(key) for key in facts} == facts
        assert "maxConcurrency" not in listed
    assert "executor: far\nqueue: gpu\ntimeout: 5.0\nmemoryLimit: 1073741824\nretries: 2\n" in show_text(placed)


def test_problems_in_json():
    data = json.loads(listing_json([], [Problem("c", plugin="p", distribution="d"), Problem("x\u202e", "tool")]))
    assert data == {
        "tools": [],
        "problems": [
            {"plugin": "p", "distribution": "d", "cause": "c"},
            {"cause": "x\u202e", "tool": "tool"},
        ],
    }


def test_a_plain_list_has_one_tool_per_line():
    assert listing_plain([BARE, READ]) == "bare\t\t\nread_file\tfiles\tReads a file.\n"
    assert listing_rows([READ]) == [("read_file", "files", "Reads a file.")]


@pytest.mark.parametrize(
    ("description", "summary"),
    [
        ("", ""),
        ("One line", "One line"),
        ("  First\n  of two\n\nSecond.", "First of two"),
        ("Reads it. Then writes.", "Reads it."),
        ("Reads e.g. a file. Then writes.", "Reads e.g. a file."),
        ("What? Yes!", "What?"),
        ("Ends.", "Ends."),
        ("Tab\there \u202eevil", r"Tab here \u{202e}evil"),
        ("x" * 2000 + ". Second.", "x" * 2000 + "."),
    ],
)
def test_the_summary_is_the_first_sentence(description, summary):
    assert summary_of(ToolSpec("t", description)) == summary
    assert summary_of(ToolSpec("t", title="Title")) == "Title"


HOSTILE = Tool(
    ToolSpec(
        "hostile",
        "a\u202eb\x1b[2J\nsecond",
        title="t\u2066",
        tags=("x\x07",),
        permission="p\x1b",
        version="1\u200b",
        input_schema={
            "type": "object",
            "properties": {"k\x1b": {"type": "s\x1b", "default": "d\u202e", "description": "e\x1b\u202e"}},
        },
    ),
    origin=Origin("p\x1b", "d\x1b", "v\x1b"),
)


@pytest.mark.parametrize("name", ["listing_plain", "listing_json", "show_text", "show_json", "schema_text"])
def test_nothing_hidden_is_listed_or_shown(name):
    text = getattr(tool_texts, name)([HOSTILE] if name.startswith("listing") else HOSTILE)
    assert not any(character in text for character in "\x1b\x07\u202e\u2066\u200b")


def test_a_tools_page():
    assert show_text(READ) == (
        "read_file - Read a file\n"
        "from plugin 'files' (pegboard-files 0.1.0)\n"
        "\n"
        "Reads a file. Gives its lines.\n"
        "\n"
        "Up to a limit.\n"
        "\n"
        "Arguments:\n"
        "  path: string, required\n"
        "      Which file. Relative to the root.\n"
        "  limit: integer, default 2000\n"
        "  rest: any\n"
        "\n"
        "Result: object\n"
        "\n"
        "kind: function\n"
        'annotations: {"readOnlyHint":true,"destructiveHint":false}\n'
        'tags: ["fs","read"]\n'
        "permission: read\n"
        "requiresConfirmation: true\n"
        "version: 3\n"
        f"digest: {READ.spec.digest}\n"
    )


def test_the_page_of_a_bare_tool():
    assert show_text(BARE) == f"bare\nfrom the host\n\nArguments: none\n\nkind: function\ndigest: {BARE.spec.digest}\n"


def test_a_tool_that_takes_anything():
    assert "Arguments: any object" in show_text(Tool(ToolSpec("t", input_schema={"type": "object"})))
    assert "kind: provider" in show_text(Tool(ToolSpec("t", kind="provider", provider_id="x")))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (True, "any"),
        ({}, "any"),
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"type": "array", "items": {"type": "integer"}}, "list of integer"),
        ({"type": "array"}, "list"),
        ({"enum": ["a", 1]}, '"a" or 1'),
        ({"const": None}, "null"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "string"}]}, "string or null"),
        ({"oneOf": [{"const": "x"}, {"type": "number"}]}, '"x" or number'),
        ({"$ref": "#/$defs/Node"}, "Node"),
    ],
)
def test_types_in_words(schema, words):
    assert type_words(schema) == words


def test_types_are_followed_some_levels_deep():
    schema: dict = {"type": "string"}
    for _ in range(2000):
        schema = {"type": "array", "items": schema}
    assert type_words(schema) == "list of list of list of list of any"


def test_long_types_and_defaults_are_cut():
    schema = {"type": "object", "properties": {"p": {"enum": ["x"] * 500, "default": "d" * 500}}}
    line = show_text(Tool(ToolSpec("t", input_schema=schema))).split("\n")[4]
    assert line.count("…") == 2
    assert len(line) < 400


def test_a_tool_shows_its_source():
    tool = READ.evolve(origin=evolve(ORIGIN, source="llm-tools-sqlite"))
    listed, shown = json.loads(listing_json([tool]))["tools"][0], json.loads(show_json(tool))
    assert (listed["distribution"], listed["source"]) == ("pegboard-files", "llm-tools-sqlite")
    assert (shown["distribution"], shown["source"]) == ("pegboard-files", "llm-tools-sqlite")
    assert show_text(tool).splitlines()[1] == "from plugin 'files' (pegboard-files 0.1.0), from llm-tools-sqlite"


def test_json_has_the_rest_of_the_spec():
    tool = Tool(ToolSpec("t", examples=[{"a": 1}], meta={"x": "y\u202e"}, long_running=True), origin=ORIGIN)
    data = json.loads(show_json(tool))
    assert (data["examples"], data["meta"], data["longRunning"]) == ([{"a": 1}], {"x": "y\u202e"}, True)
    assert data["version"] == "0.1.0"
    assert list(data)[:3] == ["name", "description", "inputSchema"]


def test_the_json_of_a_plain_tool_is_its_object_in_the_list():
    assert json.loads(show_json(READ)).items() >= json.loads(listing_json([READ]))["tools"][0].items()
    assert json.loads(show_json(BARE)) == json.loads(listing_json([BARE]))["tools"][0]


def test_the_schema_is_indented():
    assert schema_text(READ) == json.dumps(SCHEMA, indent=2) + "\n"


def test_the_notice_names_the_first_problems():
    problems = [
        Problem("c\x1b", plugin="p", distribution="d"),
        Problem("c", distribution="d"),
        Problem("c"),
        Problem("c", plugin="q"),
    ]
    assert notice_text(problems) == (
        "plugin p: c\\u{1b}\ndistribution d: c\nsys.path: c\n1 more problem: see 'registry doctor'\n"
    )
    assert notice_text([]) == ""


# Details of a tool's page --------------------------------------------------------------------------------------------


def page(**facts) -> list[str]:
    return show_text(Tool(ToolSpec("t", **facts))).splitlines()


def arguments(**properties) -> list[str]:
    lines = page(input_schema={"type": "object", "properties": properties})
    return lines[lines.index("Arguments:") + 1 : -3]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer, minimum 1, maximum 9"),
        ({"type": "number", "exclusiveMinimum": 0}, "number, exclusiveMinimum 0"),
        ({"type": "string", "minLength": 1, "format": "date"}, "string, minLength 1, format date"),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, "list of string, minItems 1"),
        ({"type": "string", "pattern": "^x\x1b$"}, "string, pattern ^x\\u{1b}$"),
        ({"type": "string", "pattern": 3, "default": ""}, 'string, pattern 3, default ""'),
    ],
)
def test_constraints_of_arguments(schema, words):
    assert arguments(a=schema) == [f"  a: {words}"]


def test_properties_of_objects_have_dotted_names():
    part = {"type": "object", "properties": {"op": {"type": "string", "description": "How.\nSo."}}, "required": ["op"]}
    assert arguments(filter=part, all={"type": "array", "items": part}) == [
        "  filter: object",
        "  filter.op: string, required",
        "      How. So.",
        "  all: list of object",
        "  all[].op: string, required",
        "      How. So.",
    ]


def test_recursive_types_are_followed_some_levels_deep():
    lines = page(
        input_schema={
            "$ref": "#/$defs/node",
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        }
    )
    assert lines[3:7] == ["Arguments:", "  next: node", "  next.next: node", "  next.next.next: node"]


def test_the_result():
    lines = page(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    assert lines[lines.index("Result:") + 1] == "  n: integer"
    assert "Result: object" in page(output_schema={"type": "object"})


def test_examples_and_grammar():
    lines = page(
        kind="freeform",
        examples=[{"input": "x\u202e"}],
        grammar=Grammar("lark", "start: A\nA: /x\x1b/\n"),
    )
    assert lines[lines.index("Examples:") + 1] == '  {"input":"x\\u{202e}"}'
    at = lines.index("Grammar (lark):")
    assert lines[at + 1 : at + 3] == ["  start: A", "  A: /x\\u{1b}/"]
    assert "kind: freeform" in lines


def test_a_tool_that_is_never_offered_is_marked_in_each_text():
    facts = {"description": "Remembers. And more.", "instructions": "Mind\x1b the gap.", "deferred": True}
    processor = Tool.processor("memory", lambda request: None, **facts)
    assert {"deferred: true", "offered: false", "instructions: Mind\\u{1b} the gap."} <= {
        *show_text(processor).split("\n")
    }
    assert listing_plain([processor]).split("\t")[2] == "(never offered) Remembers.\n"
    assert json.loads(show_json(processor))["offered"] is False
    assert "offered" not in json.loads(show_json(processor.evolve(offered=True)))
