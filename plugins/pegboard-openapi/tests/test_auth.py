"""Credentials: by scheme, from the environment, to the right server only, and in no text."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import base64
import json
import logging
import sys
from types import SimpleNamespace

import pytest

SECRET = "s3cr3t-value-0123456789"
KEY = {"type": "apiKey", "in": "header", "name": "X-Key"}
BEARER = {"type": "http", "scheme": "bearer"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("TOKEN", SECRET)
    monkeypatch.setenv("PAIR", f"ann:{SECRET}")


def secured(api, server, scheme, paths=None, scopes=(), **parts):
    components = {"securitySchemes": {"main": scheme}}
    security = [{"main": list(scopes)}]
    return api.document(paths or api.operation(), server=server, components=components, security=security, **parts)


@pytest.mark.parametrize(
    ("scheme", "auth", "sent"),
    [
        (KEY, "env:TOKEN", ("X-Key", SECRET)),
        ({**KEY, "in": "cookie", "name": "sid"}, "env:TOKEN", ("Cookie", f"sid={SECRET}")),
        (BEARER, "env:TOKEN", ("Authorization", f"Bearer {SECRET}")),
        ({"type": "http", "scheme": "Basic"}, "env:PAIR", ("Authorization", None)),
        ({"type": "http", "scheme": "basic"}, {"username": "ann", "password": "env:TOKEN"}, ("Authorization", None)),
        ({"type": "openIdConnect", "openIdConnectUrl": "/"}, "env:TOKEN", ("Authorization", f"Bearer {SECRET}")),
        ({"type": "oauth2", "flows": {"implicit": {}}}, "env:TOKEN", ("Authorization", f"Bearer {SECRET}")),
        (KEY, {"value": SECRET}, ("X-Key", SECRET)),
    ],
)
def test_credentials_by_scheme(api, server, scheme, auth, sent):
    header, value = sent
    value = value or "Basic " + base64.b64encode(f"ann:{SECRET}".encode()).decode()
    assert not api.call(secured(api, server, scheme), "x", auth={"main": auth}).is_error
    assert server.last.headers[header] == value


def test_a_key_in_the_query_isnt_logged(api, server, caplog):
    caplog.set_level(logging.DEBUG)
    scheme = {**KEY, "in": "query", "name": "api key"}
    paths = api.operation(parameters=[api.parameter("q")])
    api.call(secured(api, server, scheme, paths), "x", {"q": "1"}, auth={"main": "env:TOKEN"})
    assert server.last.path == f"/x?q=1&api%20key={SECRET}"
    assert "HTTP Request: GET" in caplog.text
    assert SECRET not in caplog.text


def test_a_key_of_the_keyring(api, server, monkeypatch):
    keyring = SimpleNamespace(get_password=lambda service, name: f"{service}/{name}-of-the-keyring")
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    api.call(secured(api, server, KEY), "x", auth={"main": "keyring:shop"})
    assert server.last.headers["X-Key"] == "pegboard/shop-of-the-keyring"


def test_a_document_without_schemes(api, server):
    content = api.document(api.operation(), server=server)
    auth = {"token": {"type": "http", "scheme": "bearer", "value": "env:TOKEN"}}
    api.call(content, "x", auth=auth)
    assert server.last.headers["Authorization"] == f"Bearer {SECRET}"


def test_requirements_choose_among_schemes(api, server, monkeypatch):
    monkeypatch.setenv("OTHER", "other-secret-value")
    content = secured(api, server, KEY)
    content["components"]["securitySchemes"]["second"] = {**KEY, "name": "X-Second"}
    content["security"] = [{"missing": []}, {"main": [], "second": []}]
    content["paths"]["/free"] = {"get": {"operationId": "free", "security": [], "responses": {}}}
    auth = {"main": "env:TOKEN", "second": "env:OTHER"}
    api.call(content, "x", auth=auth)
    assert (server.last.headers["X-Key"], server.last.headers["X-Second"]) == (SECRET, "other-secret-value")
    api.call(content, "free", auth=auth)
    assert server.last.headers["X-Key"] is None


def test_models_dont_see_parameters_that_credentials_set(api, server):
    paths = api.operation(parameters=[api.parameter("x-key", "header"), api.parameter("q")])
    tools, _ = api.tools_of(secured(api, server, KEY, paths), auth={"main": "env:TOKEN"})
    assert list(tools["x"].spec.input_schema["properties"]) == ["q"]


@pytest.mark.parametrize(
    ("auth", "text"),
    [
        (
            {"mian": "env:TOKEN"},
            "auth.mian: isn't among the document's security schemes ('main', 'digest', 'code', 'bad', 'odd'); name one",
        ),
        ({"digest": "env:TOKEN"}, "auth.digest: the scheme 'http digest' isn't supported; API keys, bearer, basic"),
        (
            {"code": {"client_id": "a", "client_secret": "b"}},
            "auth.code: has only the flows authorizationCode; get a token",
        ),
        ({"bad": "env:TOKEN"}, "auth.bad: an API key needs 'in'"),
        ({"odd": "env:TOKEN"}, "auth.odd: no cookie can have the name 'a; b'"),
        ({"main": 7}, "auth.main: has to be a text"),
        ({"main": {"valeu": "env:TOKEN"}}, "auth.main: valeu: unknown key. Did you mean 'value'?"),
    ],
)
def test_credentials_that_dont_fit_are_problems(api, server, auth, text):
    content = secured(api, server, KEY)
    content["components"]["securitySchemes"] |= {
        "digest": {"type": "http", "scheme": "digest"},
        "code": {"type": "oauth2", "flows": {"authorizationCode": {}}},
        "bad": {"type": "apiKey", "name": "x", "in": "path"},
        "odd": {"type": "apiKey", "name": "a; b", "in": "cookie"},
    }
    tools, problems = api.tools_of(content, auth=auth)
    assert list(tools) == ["x"]
    assert any(text in each for each in problems), problems


def test_missing_credentials_are_reported(api, server):
    server.answers["/x"] = (401, {}, b"who are you?")
    _, problems = api.tools_of(secured(api, server, KEY))
    assert problems == ["toolset 'api': 1 operation may need credentials for 'main', which 'auth' doesn't have"]
    assert "No credentials for 'main' are set up." in api.call(secured(api, server, KEY), "x").text
    content = secured(api, server, KEY)
    content["security"] = [{"main": [], "second": []}]
    _, problems = api.tools_of(content, auth={"main": "env:TOKEN"})
    assert problems == ["toolset 'api': 1 operation may need credentials for 'second', which 'auth' doesn't have"]


def test_a_missing_secret(api, server):
    result = api.call(secured(api, server, KEY), "x", auth={"main": "env:NO_SUCH"})
    assert result.text.startswith("The credentials 'main' aren't set up here.")
    assert "the environment has no NO_SUCH" in result.detail
    assert server.requests == []


@pytest.mark.parametrize("secret", ["two\r\nlines-of-secret", "not-äscii-secret"])
def test_a_secret_that_no_header_can_have(api, server, monkeypatch, secret):
    monkeypatch.setenv("TOKEN", secret)
    result = api.call(secured(api, server, KEY), "x", auth={"main": "env:TOKEN"})
    assert result.is_error
    assert secret not in result.text + result.detail


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "text/html"])
def test_a_secret_that_the_server_sends_back_is_hidden(api, server, status, kind):
    def echo(request):
        text = f"you sent {request.headers['Authorization']} and ann:{SECRET}"
        return status, {"content-type": kind}, json.dumps({"echo": text}).encode()

    server.answers["/x"] = echo
    scheme = {"type": "http", "scheme": "basic"}
    result = api.call(secured(api, server, scheme), "x", auth={"main": "env:PAIR"})
    encoded = base64.b64encode(f"ann:{SECRET}".encode()).decode()
    everything = json.dumps(result.to_data())
    assert SECRET not in everything
    assert encoded not in everything


@pytest.mark.parametrize(
    ("status", "kind"), [(200, "application/json"), (200, "text/plain"), (400, "application/json")]
)
def test_an_escaped_secret_is_hidden(api, server, monkeypatch, status, kind):
    monkeypatch.setenv("TOKEN", "ab/cd-1234567890")
    server.answers["/x"] = (status, {"content-type": kind}, b'["ab\\/cd-1234567890", "\\u0061b/cd\\u002D1234567890"]')
    result = api.call(secured(api, server, KEY), "x", auth={"main": "env:TOKEN"})
    assert result.text.count('"(hidden)"') == 2
    assert "1234567890" not in json.dumps(result.to_data())


# Where secrets go -------------------------------------------------------------------------------------------------


def test_a_redirect_elsewhere_gets_no_secret(api, server, other):
    scheme = {**KEY, "in": "query", "name": "key"}
    content = secured(api, server, KEY)
    content["components"]["securitySchemes"]["second"] = scheme
    content["security"] = [{"main": [], "second": []}]
    server.answers["/x"] = (302, {"location": f"{other.url}/download"}, b"")
    auth = {"main": "env:TOKEN", "second": "env:TOKEN"}
    assert not api.call(content, "x", auth=auth, follow=[other.url]).is_error
    assert other.last.path == "/download"
    assert SECRET not in str(other.last.headers)
    assert SECRET in str(server.last.headers)


def test_a_redirect_of_a_change_isnt_followed_elsewhere(api, server, other):
    server.answers["/x"] = (307, {"location": f"{other.url}/y"}, b"")
    content = secured(api, server, KEY, api.operation("post"))
    assert api.call(content, "x", auth={"main": "env:TOKEN"}, follow=[other.url]).is_error
    assert other.requests == []


def test_a_redirect_elsewhere_and_back_stays_without_secrets(api, server, other):
    server.answers["/x"] = (302, {"location": f"{other.url}/y"}, b"")
    other.answers["/y"] = (302, {"location": f"{server.url}/z"}, b"")
    api.call(secured(api, server, KEY), "x", auth={"main": "env:TOKEN"}, follow=[other.url, server.url])
    assert (server.last.path, server.last.headers["X-Key"]) == ("/z", None)


def test_a_document_from_a_url_sends_secrets_to_its_own_server_only(api, server, other):
    content = secured(api, other, KEY)
    server.answers["/openapi.json"] = (200, {}, json.dumps(content).encode())
    url = f"{server.url}/openapi.json"
    result = api.call(url, "x", auth={"main": "env:TOKEN"})
    assert result.text.startswith("The credentials may not be sent to its server.")
    assert "set base_url" in result.detail
    assert other.requests == []
    assert not api.call(url, "x", auth={"main": "env:TOKEN"}, base_url=other.url).is_error
    assert other.last.headers["X-Key"] == SECRET


# OAuth2 -----------------------------------------------------------------------------------------------------------

CLIENT = {"client_id": "me:you", "client_secret": "env:TOKEN"}


def client_credentials(server, url="/token"):
    return {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": f"{server.url}{url}", "scopes": {}}}}


def test_client_credentials(api, server):
    server.answers["/token"] = (200, {}, b'{"access_token": "token-0123456789", "expires_in": 3600}')
    content = secured(api, server, client_credentials(server), scopes=["read", "all"])
    assert not api.call(content, "x", auth={"main": CLIENT}).is_error
    token, request = server.requests
    assert token.body == b"grant_type=client_credentials&scope=all+read"
    assert token.headers["Authorization"] == "Basic " + base64.b64encode(f"me%3Ayou:{SECRET}".encode()).decode()
    assert request.headers["Authorization"] == "Bearer token-0123456789"


def test_a_token_is_used_until_it_ends_or_is_refused(api, server):
    import asyncio

    from pegboard import ToolRegistry
    from pegboard_openapi import OpenAPIToolset

    server.answers["/token"] = (200, {}, b'{"access_token": "token-0123456789"}')
    content = secured(api, server, client_credentials(server))

    async def calls():
        async with ToolRegistry() as registry:
            registry.register(OpenAPIToolset(content, name="api", trust=["x"], auth={"main": CLIENT}))
            await registry.call("x")
            await registry.call("x")
            server.answers["/x"] = (401, {}, b"")
            await registry.call("x")
            await registry.call("x")

    asyncio.run(calls())
    assert [each.path for each in server.requests] == ["/token", "/x", "/x", "/x", "/token", "/x"]


@pytest.mark.parametrize(
    "answer",
    [
        (401, {}, b'{"error": "s3cr3t-value-0123456789"}'),
        (200, {}, b"<html>"),
        (200, {}, b"[]"),
        (200, {}, b"x" * 200_000),
        (200, {}, b'{"access_token": "t", "expires_in": 1%s}' % (b"0" * 400)),
        None,
    ],
)
def test_no_token(api, server, answer):
    server.answers["/token"] = lambda _request: answer
    result = api.call(secured(api, server, client_credentials(server)), "x", auth={"main": CLIENT})
    assert result.text.startswith("No access token could be got for 'main'.")
    assert SECRET not in result.text + result.detail
    assert [each.path for each in server.requests] == ["/token"]


@pytest.mark.parametrize("seconds", [b"NaN", b"null", b'"60"'])
def test_a_token_whose_end_isnt_a_number(api, server, seconds):
    server.answers["/token"] = (200, {}, b'{"access_token": "t", "expires_in": %s}' % seconds)
    result = api.call(secured(api, server, client_credentials(server)), "x", auth={"main": CLIENT})
    assert (result.is_error, server.last.headers["authorization"]) == (False, "Bearer t")


def test_a_document_from_a_url_cant_choose_who_gets_the_clients_secret(api, server, other):
    content = secured(api, server, client_credentials(other))
    server.answers["/openapi.json"] = (200, {}, json.dumps(content).encode())
    server.answers["/token"] = (200, {}, b'{"access_token": "token-0123456789"}')
    url = f"{server.url}/openapi.json"
    assert "may not be sent" in api.call(url, "x", auth={"main": CLIENT}).text
    assert other.requests == []
    assert not api.call(url, "x", auth={"main": {**CLIENT, "token_url": f"{server.url}/token"}}).is_error
