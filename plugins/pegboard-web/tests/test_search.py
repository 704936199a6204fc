"""`web_search`: results of any backend, and the services that are built in, against real servers."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from pegboard import Permissions, Rule, ToolError, ToolRegistry
from pegboard_web import SearchResult, Settings, WebSearch
from pegboard_web.backends import ServiceBackend
from pegboard_web.settings import SearchSettings

KEY = "key-0123456789abcdef"
FOUND = [{"title": "A <b>", "url": "https://example.com/a", "content": "about a", "description": "about a"}]


class Found:
    """A backend of a host's own."""

    def __init__(self, *results):
        self.results, self.asked = results, []

    async def search(self, query, most):
        self.asked.append((query, most))
        return self.results


def search(web, backend, query="some words", **arguments):
    return web.call(WebSearch(backend), name="web_search", arguments={"query": query, **arguments})


def service(server, backend="brave", **settings):
    url = server.url if backend == "searxng" else f"{server.url}/search"
    key = None if backend == "searxng" else KEY
    return ServiceBackend(SearchSettings(**{"backend": backend, "url": url, "key": key, **settings}))


def failure(backend):
    """The error of a search, and its cause."""
    with pytest.raises(ToolError) as raised:
        asyncio.run(backend.search("some words", 5))
    assert KEY not in raised.value.text
    assert not backend.settings.key or KEY not in str(raised.value.__cause__)
    return raised.value, str(raised.value.__cause__)


def answers(server, content, backend="brave", status=200, kind="application/json", **headers):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    server.answers["/search"] = status, {"content-type": kind, **headers}, content
    return service(server, backend)


# Results ------------------------------------------------------------------------------------------------------------


def test_results_are_of_others(web):
    backend = Found(SearchResult("A\u202e page", "https://example.com/a", "some\n words"))
    result = search(web, backend)
    assert backend.asked == [("some words", 8)]
    assert web.body_of(result) == "1. A\\u{202e} page\n   https://example.com/a\n   some words"
    data = {"title": "A\\u{202e} page", "url": "https://example.com/a", "text": "some words"}
    assert result.structured_content == {"results": [data]}


def test_results_are_cut_here(web):
    """Whatever a backend gives, and however many."""
    backend = Found(*[SearchResult("t" * 9_000, f"https://example.com/{n}", "x" * 90_000) for n in range(50)])
    result = search(web, backend, limit=3)
    assert [each["url"][-1] for each in result.structured_content["results"]] == ["0", "1", "2"]
    assert len(result.text) < 5_000
    assert result.text.startswith("The results of a web search. 47 further results not shown. Others wrote")
    assert backend.asked == [("some words", 3)]


@pytest.mark.parametrize("text", ["x", "中", "\u200b", "\ud800"])
def test_all_results_together_are_less_than_a_result_may_have(web, text):
    """So that the line after them is there."""
    backend = Found(*[SearchResult(text * 9_000, "https://example.com/".ljust(999, "x"), text * 9_000)] * 20)
    result = search(web, backend, limit=20)
    assert "truncated" not in result.metadata
    assert len(result.structured_content["results"]) == 20
    assert web.body_of(result).count("...") == 40


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/", "http://10.0.0.1/x", "http://[::1]/", "file:///etc/passwd", "javascript:alert(1)", ""),
        *("https://a:b@example.com/", "http://2130706433/", "https://example.com/" + "x" * 3_000),
    ],
)
def test_results_that_cant_be_fetched_are_left_out(web, url):
    result = search(web, Found(SearchResult("a", url), SearchResult("b", "https://example.com/b")))
    assert [each["title"] for each in result.structured_content["results"]] == ["b"]
    assert "1 result with an address that can't be fetched left out" in result.text


def test_results_from_networks_of_the_settings_are_listed(web):
    """What `web_fetch` may fetch, `web_search` may find."""
    backend = Found(*[SearchResult("a", f"http://{host}/") for host in ("10.1.0.1", "10.2.0.1")])
    tool = WebSearch(backend, Settings(allow=("10.1.0.0/16",)))
    result = web.call(tool, name="web_search", arguments={"query": "a"})
    assert [each["url"] for each in result.structured_content["results"]] == ["http://10.1.0.1/"]


def test_the_title_of_a_search_has_no_hidden_characters(web):
    backend = Found(SearchResult("a", "https://example.com/a"))
    assert search(web, backend, query="a\u202eb").title == "Web search: a\\u{202e}b"


def test_no_results_are_a_text(web):
    result = search(web, Found())
    assert not result.is_error
    assert result.text == "No results for 'some words'. Try other words."


def test_searches_need_a_permission(web):
    rules = Permissions([Rule("search", "*", "allow"), Rule("search", "*secret*", "deny")])
    backend = Found()
    tools, named = WebSearch(backend), {"name": "web_search", "approver": None}
    assert web.call(tools, arguments={"query": "a"}, **named).kind == "denied"
    assert not web.call(tools, arguments={"query": "a"}, permissions=rules, **named).is_error
    assert web.call(tools, arguments={"query": "my secret"}, permissions=rules, **named).kind == "denied"
    assert backend.asked == [("a", 8)]


def test_arguments_are_bounded(web):
    for arguments in ({"query": ""}, {"query": "x" * 401}, {"limit": 0}, {"limit": 21}):
        assert search(web, Found(), **arguments).kind == "invalid_arguments"


# Services -----------------------------------------------------------------------------------------------------------


def test_searxng(web, server):
    result = search(web, answers(server, {"results": FOUND}, "searxng"), "a&b")
    assert result.structured_content["results"] == [
        {"title": "A <b>", "url": "https://example.com/a", "text": "about a"}
    ]
    assert server.last.path == "/search?q=a%26b&format=json"


def test_brave(web, server):
    result = search(web, answers(server, {"web": {"results": FOUND}}), limit=3)
    assert result.structured_content["results"][0]["text"] == "about a"
    assert server.last.path == "/search?q=some+words&count=3&text_decorations=false"
    assert server.last.headers["x-subscription-token"] == KEY


def test_tavily(web, server):
    result = search(web, answers(server, {"results": FOUND}, "tavily"), limit=3)
    assert result.structured_content["results"][0]["text"] == "about a"
    assert (server.last.method, json.loads(server.last.body)) == ("POST", {"query": "some words", "max_results": 3})
    assert server.last.headers["authorization"] == f"Bearer {KEY}"


def test_the_services_have_their_own_addresses():
    for backend in ("brave", "tavily"):
        made = ServiceBackend(SearchSettings(backend=backend, key=KEY))
        request = made.service.request(made.settings, "a", 1)
        assert request.url.startswith("https://api.")
        assert backend in request.url
        assert KEY not in repr(made) + repr(request)


def test_a_compressed_answer_is_read(web, server):
    content = gzip.compress(json.dumps({"results": FOUND}).encode())
    backend = answers(server, content, "tavily", **{"content-encoding": "gzip"})
    assert len(asyncio.run(backend.search("a", 1))) == 1


def test_nothing_found_by_a_service(web, server):
    for data in ({"results": []}, {}):
        assert search(web, answers(server, data, "tavily")).text.startswith("No results")
    assert search(web, answers(server, {"query": {}})).text.startswith("No results")


def test_odd_results_do_no_harm(web, server):
    odd = [None, 1, {"title": None, "url": 5}, {"url": ["x"]}, *FOUND]
    result = search(web, answers(server, {"results": odd}, "tavily"))
    assert [each["title"] for each in result.structured_content["results"]] == ["A <b>"]


# Errors -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "text", "retryable"),
    [
        (401, "doesn't accept the key (401)", False),
        (403, "denies access (403)", False),
        (404, "failed (404)", False),
        (429, "limits how often it may be used (429)", True),
        (500, "failed (500). Try again later", True),
    ],
)
@pytest.mark.parametrize("backend", ["searxng", "brave", "tavily"])
def test_errors_are_told_apart(server, backend, status, text, retryable):
    error, cause = failure(answers(server, f"no {KEY}".encode(), backend, status, "text/plain"))
    assert text in error.text
    assert error.retryable is retryable
    assert f"answered {status}" in cause


def test_searxng_without_json_says_what_to_do(server):
    _, cause = failure(answers(server, b"Forbidden", "searxng", 403, "text/html"))
    assert "add json to search.formats" in cause


def test_when_to_come_back(server):
    error, _ = failure(answers(server, b"", status=429, **{"retry-after": "3"}))
    assert error.retry_after == 3.0


@pytest.mark.parametrize(
    "content", [b"<html>Sign in</html>", b"", b"[]", b'{"web": 1}', b'{"web": {"results": {}}}', b'{"a": ']
)
def test_an_answer_that_is_none(server, content):
    error, cause = failure(answers(server, content, kind="text/html"))
    assert "answered something else than results" in error.text
    assert not error.retryable
    assert "Brave at 127.0.0.1 answered" in cause


def test_an_answer_that_never_comes_and_one_that_never_ends(server):
    server.answers["/search"] = lambda _: server.end.wait(30) and None
    error, _ = failure(service(server, timeout=0.2))
    assert error.retryable
    assert "didn't answer within 0.2 s" in error.text

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        while handler.write(b" " * 100_000):
            pass

    server.answers["/search"] = endless
    assert "something else" in failure(service(server))[0].text


def test_a_service_that_cant_be_reached(server):
    error, cause = failure(service(server, url="http://127.0.0.1:1/search"))
    assert error.retryable
    assert "can't be reached" in error.text
    assert "http://127.0.0.1:1/search: ConnectError" in cause
    error, _ = failure(service(server, key="schlüssel"))
    assert not error.retryable


def test_a_redirect_isnt_followed(server):
    _, cause = failure(answers(server, b"", status=301, location=f"https://elsewhere.example/?{KEY}"))
    assert "set search.url to its new address" in cause


def test_the_operator_reads_the_cause_and_the_model_doesnt(web, server):
    result = search(web, answers(server, b"Forbidden", "searxng", 403, "text/html"))
    assert result.is_error
    assert "search.formats" not in result.text
    assert "search.formats" in result.detail


def test_a_host_registers_its_own_backend():
    registry = ToolRegistry()
    registry.register(WebSearch(Found()))
    assert [tool.name for tool in asyncio.run(registry.resolve())] == ["web_search"]
