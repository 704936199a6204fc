"""Documents: versions, JSON and YAML, broken and hostile ones, references out of them."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import time

import pytest

from pegboard_openapi.document import Document, DocumentError, Source, parse_document

YAML = b"""
openapi: 3.1.0
info: {title: Test, version: 1.10}
paths:
  /x:
    get:
      operationId: on
      parameters: &all
        - {name: when, in: query, schema: {type: string, enum: [2020-01-01, no, "1"]}}
      responses:
        200: {description: Fine}
    put: {operationId: put, parameters: *all}
"""


def written(path, content):
    path.write_bytes(content)
    return str(path)


def test_json_with_a_byte_order_mark(api, tmp_path):
    content = json.dumps(api.document(api.operation())).encode()
    assert list(api.tools_of(written(tmp_path / "a.json", b"\xef\xbb\xbf" + content))[0]) == ["x"]


def test_yaml_by_its_core_schema(api, tmp_path):
    tools, problems = api.tools_of(written(tmp_path / "a.yaml", b"\xef\xbb\xbf" + YAML))
    assert (list(tools), problems) == (["on", "put"], [])
    options = tools["put"].spec.input_schema["properties"]["when"]["enum"]
    assert options == ["2020-01-01", "no", "1"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "it is empty"),
        (b"<!doctype html><title>404</title>", "it is HTML or XML"),
        (b"[]", "it isn't an OpenAPI document, but a list"),
        (b"hello", "it isn't an OpenAPI document, but a text"),
        (b"{", "it can't be read"),
        (b'{"a": 1}', "it has no 'openapi' with its version"),
        (b'{"swagger": "2.0"}', "Swagger '2.0' isn't supported; convert it to OpenAPI 3 first"),
        (b'{"openapi": "4.0.0"}', "OpenAPI '4.0.0' isn't supported; 3.0, 3.1 and 3.2 are"),
        (b'{"openapi": 3}', "OpenAPI 3 isn't supported"),
        (b'{"openapi": "3.1.0", "paths": []}', "problem-free"),
        (b'{"openapi": "3.1.0", "paths": [1]}', "'paths' isn't an object"),
        (b"[" * 100_000, "it can't be read"),
        (b"a: " * 2 + b"\n- ][", "it can't be read"),
        (b"- [" * 100_000, "it can't be read"),
        (b"a: !!python/object/apply:os.system [id]", "it can't be read"),
        (b"a: !!binary aGk=", "it can't be read: a value of type bytes"),
        (b"a: &a [*a]", "contains itself"),
        (b"a: &a {b: 1}\nc: {<<: *a}", "merge keys (<<) aren't supported"),
        (b"? [1]\n: 2", "it can't be read"),
        (b"openapi: \xff\xfe", "it can't be read"),
    ],
)
def test_a_document_that_isnt_one(api, tmp_path, content, text):
    _, problems = api.tools_of(written(tmp_path / "a.json", content))
    if text == "problem-free":
        assert problems == []
        return
    assert len(problems) == 1
    assert text in problems[0]


def test_a_yaml_bomb_is_refused_in_time():
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [b"a%d: &a%d [%s]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 40)]
    started = time.process_time()
    with pytest.raises(DocumentError, match="more than 3,000,000 values once its aliases are written out"):
        parse_document(b"\n".join(lines), "bomb")
    assert time.process_time() - started < 5


def test_a_missing_file_is_a_problem(api, tmp_path):
    _, (problem,) = api.tools_of(str(tmp_path / "missing.json"))
    assert "missing.json can't be read: No such file" in problem


# From URLs --------------------------------------------------------------------------------------------------------


def test_a_document_from_a_url_with_a_relative_server(api, server):
    content = api.document(api.operation(), servers=[{"url": "../v1"}])
    server.answers["/docs/openapi.json"] = (302, {"location": "/other.json"}, b"")
    server.answers["/other.json"] = (200, {}, json.dumps(content).encode())
    api.call(f"{server.url}/docs/openapi.json", "x")
    assert server.last.path == "/v1/x"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ((404, {}, b""), "the answer is 404 Not Found"),
        ((304, {}, b""), "the answer is 304 Not Modified"),
        ((200, {"content-encoding": "gzip"}, b"\x1f\x8b"), "the answer is 200"),
        ((302, {"location": "file:///etc/passwd"}, b""), "it redirects to 'file:///etc/passwd', which isn't allowed"),
        ((302, {"location": "/openapi.json"}, b""), "more than 20 redirects"),
        ((200, {}, b" " * 70_000_000), "it has more than 64.0 MiB"),
        (None, "can't be fetched"),
    ],
)
def test_a_url_without_a_document(api, server, answer, text):
    server.answers["/openapi.json"] = lambda _request: answer
    _, (problem,) = api.tools_of(f"{server.url}/openapi.json")
    assert text in problem


def test_a_server_that_hangs_while_the_document_is_fetched(api, server):
    server.answers["/openapi.json"] = lambda _request: server.end.wait(30) and None
    _, (problem,) = api.tools_of(f"{server.url}/openapi.json?token=secret", timeout=0.3)
    assert problem == f"toolset 'api': {server.url}/openapi.json can't be fetched: it takes longer than 0.3 s"


# References -------------------------------------------------------------------------------------------------------


def test_references_within_the_document(api):
    content = api.document(
        {
            "/a~b/{c d}": {
                "get": {"operationId": "a", "parameters": [{"$ref": "#/components/parameters/P"}], "responses": {}}
            },
            "/b": {"$ref": "#/paths/~1a~0b~1%7Bc%20d%7D"},
        },
        components={"parameters": {"P": {"$ref": "#/components/parameters/Q"}, "Q": api.parameter("c d", "path")}},
    )
    tools, _ = api.tools_of(content)
    assert list(tools["a"].spec.input_schema["properties"]) == ["c_d"]


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("#/components/schemas/Nothing", "'#/components/schemas/Nothing' leads to nothing"),
        ("#/tags/7", "leads to nothing"),
        ("#anchor", "isn't a JSON pointer"),
        ("#/components/parameters/Loop", "lead to each other without end"),
        ("other.json#/P", "leads out of the document; list its folder"),
        ("https://example.com/a.json#/P", "leads out of the document"),
        ("a%00b.json", "isn't a path or a URL"),
        ("file:///etc/passwd", "leads out of the document"),
        ("/etc/passwd", "leads out of the document"),
    ],
)
def test_a_broken_reference_costs_only_its_operation(api, reference, text):
    paths = {**api.operation(), **api.operation(path="/y", operation_id="y", parameters=[{"$ref": reference}])}
    loop = {"parameters": {"Loop": {"$ref": "#/components/parameters/Loop"}}}
    tools, (problem,) = api.tools_of(api.document(paths, tags=[], components=loop))
    assert list(tools) == ["x"]
    assert problem.startswith("toolset 'api': GET /y is left out: ")
    assert text in problem


def test_references_to_allowed_files(api, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    written(shared / "all.yaml", b"P: {$ref: 'more.json#/P'}\nS: {$ref: '#/T'}\nT: {type: integer}")
    written(shared / "more.json", json.dumps({"P": api.parameter("q", schema={"$ref": "all.yaml#/S"})}).encode())
    written(tmp_path / "secret.json", b'{"P": 1}')
    paths = {
        **api.operation(parameters=[{"$ref": "shared/all.yaml#/P"}]),
        **api.operation(path="/y", operation_id="y", parameters=[{"$ref": "shared/../secret.json#/P"}]),
    }
    file = written(tmp_path / "a.json", json.dumps(api.document(paths)).encode())
    tools, (problem,) = api.tools_of(file, references=[str(shared)])
    assert tools["x"].spec.input_schema["$defs"] == {"S": {"$ref": "#/$defs/T"}, "T": {"type": "integer"}}
    assert "GET /y is left out" in problem


def test_a_link_out_of_an_allowed_folder(api, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    written(tmp_path / "secret.json", json.dumps({"P": api.parameter("q")}).encode())
    (shared / "link.json").symlink_to("../secret.json")
    content = api.document(api.operation(parameters=[{"$ref": "shared/link.json#/P"}]))
    file = written(tmp_path / "a.json", json.dumps(content).encode())
    assert api.tools_of(file, references=[str(shared)])[0] == {}


def test_references_to_allowed_urls(api, server, other):
    server.answers["/schemas/a.json"] = (200, {}, b'{"S": {"type": "integer"}}')
    server.answers["/schemas/b.json"] = (302, {"location": f"{other.url}/b.json"}, b"")
    paths = {}
    for name, target in (
        ("a", "schemas/a.json"),
        ("b", "schemas/b.json"),
        ("c", "c.json"),
        ("d", "schemas/%2e%2e/c.json"),
    ):
        schema = {"$ref": f"{server.url}/{target}#/S"}
        paths |= api.operation(path=f"/{name}", operation_id=name, parameters=[api.parameter("q", schema=schema)])
    tools, problems = api.tools_of(api.document(paths), references=[f"{server.url}/schemas/"])
    assert (list(tools), len(problems)) == (["a"], 3)
    assert other.requests == []
    assert {each.path for each in server.requests} == {"/schemas/a.json", "/schemas/b.json"}


def test_a_document_of_a_url_cant_refer_to_files(tmp_path):
    document = Document(Source("https://example.com/a.json", {"openapi": "3.1.0"}), [str(tmp_path)])
    with pytest.raises(DocumentError, match="leads out of the document"):
        document.target(f"file://{tmp_path}/b.json#/P", document.main)
