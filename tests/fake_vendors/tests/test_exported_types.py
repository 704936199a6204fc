"""Every export of the corpus fits the vendors' own types and their APIs' rules, strictly or not."""

from __future__ import annotations

import asyncio
import json
import logging
import unittest.mock
from functools import cache
from itertools import islice

import jsonschema
import pytest
from hypothesis import given, strategies as st

import pegboard.request.model_request
from fake_vendors import Call
from fake_vendors.rules import answers, payloads
from fake_vendors.rules.corpus import BY_NAME, SPECS, arguments_of
from fake_vendors.rules.exporters import EXPORTERS
from fake_vendors.rules.gemini_rules import as_json_schema
from fake_vendors.rules.raw_tools import UNREGISTERED
from fake_vendors.rules.rules import RULES
from pegboard import Exporter, ModelConfig, ModelRequest, Tool, ToolSpec
from pegboard.dispatch.arguments import parse_call
from pegboard.schema import validator_of
from pegboard.testing import NoSampleError, Samples
from pegboard.toolsets import resolve_tools

WITH_TYPES = sorted(RULES)
STRICTNESS = [None, True]
ORDINARY = [
    spec for spec in SPECS if spec.kind == "function" and not spec.name.startswith(("raw_", "example_with_odd"))
]
"""What is made of functions, or of ordinary schemas."""

JUDGED = [spec for spec in SPECS if spec.kind == "function" and spec.name.removeprefix("raw_") not in UNREGISTERED]
GROUPS = [SPECS[start : start + 60] for start in range(0, len(SPECS), 60)]

SCHEMA_OF = {
    "openai": lambda entry: entry["function"].get("parameters"),
    "openai-responses": lambda entry: entry["parameters"],
    "anthropic": lambda entry: entry["input_schema"],
    "gemini": lambda entry: entry["functionDeclarations"][0].get("parametersJsonSchema"),
    "gemini-schema": lambda entry: as_json_schema(entry["functionDeclarations"][0].get("parameters") or {}),
    "bedrock": lambda entry: entry["toolSpec"]["inputSchema"]["json"],
    "ollama": lambda entry: entry["function"]["parameters"],
    "mcp": lambda entry: entry["inputSchema"],
}
"""Where a schema stands in the entry of a function, as JSON Schema."""


def exporter_of(name):
    return EXPORTERS[name]()


def exported(name, specs, strict=None):
    return exporter_of(name).tools(list(specs), strict=strict)


def faults_in(name, entries):
    """By the SDK's types and by the API's rules; a list of nothing is no list."""
    entries = list(entries)
    return [*payloads.TOOLS[name](entries), *RULES[name](entries)] if entries else []


def test_every_exporter_but_the_listing_is_held_against_types_and_rules():
    assert set(EXPORTERS) == set(RULES) == set(payloads.TOOLS)


@pytest.mark.parametrize("strict", STRICTNESS)
@pytest.mark.parametrize("name", WITH_TYPES)
def test_each_tool_by_itself_has_no_faults(name, strict):
    found = {spec.name: faults for spec in SPECS if (faults := faults_in(name, exported(name, [spec], strict).entries))}

    assert found == {}


@pytest.mark.parametrize("strict", STRICTNESS)
@pytest.mark.parametrize("name", WITH_TYPES)
def test_lists_of_many_tools_have_no_faults(name, strict):
    for group in GROUPS:
        assert faults_in(name, exported(name, group, strict).entries) == []


@pytest.mark.parametrize("strict", STRICTNESS)
@pytest.mark.parametrize("name", sorted(EXPORTERS))
def test_a_tool_is_either_in_an_entry_or_refused_and_a_check_says_what_was_lost(name, strict):
    """No ordinary one is refused: where it can't be said strictly, it goes plainly. Losses point into the spec's JSON;
    what the provider lacks as a whole has no path."""
    exporter, keys = exporter_of(name), {key for spec in SPECS for key in spec.to_json()}
    for spec in SPECS:
        tools = exported(name, [spec], strict)
        given, refused = tools.names, tools.refused
        assert given | refused == {spec.name}, spec.name
        assert not given & refused, spec.name
        assert not refused or spec not in ORDINARY, spec.name
        assert bool(tools.entries) is bool(given), spec.name
        assert all(loss.tool == spec.name and loss.keyword and loss.what for loss in tools.losses), spec.name
        assert all(loss.path == "" or loss.path.split("/")[1] in keys for loss in tools.losses), spec.name
        assert exporter.check(spec, strict=strict) == tools.losses, spec.name


HOSTED = [Tool.provider(kind, f"{kind}.x_search") for kind in ("google", "openai", "anthropic", "bedrock")]
OFFERED = [*HOSTED, Tool.provider("again", "google.x_search"), *(Tool(spec) for spec in SPECS[:40])]


@pytest.mark.parametrize("name", sorted({*EXPORTERS} - {"mcp"}))  # which only lists tools
@given(
    tools=st.lists(st.sampled_from(OFFERED), unique=True, min_size=1, max_size=6),
    model=st.sampled_from([None, "gemini-2.5-flash", "models/gemini-1.5-pro", "gemini-3-pro"]),
    strict=st.sampled_from(STRICTNESS),
)
def test_no_tool_leaves_a_request_unreported(name, tools, model, strict):
    exporter, offered = exporter_of(name), asyncio.run(resolve_tools(tools))
    request = ModelRequest("Hi.", tools=offered, model=model, config=ModelConfig(strict=strict))
    tools_of = getattr(exporter, "tools_of", lambda _: exporter.tools([tool.spec for tool in tools], strict=strict))
    pegboard.request.model_request._warn.cache_clear()
    logged = logging.getLogger("pegboard")
    with unittest.mock.patch.object(logged, "warning") as warning:
        body, _ = exporter.request(request), exporter.request(request)
    listed = tools_of(request)
    assert sorted(call.args[1] for call in warning.mock_calls) == sorted(
        {loss.tool for loss in listed.losses if loss.refused}
    )
    assert listed.names | {loss.tool for loss in listed.losses if loss.refused} == {tool.name for tool in tools}
    sent = body.get("toolConfig", body) if name == "bedrock" else body
    assert [each for each in sent.get("tools", ()) if "cachePoint" not in each] == list(listed.entries)


@pytest.mark.parametrize("name", sorted(EXPORTERS))
def test_an_output_schema_that_is_not_sent_is_no_loss(name):
    spec = ToolSpec("f", "Says it.", input_schema={"type": "object", "properties": {"a": {"type": "string"}}})
    told = spec.evolve(output_schema={"type": "object", "properties": {"b": {"type": "string"}}})
    assert exporter_of(name).check(told) == exporter_of(name).check(spec)


@pytest.mark.parametrize("name", sorted(EXPORTERS))
def test_exports_are_pure_json_and_leave_the_spec_alone(name):
    digests = [spec.digest for spec in SPECS]
    entries = list(exported(name, SPECS[:100]).entries)

    assert json.loads(json.dumps(entries, allow_nan=False)) == entries
    assert [type(spec).from_json(spec.to_json()).digest for spec in SPECS] == digests


@pytest.mark.parametrize("name", sorted(EXPORTERS))
def test_a_tool_is_written_once_for_as_long_as_it_says_the_same(name):
    first, second = (exported(name, [ToolSpec("t", "x")]).entries[0] for _ in range(2))
    assert first is second or first["functionDeclarations"][0] is second["functionDeclarations"][0]


@pytest.mark.parametrize("name", sorted(EXPORTERS))
def test_a_schema_beyond_all_bounds_is_refused(name):
    deep = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    tools = exported(name, [ToolSpec("deep", input_schema=deep)])

    assert isinstance(exporter_of(name), Exporter)
    assert (tools.entries, tools.refused) == ((), {"deep"})


@pytest.mark.parametrize("name", ["anthropic", "bedrock", "openai", "openai-responses"])
@pytest.mark.parametrize("description", ["", " \n"])
def test_a_blank_description_is_left_out(name, description):
    if not description or not name.startswith("openai"):
        assert "description" not in json.dumps(list(exported(name, [ToolSpec("t", description)]).entries))


@pytest.mark.parametrize("name", WITH_TYPES)
def test_a_tool_that_a_provider_hosts_is_another_one_s_refusal(name):
    hosted = [spec for spec in SPECS if spec.kind == "provider"]
    family = {"openai-responses": "openai", "anthropic": "anthropic", "gemini": "google", "gemini-schema": "google"}
    wanted = {spec.name for spec in hosted if spec.provider_id.startswith(f"{family.get(name)}.")}

    given = {spec.name for spec in hosted if exported(name, [spec]).names}

    assert wanted <= given
    assert not {spec.name for spec in hosted if spec.provider_id.startswith("somebody.")} & given


@pytest.mark.parametrize("name", sorted(SCHEMA_OF))
def test_a_plain_schema_takes_what_the_tool_takes(name):
    """A dialect may loosen a schema and never tightens it: else the model couldn't say what the tool can do."""
    found = {}
    for spec in SPECS:
        entries = exported(name, [spec], strict=False).entries if spec.kind == "function" else ()
        if not entries or spec.strict:
            continue
        judge = jsonschema.Draft202012Validator(SCHEMA_OF[name](entries[0]) or {})
        tight = [each for each in arguments_of(spec.name) if not judge.is_valid(each)]
        if tight:
            found[spec.name] = tight[0]

    assert found == {}


@pytest.mark.parametrize("name", sorted(SCHEMA_OF))
def test_a_plain_schema_without_losses_takes_nothing_else(name):
    """Where nothing is said to be lost, nothing is lost: what the schema takes, the tool takes."""
    found = {}
    for spec in JUDGED:
        tools = exported(name, [spec], strict=False)
        if spec.strict or not tools.entries or any(loss.path.startswith("/inputSchema") for loss in tools.losses):
            continue
        schema = SCHEMA_OF[name](tools.entries[0]) or {"type": "object"}
        samples = samples_of(json.dumps(schema)) if schema != spec.input_schema else ()
        wide = [each for each in samples if Tool(spec).validator.problems(each)]
        if wide:
            found[spec.name] = wide[0]

    assert found == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic", "bedrock"])
def test_what_a_strict_schema_takes_is_read_as_what_the_tool_takes(name):
    """A model that is held to a strict schema may say null for what is left out; that is taken back."""
    found, tried = {}, 0
    for spec in JUDGED:
        tools = exported(name, [spec], strict=True)
        if not tools.entries or any(loss.path.startswith(("/inputSchema", "/strict")) for loss in tools.losses):
            continue
        request = ModelRequest("x", model="m", tools=resolved([spec]), config=ModelConfig(strict=True))
        for said in samples_of(json.dumps(SCHEMA_OF[name](tools.entries[0]))):
            tried += 1
            dump = answers.whole(name, [Call(spec.name, said, "call_1")])[0]
            (call,) = exporter_of(name).response(dump, request).calls
            read = parse_call(call, request.tools.get)
            if read.invalid:
                found[spec.name] = (said, read.error)

    assert found == {}
    assert tried > 100


def resolved(specs):
    return asyncio.run(resolve_tools([Tool(spec) for spec in specs], ()))


@cache
def samples_of(text):
    """Some objects that a schema takes, by the board's own judge; exporters write many alike."""
    schema = json.loads(text)
    made = Samples(schema, validator_of(text).accepts).of()
    try:
        return [sample for sample in islice(made, 12) if isinstance(sample, dict)]
    except NoSampleError:
        return []


RECURSIVE = ("takes_linked_list", "takes_mutual", "takes_recursive_union", "takes_nested_lists", "raw_root_recursion")
STRICT = (
    *(
        "takes_attrs_class",
        "takes_optional",
        "takes_enum",
        "takes_list_of_objects",
        "takes_tagged_union",
        "takes_between",
    ),
    *("takes_tuple_of_two", "takes_set", "takes_bytes", "takes_validated_class", "takes_matching", "takes_link"),
    *("get_weather", "book_meeting", "all_optional", "ping", "raw_closed_and_empty", "raw_open_object", "raw_root_ref"),
    *("raw_root_any_of", "raw_root_all_of", "raw_definitions", "raw_anchor", "raw_reference_with_words", "raw_any_of"),
    *("raw_one_of", "raw_any_of_beside_type", "raw_all_of", "raw_not", "raw_const", "raw_enum_of_all", "raw_type_list"),
    *("raw_never", "raw_formats", "raw_numbers", "raw_contents", "raw_prefix_items", "raw_contains", "raw_unevaluated"),
    *("raw_draft_7_tuple", "raw_draft_7_dependencies", "raw_draft_4_bounds", "raw_ten_levels", "raw_look_around"),
)
"""What can be said strictly, with or without losses: exporting it plainly would be a loss of its own."""


def is_strict(entry):
    return entry.get("function", entry.get("toolSpec", entry)).get("strict")


@pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic", "bedrock"])
def test_schemas_with_a_strict_form_are_strict(name):
    wanted = (*STRICT, *RECURSIVE) if name.startswith("openai") else STRICT

    assert [each for each in wanted if not is_strict(exported(name, [BY_NAME[each]], strict=True).entries[0])] == []


@pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic", "bedrock"])
def test_schemas_without_a_strict_form_are_exported_with_a_loss(name):
    unsayable = [
        "takes_anything",
        "takes_dict_of_integers",
        "takes_json",
        "raw_if_then_else",
        "raw_required_but_unknown",
    ]

    for each in unsayable if name.startswith("openai") else (*unsayable, *RECURSIVE, "raw_thirty_optional"):
        tools = exported(name, [BY_NAME[each]], strict=True)
        assert not is_strict(tools.entries[0]), each
        assert any(loss.keyword == "strict" for loss in tools.losses), each


@pytest.mark.parametrize("name", ["anthropic", "openai-responses"])
def test_deferred_tools_go_with_a_search(name):
    specs = [BY_NAME[each] for each in ("ping", "deferred", "rarely_needed", "search_web")]
    request = ModelRequest("x", model="m", tools=resolved(specs), loads_deferred=True)

    entries = exporter_of(name).request(request)["tools"]

    assert faults_in(name, entries) == []
    assert sum(bool(entry.get("defer_loading")) for entry in entries) == 2


@pytest.mark.parametrize("strict", STRICTNESS)
@pytest.mark.parametrize("name", sorted(payloads.MESSAGES))
def test_the_tools_of_a_request_are_those_of_the_list(name, strict):
    registered = [spec for spec in SPECS if spec.name.removeprefix("raw_") not in UNREGISTERED][:100]
    request = ModelRequest("x", model="m", tools=resolved(registered), config=ModelConfig(strict=strict))

    body = exporter_of(name).request(request)

    entries = body["toolConfig"]["tools"] if name == "bedrock" else body["tools"]
    assert faults_in(name, entries) == []
    assert entries == list(exported(name, [spec for spec in registered if not spec.deferred], strict).entries)
