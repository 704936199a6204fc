from __future__ import annotations

import json
import re

import attrs
import pytest
from hypothesis import given, strategies as st

from pegboard import (
    Concurrency,
    Grammar,
    Limits,
    Origin,
    Policy,
    ResultLimits,
    Tool,
    ToolAnnotations,
    ToolRegistry,
    ToolSpec,
)
from pegboard.errors import InvalidNameError
from pegboard.tools import HOST, check_name, is_valid_name, mapped_name

HINT = st.none() | st.booleans()

SPECS = st.builds(
    ToolSpec,
    name=st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,9}", fullmatch=True),
    description=st.text(max_size=10),
    input_schema=st.sampled_from([{"type": "object"}, {"type": "object", "properties": {"a": {}}}]),
    output_schema=st.none() | st.just({"type": "object"}),
    title=st.none() | st.text(max_size=5),
    annotations=st.builds(ToolAnnotations, HINT, HINT, HINT, HINT, HINT),
    tags=st.lists(st.text(max_size=3), max_size=3),
    examples=st.lists(st.dictionaries(st.text(max_size=2), st.integers(), max_size=2), max_size=2).map(tuple),
    grammar=st.none() | st.builds(Grammar, st.sampled_from(["lark", "regex"]), st.from_regex("[a-z]*", fullmatch=True)),
    provider_id=st.none() | st.text(min_size=1, max_size=5),
    provider_arguments=st.dictionaries(st.text(max_size=2), st.booleans(), max_size=2),
    strict=HINT,
    long_running=st.booleans(),
    deferred=st.booleans(),
    concurrency=st.sampled_from(
        [Concurrency(), Concurrency("exclusive"), Concurrency("key", ("path",), "read"), Concurrency("path", ("a",))]
    ),
    permission=st.none() | st.text(max_size=3),
    permission_arguments=st.dictionaries(
        st.text(max_size=2), st.sampled_from(["text", "command", "path", "url"]), max_size=2
    ),
    requires_confirmation=st.booleans(),
    version=st.none() | st.text(max_size=3),
    original_name=st.none() | st.text(max_size=3),
    provider_options=st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    meta=st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


@given(SPECS)
def test_a_spec_survives_json(spec):
    read = ToolSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert read == spec
    assert read.digest == spec.digest
    assert read.to_json() == spec.to_json()


@given(SPECS, SPECS)
def test_specs_are_equal_exactly_if_their_json_is(one, other):
    assert (one == other) == (one.to_json() == other.to_json())
    assert one != other or hash(one) == hash(other)
    assert one != one.name


def test_defaults_are_not_written():
    assert ToolSpec("ping").to_json() == {
        "name": "ping",
        "description": "",
        "kind": "function",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }


def test_every_fact_is_in_the_digest():
    """But for the digest itself: origin and policy stand beside the spec."""
    plain = ToolSpec("a")
    changed = {
        "name": "b",
        "description": "d",
        "input_schema": {"type": "object"},
        "output_schema": {"type": "object"},
        "title": "t",
        "kind": "freeform",
        "annotations": ToolAnnotations(read_only_hint=False),
        "tags": ["t"],
        "examples": ({},),
        "grammar": Grammar("lark", "start: /a/"),
        "provider_id": "p",
        "provider_arguments": {"a": 1},
        "strict": False,
        "long_running": True,
        "deferred": True,
        "concurrency": Concurrency("exclusive"),
        "permission": "p",
        "permission_arguments": {"a": "path"},
        "requires_confirmation": True,
        "version": "1",
        "original_name": "o",
        "provider_options": {"a": 1},
        "meta": {"a": 1},
    }
    facts = {each.alias for each in attrs.fields(ToolSpec) if each.init}
    assert facts == changed.keys()
    digests = {plain.evolve(**{name: value}).digest for name, value in changed.items()}
    assert len(digests | {plain.digest}) == len(changed) + 1


def test_changing_a_returned_value_does_not_change_the_spec():
    spec = ToolSpec("a", input_schema={"type": "object", "properties": {}}, meta={"a": []}, examples=({},))
    spec.input_schema["properties"]["x"] = {}
    spec.meta["a"].append(1)
    spec.examples[0]["x"] = 1
    assert spec.input_schema["properties"] == {}
    assert spec.meta == {"a": []}
    assert spec.examples == ({},)


def test_tags_are_sorted_and_unique():
    assert ToolSpec("a", tags=["b", "a", "b"]).tags == ("a", "b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nmae": "a"}, "nmae: unknown key"),
        ({"name": ...}, "name: missing"),
        ({"name": None}, "name: expected str, found NoneType"),
        ({"description": 1}, "description: expected str, found int"),
        ({"kind": "other"}, "kind: unknown value 'other'. There are function, freeform, provider"),
        ({"inputSchema": True}, "inputSchema: expected dict, found bool"),
        ({"outputSchema": None}, "outputSchema: expected dict"),
        ({"annotations": {"readOnlyHint": "yes"}}, "annotations: readOnlyHint: must be a boolean, got str"),
        ({"annotations": []}, "annotations: expected dict"),
        ({"tags": "a"}, "tags: expected list, found str"),
        ({"tags": [1]}, "tags must be of type str, got 1"),
        ({"examples": [1]}, "examples must be of type dict, got 1"),
        ({"grammar": {"syntax": "lark"}}, "grammar: "),
        ({"grammar": {"syntax": "lark", "definition": 5}}, "grammar: "),
        ({"grammar": {"syntax": "peg", "definition": ""}}, "syntax: unknown value 'peg'"),
        ({"concurrency": {"mode": "key", "key": "path"}}, "concurrency: key must be "),
        ({"concurrency": {"mode": "key", "key": [1]}}, "concurrency: key must be "),
        ({"concurrency": {"mode": "key", "key": 1}}, "concurrency: "),
        ({"concurrency": {"mode": "sometimes"}}, "mode: unknown value 'sometimes'"),
        ({"longRunning": 1}, "longRunning: expected bool, found int"),
    ],
)
def test_untrusted_data_is_checked(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ToolSpec.from_json({key: value for key, value in {"name": "a", **change}.items() if value is not ...})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        *((lambda tags=tags: ToolSpec("a", tags=tags), TypeError, "tags must be ") for tags in ("abc", [1])),
        *((lambda text=text: ToolSpec("a", text), TypeError, "description must be a string") for text in (None, 5)),
        (lambda: ToolSpec("a", title=5), TypeError, "title must be a string"),
        *(
            (lambda names=names: Concurrency("path", names), ValueError, "'path' takes the name of one")
            for names in ([], ["a", "b"])
        ),
        (lambda: Grammar("lark", None), TypeError, "must be a string"),
        (lambda: Grammar("lark", "\ud800"), ValueError, "lone surrogates"),
        (lambda: ToolSpec("a", kind="provider"), ValueError, "provider_id: a provider tool needs"),
        (lambda: ToolSpec("a", kind="provider", provider_id=""), ValueError, "provider_id: a provider tool needs"),
        (lambda: ToolSpec("a", provider_id=""), ValueError, "provider_id: a provider tool needs"),
    ],
)
def test_attributes_of_the_wrong_form_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_only_hints_that_are_set_are_written():
    assert ToolAnnotations(destructive_hint=False, edit_hint=True).to_json() == {
        "destructiveHint": False,
        "editHint": True,
    }
    assert ToolAnnotations.from_json({"readOnlyHint": True, "title": "x"}) == ToolAnnotations(read_only_hint=True)


def test_a_concurrency_key_is_written_only_if_it_is_used():
    assert Concurrency("exclusive", ("a",)).to_json() == {"mode": "exclusive"}
    assert Concurrency("key", ["a"], "read").to_json() == {"mode": "key", "key": ["a"], "access": "read"}
    assert Concurrency("path", ["a"]).to_json() == {"mode": "path", "key": ["a"], "access": "write"}


def test_lone_surrogates_of_free_texts_are_replaced():
    spec = ToolSpec("a", description="x\ud800\u00e9", title="\udfff\U0001f600")
    assert (spec.description, spec.title) == ("x\ufffd\u00e9", "\ufffd\U0001f600")
    json.dumps(spec.to_json(), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"input_schema": {"type": "object", "title": "\ud800"}}, "input_schema: title: must not hold"),
        ({"output_schema": {"type": "object", "default": {"\ud800": 1}}}, "output_schema: default: keys must not hold"),
        ({"examples": [{"a": "\ud800"}]}, "examples: [0].a: must not hold"),
        ({"provider_arguments": {"a": "\ud800"}}, "provider_arguments: a: must not hold"),
        ({"provider_options": {"a": "\ud800"}}, "provider_options: a: must not hold"),
        ({"meta": {"a": "\ud800"}}, "meta: a: must not hold"),
        ({"tags": ["\ud800"]}, "tags: '\\ud800' must not hold"),
        ({"permission": "\ud800"}, "permission: '\\ud800' must not hold"),
        ({"permission_arguments": {"\ud800": "path"}}, "permission_arguments: (root): keys must not hold"),
        ({"version": "\ud800"}, "version: "),
        ({"original_name": "\ud800"}, "original_name: "),
        ({"kind": "provider", "provider_id": "\ud800"}, "provider_id: "),
    ],
)
def test_lone_surrogates_elsewhere_are_refused(facts, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ToolSpec("a", **facts)


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (["path"], TypeError, "must be a mapping of names to kinds"),
        ("path", TypeError, "must be a mapping of names to kinds"),
        ({1: "path"}, TypeError, "1 isn't an argument name"),
        ({"a": "file"}, ValueError, "permission_arguments.a: unknown kind 'file'; must be one of text, command"),
        ({"a": []}, ValueError, "permission_arguments.a: unknown kind []"),
    ],
)
def test_permission_arguments_have_known_kinds(given, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        ToolSpec("a", permission_arguments=given)
    if isinstance(given, dict) and kind is ValueError:
        with pytest.raises(ValueError, match=re.escape(message)):
            ToolSpec.from_json({"name": "a", "permissionArguments": given})


@pytest.mark.parametrize("definition", ["(", "(?=a)", "a{1000}{1000}{1000}"])
def test_a_grammar_that_no_engine_runs_is_refused(definition):
    with pytest.raises(ValueError, match="isn't a regular expression that runs in linear time"):
        Grammar("regex", definition)
    assert Grammar("lark", definition).definition == definition


def test_a_freeform_tool_takes_a_text():
    for made in (ToolSpec("a", kind="freeform"), ToolSpec.from_json({"name": "a", "kind": "freeform"})):
        assert (made.input_schema["properties"], made.input_schema["required"]) == (
            {"input": {"type": "string"}},
            ["input"],
        )
    own = {"type": "object", "properties": {}}
    assert ToolSpec("a", kind="freeform", input_schema=own).input_schema == own


VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)


@pytest.mark.parametrize("name", ["", "1a", "-a", "a b", "a.b", "größe", "a" * 65, "a\n", "٣", "a\u0000"])
def test_names_that_a_provider_refuses_are_invalid(name):
    with pytest.raises(InvalidNameError) as caught:
        check_name(name)
    assert caught.value.name == name
    assert "name=" in str(caught.value)


@given(st.text(max_size=70))
def test_valid_names_match_the_documented_pattern(name):
    assert is_valid_name(name) == bool(VALID.fullmatch(name))


@given(st.text())
def test_every_foreign_name_gets_a_valid_one(foreign):
    assert is_valid_name(mapped_name(foreign))


@given(st.lists(st.text(alphabet="ab_-. ", max_size=6), unique=True))
def test_different_foreign_names_get_different_names(foreign):
    assert len({mapped_name(each) for each in foreign}) == len(foreign)


@pytest.mark.parametrize("name", ["pegboard_x", "Pegboard_request_confirmation", "PEGBOARD_x"])
def test_reserved_names_are_invalid_in_any_case(name):
    assert not is_valid_name(name)
    assert mapped_name(name).startswith(f"_{name}_")


def test_a_mapped_name_stays_readable():
    assert re.fullmatch(r"files_read_text_[0-9a-f]{10}", mapped_name("files.read text"))
    assert mapped_name("1st").startswith("_1st_")


def test_a_name_that_looks_like_a_mapped_one_cannot_take_its_place():
    mapped = mapped_name("files.read")
    assert mapped_name(mapped) != mapped


def test_long_names_that_differ_at_the_end_are_distinct():
    assert mapped_name("a" * 100 + "b") != mapped_name("a" * 100 + "c")


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (HOST, "the host"),
        (Origin("files"), "plugin 'files'"),
        (Origin("files", "pegboard-files", "1.2"), "plugin 'files' (pegboard-files 1.2)"),
        (Origin("files", "pegboard-files"), "plugin 'files' (pegboard-files ?)"),
        (Origin("files", toolset="disk"), "plugin 'files', toolset 'disk'"),
        (Origin(source="llm-tools-sqlite"), "the host, from llm-tools-sqlite"),
        (
            Origin("llm", "pegboard-llm", "0.3.0", "all", source="LLM_tools.sqlite"),
            "plugin 'llm' (pegboard-llm 0.3.0), from llm-tools-sqlite, toolset 'all'",
        ),
    ],
)
def test_an_origin_has_a_readable_text(origin, text):
    assert str(origin) == text


@pytest.mark.parametrize("source", ["", "-a", "a\n", "a b", "a'", "ä", "a\u202e", "a" * 129])
def test_a_source_that_is_no_distributions_name_is_refused(source):
    with pytest.raises(ValueError, match=r"source: .* isn't a distribution's name"):
        Origin(source=source)
    with pytest.raises(TypeError, match="source: a distribution's name must be a string"):
        Origin(source=[source])


def test_the_text_of_a_source_is_a_plain_string():
    class Text(str):
        __slots__ = ()

    for source in (Text("a"), Text("A_" * 60 + "b")):
        assert type(Origin(source=source).source) is str


def test_the_default_limits_are_2000_lines_and_50_kib():
    limits = Limits().results
    assert (limits.lines, limits.bytes, limits.tokens, limits.keep) == (2_000, 50 * 1024, None, "head")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((ResultLimits, options) for options in ({"lines": 0}, {"bytes": -1}, {"tokens": 0}, {"media_bytes": 0})),
        (ResultLimits, {"keep": "all"}),
        *((Limits, options) for options in ({"timeout": float("nan")}, {"depth": 0}, {"argument_bytes": -1})),
        (Limits, {"grace": "1"}),
        *((Policy, options) for options in ({"timeout": 0}, {"timeout": float("nan")}, {"retries": -1})),
        *((Policy, options) for options in ({"max_concurrency": 0}, {"executor": ""}, {"memory_limit": 1 << 20})),
        *((Policy, options) for options in ({"queue": ""}, {"queue": "a b"}, {"queue": 1}, {"queue": "a\n"})),
    ],
)
def test_invalid_limits_are_refused_at_once(kind, options):
    with pytest.raises((ValueError, TypeError), match=rf"{next(iter(options))}|>="):
        kind(**options)


@pytest.mark.parametrize(
    ("options", "small"),
    [({}, 2_000), ({"bytes": 100}, 25), ({"tokens": 40}, 10), ({"lines": 3}, 3)],
)
def test_small_texts_fit_without_measuring(options, small):
    """Of four bytes, and so of four tokens, is the largest character; each a line, at worst."""
    assert ResultLimits(**options).small == small


@pytest.mark.parametrize(
    ("schema", "read"),
    [
        ({"type": "object", "properties": None, "required": None}, {"type": "object"}),
        (
            {"type": "object", "properties": {"a": {"items": None, "enum": None, "default": None, "const": None}}},
            {"type": "object", "properties": {"a": {"default": None, "const": None}}},
        ),
        ({"type": "object", "dependentRequired": None, "enum": [None]}, {"type": "object", "enum": [None]}),
    ],
)
def test_keywords_that_are_null_count_as_none(schema, read):
    assert ToolSpec("t", input_schema=schema, output_schema=schema).input_schema == read
    made = Tool.from_schema("t", schema, lambda _: "x", output_schema=schema)
    assert (made.spec.input_schema, made.spec.output_schema) == (read, read)
    ToolRegistry().register(Tool(ToolSpec("t", input_schema=schema)))


@pytest.mark.parametrize("part", [{"type": "string"}, {"enum": ["x"], "description": "D"}, {"$ref": "#/$defs/d"}])
def test_what_is_nullable_accepts_null(part):
    schema = {"type": "object", "properties": {"a": {**part, "nullable": True}}, "$defs": {"d": {"const": "x"}}}
    made = Tool.from_schema("t", schema, lambda _: "ran")
    assert [made.check({"a": value}) for value in (None, "x")] == [(), ()]
    assert made.check({"a": 1})
    assert made.spec.input_schema["properties"]["a"].get("description") == part.get("description")
