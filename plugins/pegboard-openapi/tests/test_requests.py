"""Requests as servers get them: parameters by their styles, and bodies."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pegboard import Permissions, ReadonlyContext, Rule, ToolRegistry

LIST, OBJECT = ["a b", "c"], {"k": "v", "n": 1}
ANY = {"title": "anything"}


@pytest.mark.parametrize(
    ("facts", "value", "path"),
    [
        ({}, "a/b c?", "/x/a%2Fb%20c%3F"),
        ({}, 7, "/x/7"),
        ({}, LIST, "/x/a%20b,c"),
        ({}, OBJECT, "/x/k,v,n,1"),
        ({"explode": True}, OBJECT, "/x/k=v,n=1"),
        ({"style": "label"}, "a", "/x/.a"),
        ({"style": "label"}, LIST, "/x/.a%20b,c"),
        ({"style": "label", "explode": True}, LIST, "/x/.a%20b.c"),
        ({"style": "label", "explode": True}, OBJECT, "/x/.k=v.n=1"),
        ({"style": "matrix"}, "a", "/x/;id=a"),
        ({"style": "matrix"}, LIST, "/x/;id=a%20b,c"),
        ({"style": "matrix", "explode": True}, LIST, "/x/;id=a%20b;id=c"),
        ({"style": "matrix", "explode": True}, OBJECT, "/x/;k=v;n=1"),
        ({"allowReserved": True}, "a/../b?c=1", "/x/a%2F..%2Fb%3Fc%3D1"),
        ({"content": {"application/json": {"schema": {}}}}, {"a": 1}, "/x/%7B%22a%22%3A%201%7D"),
    ],
)
def test_a_value_in_the_path(server, facts, value, path, api):
    paths = api.operation(path="/x/{id}", parameters=[{**api.parameter("id", "path", ANY), "required": True, **facts}])
    assert not api.call(api.document(paths, server=server), "x", {"id": value}).is_error
    assert server.last.path == path


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_a_path_segment_that_would_name_another_path_is_refused(server, value, api):
    paths = api.operation("delete", "/x/{id}", parameters=[api.parameter("id", "path")])
    result = api.call(api.document(paths, server=server), "x", {"id": value})
    assert result.kind == "tool_failure"
    assert "can't be in a path" in result.text
    assert server.requests == []


@pytest.mark.parametrize(
    ("facts", "value", "query"),
    [
        ({}, "a&b=c", "q=a%26b%3Dc"),
        ({}, 2.5, "q=2.5"),
        ({}, LIST, "q=a%20b&q=c"),
        ({"explode": False}, LIST, "q=a%20b,c"),
        ({}, OBJECT, "k=v&n=1"),
        ({"explode": False}, OBJECT, "q=k,v,n,1"),
        ({"style": "spaceDelimited"}, LIST, "q=a%20b%20c"),
        ({"style": "pipeDelimited"}, LIST, "q=a%20b%7Cc"),
        (
            {"style": "deepObject"},
            {"a": {"b": "c"}, "d": [1, 2]},
            "q%5Ba%5D%5Bb%5D=c&q%5Bd%5D%5B0%5D=1&q%5Bd%5D%5B1%5D=2",
        ),
        ({"allowReserved": True}, "a/b:c&d", "q=a/b:c%26d"),
        ({"content": {"application/json": {"schema": {}}}}, {"a": 1}, "q=%7B%22a%22%3A%201%7D"),
    ],
)
def test_a_value_in_the_query(server, facts, value, query, api):
    paths = api.operation(parameters=[{**api.parameter("q", "query", ANY), **facts}])
    assert not api.call(api.document(paths, server=server), "x", {"q": value}).is_error
    assert server.last.path == f"/x?{query}"


def test_optional_parameters_are_left_out(server, api):
    paths = api.operation(parameters=[api.parameter("q"), api.parameter("h", "header"), api.parameter("c", "cookie")])
    api.call(api.document(paths, server=server), "x")
    assert server.last.path == "/x"
    assert {"h", "cookie"}.isdisjoint({name.lower() for name in server.last.headers})


def test_headers_and_cookies(server, api):
    paths = api.operation(
        parameters=[
            api.parameter("X-List", "header", ANY),
            api.parameter("X-Object", "header", ANY, explode=True),
            api.parameter("c", "cookie", ANY),
            api.parameter("d", "cookie", ANY, explode=False),
        ]
    )
    api.call(api.document(paths, server=server), "x", {"X-List": LIST, "X-Object": OBJECT, "c": "a;b", "d": LIST})
    assert server.last.headers["X-List"] == "a b,c"
    assert server.last.headers["X-Object"] == "k=v,n=1"
    assert server.last.headers["Cookie"] == "c=a%3Bb; d=a%20b,c"


def test_an_argument_cant_end_a_header(server, api):
    paths = api.operation(parameters=[api.parameter("X-A", "header")])
    result = api.call(api.document(paths, server=server), "x", {"X-A": "a\r\nX-Admin: yes"})
    assert "only printable ASCII" in result.text
    assert server.requests == []


def test_headers_of_the_connection_are_no_arguments(server, api):
    names = ["Accept", "Content-Type", "Authorization", "Host", "Content-Length", "Transfer-Encoding", "Cookie"]
    paths = api.operation(parameters=[api.parameter(name, "header") for name in names])
    assert api.call(api.document(paths, server=server), "x", {"Host": "evil.example"}).kind == "invalid_arguments"


def test_a_whole_query_of_3_2(server, api):
    form = {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}
    paths = api.operation(parameters=[{"name": "all", "in": "querystring", "content": form}])
    api.call(api.document(paths, "3.2.0", server), "x", {"all": {"a": "b c", "d": [1, 2]}})
    assert server.last.path == "/x?a=b%20c&d=1&d=2"


def test_names_that_providers_refuse_or_that_are_there_twice(server, api):
    paths = api.operation(
        path="/x/{id}",
        parameters=[
            api.parameter("id", "path"),
            api.parameter("id"),
            api.parameter("include[]", "query", {"type": "array"}),
        ],
    )
    api.call(api.document(paths, server=server), "x", {"id": "1", "id_query": "2", "include": ["a"]})
    assert server.last.path == "/x/1?id=2&include%5B%5D=a"


def test_a_json_body(server, api):
    paths = api.operation("post", **api.body({"type": "object"}))
    api.call(api.document(paths, server=server), "x", {"body": {"a": ["é", None, 1.5]}})
    assert server.last.headers["Content-Type"] == "application/json"
    assert json.loads(server.last.body) == {"a": ["é", None, 1.5]}


def test_a_form(server, api):
    encoding = {"deep": {"style": "deepObject"}, "flat": {"style": "form", "explode": False}}
    paths = api.operation(
        "post", **api.body({"type": "object"}, "application/x-www-form-urlencoded", encoding=encoding)
    )
    value = {"a": "b&c", "list": [1, 2], "object": {"k": 1}, "deep": {"k": "v"}, "flat": [1, 2], "none": None}
    api.call(api.document(paths, server=server), "x", {"body": value})
    assert server.last.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert server.last.body == b"a=b%26c&list=1&list=2&object=%7B%22k%22%3A%201%7D&deep%5Bk%5D=v&flat=1,2"


def test_a_text(server, api):
    api.call(api.document(api.operation("post", **api.body({}, "text/plain")), server=server), "x", {"body": "héllo"})
    assert (server.last.headers["Content-Type"], server.last.body) == ("text/plain", "héllo".encode())


CODED = {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}
FORM = {
    "type": "object",
    "properties": {
        "purpose": {"type": "string"},
        "facts": {"type": "object"},
        "file": {"type": "string", "format": "binary", "description": "The file."},
        "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
    },
}


def test_a_multipart_body_with_files(server, tmp_path, api):
    for name in ("a.png", "b.txt"):
        (tmp_path / name).write_bytes(name.encode())
    content = api.document(
        api.operation("post", **api.body({"$ref": "#/components/schemas/Form"}, "multipart/form-data")), server=server
    )
    content["components"] = {"schemas": {"Form": FORM}}
    value = {
        "purpose": "test",
        "facts": {"a": 1},
        "file": str(tmp_path / "a.png"),
        "more": [str(tmp_path / "b.txt"), str(tmp_path / "a.png")],
    }
    assert not api.call(content, "x", {"body": value}).is_error
    sent = server.last.body
    assert b'name="purpose"\r\n\r\ntest\r\n' in sent
    assert b'name="facts"\r\nContent-Type: application/json\r\n\r\n{"a": 1}\r\n' in sent
    assert b'name="file"; filename="a.png"\r\nContent-Type: image/png\r\n\r\na.png\r\n' in sent
    assert sent.count(b'name="more"') == 2


def test_files_in_composed_bodies_and_by_later_versions(api):
    image = {"type": "string", "contentMediaType": "image/png"}
    form = {
        "allOf": [{"$ref": "#/components/schemas/Named"}, {"properties": {"image": image, "any": {}, "coded": CODED}}],
        "properties": {"either": {"anyOf": [{"$ref": "#/components/schemas/File"}, {"type": "array", "items": image}]}},
    }
    schemas = {"Named": {"properties": {"name": {"type": "string"}}}, "File": {"type": "string", "format": "binary"}}
    media = {"encoding": {"any": {"contentType": "application/pdf"}}}
    content = api.document(api.operation("post", **api.body(form, "multipart/form-data", **media)))
    tools, problems = api.tools_of({**content, "components": {"schemas": schemas}})
    files = {"image": "a.png", "any": "b.pdf", "coded": "aGk=", "either": ["c.png", "d.png"], "name": "n"}
    found = tools["x"].permission_values({"body": files}, ReadonlyContext())
    assert (found, problems) == ({"files": ["b.pdf", "c.png", "d.png", "a.png"]}, [])


def test_a_body_of_endlessly_composed_schemas_is_left_out_in_time(api):
    schemas = {f"S{level}": {"allOf": [{"$ref": f"#/components/schemas/S{level + 1}"}] * 30} for level in range(8)}
    paths = api.operation("post", **api.body({"$ref": "#/components/schemas/S0"}, "multipart/form-data"))
    tools, (problem,) = api.tools_of(api.document(paths, components={"schemas": {**schemas, "S8": FORM}}))
    assert (tools, "composed of more than 200 schemas" in problem) == ({}, True)


def test_a_file_that_may_be_one_of_endless_schemas_is_left_out_in_time(api):
    schemas = {f"S{level}": {"oneOf": [{"$ref": f"#/components/schemas/S{level + 1}"}] * 2} for level in range(40)}
    form = {"type": "object", "properties": {"file": {"$ref": "#/components/schemas/S0"}}}
    paths = api.operation("post", **api.body(form, "multipart/form-data"))
    tools, (problem,) = api.tools_of(api.document(paths, components={"schemas": {**schemas, "S40": FORM}}))
    assert (tools, "composed of more than 200 schemas" in problem) == ({}, True)


@pytest.mark.parametrize("media", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_is_an_object_and_odd_encodings_are_ignored(server, media, api):
    content = api.document(api.operation("post", **api.body({}, media, encoding={"a": 7})), server=server)
    assert "has to be an object" in api.call(content, "x", {"body": ["a"]}).text
    assert server.requests == []
    assert not api.call(content, "x", {"body": {"a": "b"}}).is_error


@pytest.mark.slow
def test_files_are_bounded_together(server, tmp_path, api):
    names = [str(tmp_path / name) for name in "ab"]
    for name in names:
        Path(name).write_bytes(bytes(40 << 20))
    form = {
        "type": "object",
        "properties": {"files": {"type": "array", "items": {"type": "string", "format": "binary"}}},
    }
    paths = api.operation("post", **api.body(form, "multipart/form-data"))
    result = api.call(api.document(paths, server=server), "x", {"body": {"files": names}})
    assert "at most 64.0 MiB can be sent" in result.text
    assert server.requests == []


def test_a_file_as_the_body(server, tmp_path, api):
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    paths = api.operation("post", **api.body({"type": "string", "format": "binary"}, "application/octet-stream"))
    api.call(api.document(paths, server=server), "x", {"body": str(tmp_path / "a.bin")})
    assert (server.last.headers["Content-Type"], server.last.body) == ("application/octet-stream", b"\0\1")


@pytest.mark.parametrize("rule", ["x", "upload", "read_file"])
def test_rules_about_paths_apply_to_files(server, tmp_path, rule, api):
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "link").symlink_to(".env")
    registry = ToolRegistry()
    registry.permissions = Permissions([Rule(rule, "*/.env", "deny")])
    paths = api.operation("post", **api.body(FORM, "multipart/form-data"))
    value = {"file": str(tmp_path / "link")}
    result = api.call(api.document(paths, server=server), "x", {"body": value}, registry)
    assert result.is_error
    assert server.requests == []


def test_a_file_that_cant_be_read(server, tmp_path, api):
    paths = api.operation("post", **api.body({}, "application/octet-stream"))
    assert "isn't a path" in api.call(api.document(paths, server=server), "x", {"body": "a\0b"}).text
    for path in (tmp_path, tmp_path / "missing"):
        result = api.call(api.document(paths, server=server), "x", {"body": str(path)})
        assert "can't be read" in result.text
    assert server.requests == []


@pytest.mark.parametrize(
    ("method", "version", "place"),
    [("query", "3.2.0", "query"), ("LINK", "3.2.0", "additionalOperations"), ("trace", "3.0.3", "trace")],
)
def test_methods(server, method, version, place, api):
    facts = {"operationId": "x", "responses": {}}
    item = {"additionalOperations": {method: facts}} if place == "additionalOperations" else {method: facts}
    api.call(api.document({"/x": item}, version, server), "x")
    assert server.last.method == method.upper()


def test_a_base_url_replaces_all_servers(server, other, api):
    paths = api.operation(servers=[{"url": other.url}])
    api.call(api.document(paths, server=other), "x", base_url=f"{server.url}/v1/")
    assert (server.last.path, other.requests) == ("/v1/x", [])


def test_a_server_of_an_operation_with_variables(server, api):
    host = server.url.removeprefix("http://")
    servers = [{"url": "http://{host}/{v}", "variables": {"host": {"default": host}, "v": {"default": "v2"}}}]
    api.call(api.document(api.operation(servers=servers)), "x")
    assert server.last.path == "/v2/x"


def test_without_a_server_a_call_says_so(api):
    result = api.call(api.document(api.operation(), servers=[{"url": "/v1"}]), "x")
    assert "no server" in result.text
    assert "base_url" in result.detail


def test_relative_files_start_in_the_calls_folder(server, tmp_path, api):
    (tmp_path / "a.txt").write_text("a")
    import asyncio

    from pegboard import Once, ToolCall
    from pegboard_openapi import OpenAPIToolset

    async def run():
        async with ToolRegistry() as registry:
            content = api.document(api.operation("post", **api.body({}, "application/octet-stream")), server=server)
            registry.register(OpenAPIToolset(content, name="api"))
            context = ReadonlyContext(work_dir=str(tmp_path))
            calls = [ToolCall("x", {"body": "a.txt"}, "1")]
            await registry.dispatch(calls, context=context, approver=lambda *_: Once())

    asyncio.run(run())
    assert server.last.body == b"a"
