"""The toolset: trust, approvals, what it publishes, changed documents; settings of the plugin."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pegboard
from pegboard import ReadonlyContext, ToolRegistry
from pegboard.testing import check_plugin
from pegboard_openapi import DocumentError, OpenAPIToolset, plugin
from pegboard_openapi.settings import toolsets_from


def resolve(toolset):
    return asyncio.run(toolset.tools(ReadonlyContext()))


def kinds(api, server, names, **options):
    """The kinds of the results of calls without an approver."""
    content = api.document(
        {**api.operation(), **api.operation("delete", "/y", "y"), **api.operation("post", "/z", "z")}, server=server
    )

    async def calls():
        async with ToolRegistry() as registry:
            registry.register(OpenAPIToolset(content, name="api", **options))
            return [(await registry.call(name)).kind for name in names]

    return asyncio.run(calls())


def test_all_calls_ask_unless_they_are_trusted(api, server):
    assert kinds(api, server, "xyz") == ["denied"] * 3
    assert kinds(api, server, "xyz", trust=["x", "y"]) == [None, "denied", "denied"]
    assert kinds(api, server, "xyz", trust=["*"]) == [None, "denied", None]


def test_files_need_a_permission_even_if_trusted(api, server, tmp_path):
    (tmp_path / "a").write_text("a")
    content = api.document(api.operation("post", **api.body({}, "application/octet-stream")), server=server)

    async def call():
        async with ToolRegistry() as registry:
            registry.register(OpenAPIToolset(content, name="api", trust=["*"]))
            return await registry.call("x", {"body": str(tmp_path / "a")})

    assert asyncio.run(call()).kind == "denied"
    assert server.requests == []


def test_it_is_identified_by_its_document_and_the_servers_of_its_tools(api, tmp_path):
    file = tmp_path / "a.json"
    seen = []
    for server in ("https://a.example.com", "https://b.example.com"):
        file.write_text(json.dumps(api.document(api.operation(), servers=[{"url": server}])))
        toolset = OpenAPIToolset(str(file), name="api")
        assert toolset.identity is None
        resolve(toolset)
        seen.append(toolset.identity)
    assert seen[0] == {"document": str(file), "servers": ["https://a.example.com"]}
    assert seen[1]["servers"] == ["https://b.example.com"]


def test_the_same_tools_until_the_file_changes(api, tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps(api.document(api.operation())))
    toolset = OpenAPIToolset(file, name="api")
    (first,), (again,) = resolve(toolset), resolve(toolset)
    assert first is again
    file.write_text(json.dumps(api.document(api.operation(path="/other", operation_id="other"))))
    assert [tool.name for tool in resolve(toolset)] == ["other"]
    file.write_text("{")
    with pytest.raises(DocumentError):
        resolve(toolset)
    file.write_text(json.dumps(api.document(api.operation())))
    assert [tool.name for tool in resolve(toolset)] == ["x"]


def test_a_document_of_a_url_is_stored_and_fetched_again_when_it_is_old(api, server, tmp_path, monkeypatch):
    store = tmp_path / "private" / "store"
    server.answers["/a.json"] = (200, {}, json.dumps(api.document(api.operation())).encode())
    options = {"name": "api", "store": str(store)}
    url = f"{server.url}/a.json"
    assert len(resolve(OpenAPIToolset(url, **options))) == 1
    assert OpenAPIToolset(url, **options).publishes == [str(store)]
    assert len(resolve(OpenAPIToolset(url, **options))) == 1
    assert len(server.requests) == 1
    server.answers["/a.json"] = (500, {}, b"")
    os.utime(store, (1, 1))
    monkeypatch.setattr("pegboard_openapi.toolset._AGAIN", -1.0)
    toolset = OpenAPIToolset(url, **options)
    offer = resolve(toolset)
    assert (len(server.requests), len(offer)) == (2, 1)
    assert offer.problems[0].note
    assert "an earlier document is used" in str(offer.problems[0])
    server.answers["/a.json"] = (200, {}, json.dumps(api.document({})).encode())
    assert len(resolve(toolset)) == 0  # also in a program that goes on


def test_a_store_that_others_may_write_isnt_used(api, server, tmp_path):
    server.answers["/a.json"] = (200, {}, json.dumps(api.document(api.operation())).encode())
    (tmp_path / "store").write_text(json.dumps(api.document({})))
    (tmp_path / "store").chmod(0o666)
    toolset = OpenAPIToolset(f"{server.url}/a.json", name="api", store=str(tmp_path / "store"))
    assert len(resolve(toolset)) == 1


def test_a_url_that_failed_isnt_asked_again_at_once(server):
    server.answers["/a.json"] = (500, {}, b"")
    toolset = OpenAPIToolset(f"{server.url}/a.json", name="api")
    for _ in range(2):
        with pytest.raises(DocumentError):
            resolve(toolset)
    assert len(server.requests) == 1


@pytest.mark.parametrize("options", [{"base_url": "example.com"}, {"follow": ["ftp://x"]}, {"base_url": "http://a:b"}])
def test_an_address_that_isnt_one(options):
    with pytest.raises(DocumentError, match="isn't the address of a server"):
        OpenAPIToolset({}, name="api", **options)


def test_an_address_with_credentials_is_refused_and_not_shown(api):
    for options in ({"base_url": "https://ann:secret@example.com"}, {"follow": ["https://ann:secret@example.com"]}):
        with pytest.raises(DocumentError, match="credentials in it") as caught:
            OpenAPIToolset({}, name="api", **options)
        assert "secret" not in str(caught.value)
    content = api.document(api.operation(), servers=[{"url": "https://ann:secret@example.com"}])
    tools, (problem,) = api.tools_of(content)
    assert (tools, "secret" in problem) == ({}, False)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"most_bytes": 0}])
def test_a_limit_that_isnt_above_zero(options):
    with pytest.raises(ValueError, match="above 0"):
        OpenAPIToolset({}, name="api", **options)


def test_schemas_of_unbounded_size_are_left_out_in_time(api, monkeypatch):
    monkeypatch.setattr("pegboard_openapi.toolset._MOST_SCHEMAS", 1_000)
    schemas = {"S": {"enum": [str(number) for number in range(1_000)]}}
    paths = {}
    for number in range(5):
        parameters = [api.parameter("q", schema={"$ref": "#/components/schemas/S"})]
        paths |= api.operation(path=f"/{number}", operation_id=f"x{number}", parameters=parameters)
    tools, (problem,) = api.tools_of(api.document(paths, components={"schemas": schemas}))
    assert list(tools) == ["x0"]
    assert "characters of schemas; the others are left out" in problem


# The plugin -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_plugin_is_sound():
    check_plugin(plugin)


@pytest.mark.slow
def test_the_manifest_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "-m", "pegboard", "manifest", "check", "pegboard-openapi"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def settings_of(file, **more):
    return {"documents": {"shop": {"file": str(file), **more}}}


def test_documents_of_the_settings(api, server, tmp_path):
    file = tmp_path / "a.json"
    paths = {**api.operation(tags=["pets"]), **api.operation("post", "/y", "y")}
    file.write_text(json.dumps(api.document(paths, server=server)))
    settings = {**settings_of(file, where="tag:pets", prefix="shop_"), "trust": ["shop:shop_x"]}

    async def calls():
        async with pegboard.load(settings={"openapi": settings}, autoload=False) as registry:
            for toolset in toolsets_from(settings):
                registry.register(toolset)
            offered = await registry.resolve()
            return offered.names, await registry.call("shop_x")

    found, result = asyncio.run(calls())
    assert found == ("shop_x",)
    assert not result.is_error


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"document": {}}, "plugins.openapi.document: unknown key. Did you mean 'documents'?"),
        ({"documents": []}, "plugins.openapi.documents: expected a table"),
        ({"documents": {"a b": {}}}, "plugins.openapi.documents.a b: a document's name is"),
        ({"documents": {"a": 7}}, "plugins.openapi.documents.a: must be a table"),
        ({"documents": {"a": {}}}, "plugins.openapi.documents.a: it needs a file or a url"),
        ({"documents": {"a": {"file": "a.json"}}}, "documents.a: file: a.json: begin it with './'"),
        ({"documents": {"a": {"url": "a.json"}}}, "documents.a: url: must be an address"),
        ({"documents": {"a": {"file": "/a", "timeout": "x"}}}, "documents.a.timeout: "),
        ({"documents": {"a": {"file": "/a", "base_url": "x"}}}, "documents.a: 'x' isn't the address of a server"),
        ({"documents": {"a": {"file": "/a", "where": "tag:"}}}, "documents.a: "),
        ({"documents": {}, "trust": "a"}, "plugins.openapi.trust: expected a list"),
        ({"documents": {}, "trust": ["a:*"]}, "plugins.openapi.trust: 'a' isn't a document of the settings"),
    ],
)
def test_wrong_settings_are_problems(settings, text):
    *_, faults = toolsets_from(settings)
    (problem,) = resolve(faults).problems
    assert text in str(problem)


def test_a_project_file_decides_where_secrets_go_once_it_is_trusted(api, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / ".git").mkdir()
    file = tmp_path / "a.json"
    file.write_text(json.dumps(api.document(api.operation())))
    auth = {"k": {"type": "http", "scheme": "bearer", "value": "env:X"}}
    (faults,) = toolsets_from(settings_of(file, auth=auth))
    assert "registry config trust" in str(resolve(faults).problems[0])
    assert len(resolve(toolsets_from(settings_of(file, auth=auth, base_url="https://a.example"))[0])) == 1
    client = {"k": {"client_id": "env:X", "client_secret": "env:X"}}
    (faults,) = toolsets_from(settings_of(file, auth=client, base_url="https://a.example"))
    assert "set token_url, or trust the file" in str(resolve(faults).problems[0])
    pegboard.config.trust(file)
    assert len(resolve(toolsets_from(settings_of(file, auth=client, base_url="https://a.example"))[0])) == 1
    assert len(resolve(toolsets_from(settings_of(file, auth=auth))[0])) == 1


@pytest.fixture
def run(tmp_path):
    """Runs the command, with folders of its own."""
    folders = {f"XDG_{each}_HOME": str(tmp_path / each.lower()) for each in ("CACHE", "CONFIG", "STATE")}

    def run(*words, options=(), table=None):
        if table is not None:
            text = f'enable = ["openapi"]\n[plugins.openapi.documents.shop]\n{table}\n'
            (tmp_path / "pegboard.toml").write_text(text)
        command = [sys.executable, *options, "-m", "pegboard", "--config", "pegboard.toml", *words]
        env = {**os.environ, **folders, "HOME": str(tmp_path)}
        return subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False)

    return run


@pytest.mark.slow
def test_a_warm_listing_needs_neither_document_nor_network(api, server, tmp_path, run):
    server.answers["/a.json"] = (200, {}, json.dumps(api.document(api.operation(summary="Gets it."))).encode())
    run("list", table=f'url = "{server.url}/a.json"')
    for _ in range(2):
        done = run("list", options=["-X", "importtime"])
        assert done.stdout == "x\topenapi\tGets it.\n", done.stderr[-2_000:]
    assert len(server.requests) == 1
    assert "pegboard_openapi" not in done.stderr
    assert Path(tmp_path, "cache", "pegboard", "openapi").is_dir()


@pytest.mark.slow
def test_a_listing_has_the_tools_of_a_project_file_once_that_is_trusted(api, tmp_path, run):
    (tmp_path / ".git").mkdir()
    schemes = {"securitySchemes": {"k": {"type": "http", "scheme": "bearer"}}}
    (tmp_path / "a.json").write_text(json.dumps(api.document(api.operation(), components=schemes)))
    assert "registry config trust" in run("list", table='file = "./a.json"\nauth = { k = "env:X" }').stderr
    assert run("config", "trust", "a.json").returncode == 0
    done = run("list")
    assert (done.stdout[:9], "registry config trust" in done.stderr) == ("x\topenapi", False), done
