"""Names, arguments and facts of the tools of operations."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from pegboard.tools import is_valid_name
from pegboard_openapi.document import Document, Source
from pegboard_openapi.operations import Reader

UNNAMED = {"responses": {}}


def names(*operations, prefix=""):
    """The names of operations, given as (method, path, id or None)."""
    paths = {}
    for method, path, name in operations:
        paths.setdefault(path, {})[method] = UNNAMED if name is None else {"operationId": name, **UNNAMED}
    document = Document(Source("", {"openapi": "3.1.0", "paths": paths}))
    reader = Reader(document, prefix=prefix)
    return [operation.name for operation, _ in reader.operations()], reader


@pytest.mark.parametrize(
    ("name", "path", "fitted"),
    [
        ("getPet", "/x", "getPet"),
        ("repos/list-for-user", "/x", "repos_list-for-user"),
        ("Pets: get (one)", "/x", "Pets_get_one"),
        ("2fa", "/x", "_2fa"),
        (None, "/users/me", "get_users_me"),
        ("", "/", "get"),
    ],
)
def test_names(name, path, fitted):
    assert names(("get", path, name))[0] == [fitted]


def test_long_and_reserved_names_end_with_a_digest():
    (long, other, reserved), _ = names(
        ("get", "/a", "x" * 70 + "a"), ("get", "/b", "x" * 70 + "b"), ("get", "/c", "pegboard_x")
    )
    assert re.fullmatch("x{55}_[0-9a-f]{8}", long)
    assert re.fullmatch("x{55}_[0-9a-f]{8}", other)
    assert long != other
    assert re.fullmatch("_pegboard_x_[0-9a-f]{8}", reserved)


def test_names_that_would_be_equal_end_with_a_digest_but_the_exact_one():
    found, _ = names(("get", "/a", "a/b"), ("get", "/b", "a b"), ("get", "/c", "a_b"))
    assert found[2] == "a_b"
    assert all(re.fullmatch("a_b_[0-9a-f]{8}", each) for each in found[:2])
    assert len(set(found)) == 3


def test_the_same_id_twice_is_reported_and_both_are_offered():
    found, reader = names(("get", "/a", "same"), ("post", "/b", "same"))
    assert found[0] == "same"
    assert re.fullmatch("same_[0-9a-f]{8}", found[1])
    assert reader.notes == ["POST /b and GET /a have the same operationId, 'same'"]


ids = st.one_of(
    st.none(),
    st.text(max_size=80),
    st.text(st.characters(), max_size=5),
    st.sampled_from(["a", "A", "a b", "a/b", "a_b", "get"]),
)


@given(st.lists(ids, min_size=1, max_size=12), st.sampled_from(["", "shop_"]), st.randoms())
def test_names_are_valid_distinct_and_dont_depend_on_the_order(given_ids, prefix, random):
    operations = [("get", f"/{number}", name) for number, name in enumerate(dict.fromkeys(given_ids))]
    found, _ = names(*operations, prefix=prefix)
    assert all(map(is_valid_name, found))
    assert len(set(found)) == len(found) == len(operations)
    by_path = dict(zip([path for _, path, _ in operations], found, strict=True))
    random.shuffle(operations)
    again, _ = names(*operations, prefix=prefix)
    assert dict(zip([path for _, path, _ in operations], again, strict=True)) == by_path


def test_hints_by_method(api):
    methods = ["get", "head", "options", "post", "put", "patch", "delete", "query"]
    item = {method: {"operationId": method, "responses": {}} for method in methods}
    tools, _ = api.tools_of(api.document({"/x": item}, "3.2.0"))
    hints = {name: tool.spec.annotations for name, tool in tools.items()}
    assert [name for name in methods if hints[name].read_only_hint] == ["get", "head", "options", "query"]
    assert [name for name in methods if hints[name].destructive_hint] == ["delete"]
    assert [name for name in methods if hints[name].idempotent_hint] == [
        *("get", "head", "options", "put", "delete", "query")
    ]


def test_what_the_model_reads(api):
    facts = {"summary": "Get it.", "description": "All of it.", "tags": ["b", "a", 7], "deprecated": True}
    paths = api.operation(parameters=[api.parameter("q", description="What.", required=True)], **facts)
    tool = api.tools_of(api.document(paths))[0]["x"]
    assert tool.spec.description == "Deprecated. Get it.\n\nAll of it."
    assert (tool.spec.title, tool.spec.tags) == ("Get it.", ("a", "b"))
    assert tool.spec.input_schema == {
        "type": "object",
        "properties": {"q": {"type": "string", "description": "What."}},
        "required": ["q"],
        "additionalProperties": False,
    }
    assert tool.spec.meta == {"openapi": {"method": "GET", "path": "/x"}}


def test_parameters_of_the_path_and_of_the_operation(api):
    paths = api.operation(parameters=[api.parameter("a", schema={"type": "integer"})])
    paths["/x"]["parameters"] = [api.parameter("a"), api.parameter("b")]
    properties = api.tools_of(api.document(paths))[0]["x"].spec.input_schema["properties"]
    assert properties == {"a": {"type": "integer"}, "b": {"type": "string"}}


@pytest.mark.parametrize(
    ("contents", "media"),
    [
        (["multipart/form-data", "application/json"], "json"),
        (["text/plain", "application/vnd.api+json"], "json"),
        (["application/octet-stream", "application/x-www-form-urlencoded"], "form"),
        (["application/xml"], "text"),
        (["*/*"], "json"),
        (["image/png"], "file"),
    ],
)
def test_the_best_of_several_bodies(contents, media):
    schema = {"schema": {"type": "object"}}
    operation = {"requestBody": {"content": dict.fromkeys(contents, schema)}, "responses": {}}
    document = Document(Source("", {"openapi": "3.1.0", "paths": {"/x": {"post": operation}}}))
    ((read, _),) = Reader(document).operations()
    assert read.body.kind == media


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"parameters": [{"in": "query"}]}, "no name or no known place"),
        ({"parameters": [{"in": "body", "name": "b"}]}, "no name or no known place"),
        ({"parameters": [{"in": "query", "name": "q", "style": "odd"}]}, "unknown style 'odd'"),
        ({"parameters": [{"in": "header", "name": "a\r\nb"}]}, "no header can have the name"),
        ({"parameters": 7}, "'int' object is not iterable"),
        ({"parameters": ["q"]}, "a parameter isn't an object, but a text"),
        ({"requestBody": {"content": {"multipart/mixed": {}}}}, "'multipart/mixed', which isn't supported"),
        ({"requestBody": {"content": []}}, None),
        ({"requestBody": {"content": "x"}}, "has no attribute"),
        ({"servers": ["x"]}, "its server has no URL"),
        ({"tags": 7}, "not iterable"),
        ({"security": [7], "responses": []}, None),
    ],
)
def test_a_broken_operation_costs_only_itself(api, facts, text):
    content = api.document({**api.operation(), **api.operation(path="/y", operation_id="y", **facts)})
    tools, problems = api.tools_of(content)
    assert ("y" in tools) == (text is None)
    assert "x" in tools
    assert text is None or text in problems[0]


@pytest.mark.parametrize(
    "paths",
    [
        *({"/y/{id}": {"get": UNNAMED}}, {"/y": 7}, {"/y": {"get": 7}}),
        *({"/y": {"$ref": "#/z"}}, {"/y": {"$ref": "a%00b"}}, {"/y": {"additionalOperations": ["abc"]}}),
    ],
)
def test_a_broken_path_costs_only_itself(api, paths):
    tools, (problem,) = api.tools_of(api.document({**api.operation(), **paths, "x-more": 7}, "3.2.0"))
    assert list(tools) == ["x"]
    assert "is left out: " in problem


def test_many_problems_and_notes_are_summed_up(api):
    same = {f"/{number}": {"get": {"operationId": "same", **UNNAMED}} for number in range(50)}
    tools, problems = api.tools_of(api.document(same))
    assert (len(tools), len(problems), problems[-1]) == (50, 11, "toolset 'api': and 39 more notes")
    broken = {f"/{number}": {"get": 7} for number in range(50)}
    _, problems = api.tools_of(api.document(broken))
    assert len(problems) == 21
    assert problems[-1].endswith("and 30 more problems of this kind")
