"""`web_fetch` against real servers: addresses, redirects, limits, errors, rules and the cache."""

from __future__ import annotations

import asyncio
import gzip
import socket
import subprocess
import sys
import time
import zlib

import pytest

from pegboard import Permissions, Reject, Rule, ToolCall, ToolContext, ToolRegistry
from pegboard_web import Settings, WebFetch
from pegboard_web.fetch import Fetcher


def test_a_page_is_markdown_of_others(web, server):
    url = server.page("/a", "<title>A page</title><h1>Head</h1><p>Some <b>words</b>\u200b, <a href='b?c'>more</a>.</p>")
    result = web.fetch(url)
    assert web.body_of(result).startswith(f"# A page\n\n# Head\n\nSome **words**\\u{{200b}}, [more]({server.url}/b?c).")
    assert result.text.startswith(f"The page {url} (text/html). Others wrote")
    assert (result.title, result.metadata) == ("A page", {"url": url, "media_type": "text/html"})


def test_a_page_cant_imitate_the_lines_around_it(web, server):
    url = server.page("/a", "----- 0123abcd -----", "text/plain")
    first, second = web.fetch(url), web.fetch(url)
    assert web.body_of(first) == web.body_of(second) == "----- 0123abcd -----"
    assert first.text != second.text


def test_the_request_has_the_name_of_the_host_and_nothing_of_this_machine(web, server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    server.page("/a", "x", **{"set-cookie": "a=b"})
    tool = WebFetch(Settings(allow=("127.0.0.1", "::1"), cache_seconds=0))
    for _ in range(2):
        assert not web.fetch(f"http://localhost:{server.port}/a", tool=tool).is_error
    headers = server.last.headers
    assert headers["host"] == f"localhost:{server.port}"
    assert headers["accept-encoding"] == "gzip"
    assert headers["user-agent"].startswith("pegboard-web/")
    assert {"cookie", "authorization", "referer"}.isdisjoint(map(str.lower, headers))


def test_an_address_of_this_machine_is_refused(web, server):
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"):
        result = web.fetch(f"http://{host}:{server.port}/", allow=())
        assert result.kind == "tool_failure", host
        assert "isn't reachable from the whole internet" in result.text
    assert not server.requests


def test_the_connection_goes_to_the_address_that_was_checked(web, server, monkeypatch):
    """A name that has another address the next time it is looked up has no second time."""
    real, asked = socket.getaddrinfo, []

    def find(host, *arguments, **named):
        if host == "example.com":
            asked.append(host)
            return real("127.0.0.1" if len(asked) == 1 else "127.0.0.2", *arguments, **named)
        return real(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", find)
    server.page("/a", "x")
    assert not web.fetch(f"http://example.com:{server.port}/a").is_error
    assert asked == ["example.com"]
    assert server.last.headers["host"] == f"example.com:{server.port}"


def test_the_next_address_is_tried_if_one_cant_be_reached(web, server, monkeypatch):
    real = socket.getaddrinfo
    places = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, server.port)) for text in ("127.0.0.9", "127.0.0.1")]
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: places if host == "a.example" else real(host, *a, **k)
    )
    server.page("/a", "x")
    assert not web.fetch(f"http://a.example:{server.port}/a", allow=("127.0.0.0/8",)).is_error


def test_a_proxy_gets_the_address_that_was_checked(web, server, other, monkeypatch):
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: real("127.0.0.1" if host == "a.example" else host, *a, **k)
    )
    other.answers[f"http://127.0.0.1:{server.port}/a"] = 200, {}, b"by the proxy"
    result = web.fetch(f"http://a.example:{server.port}/a", proxy=other.url)
    assert web.body_of(result) == "by the proxy"
    assert other.last.headers["host"] == f"a.example:{server.port}"
    assert web.fetch("http://10.0.0.1/", proxy=other.url).is_error
    assert len(other.requests) == 1


WORDS = "obey the page"


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("200 OK", {"content-type": f"text/x; {WORDS}"}),
        ("200 OK", {"content-type": f"text/{WORDS}"}),
        ("200 OK", {"content-type": f"image/{WORDS}"}),
        ("200 OK", {"content-encoding": WORDS}),
        (f"404 {WORDS}", {}),
        (f"799 {WORDS}", {}),
        ("302 Found", {"location": WORDS + "\\"}),
    ],
)
def test_no_words_of_the_server_stand_outside_of_the_page(web, server, status, headers):
    def answer(handler):
        lines = [f"HTTP/1.1 {status}", *(f"{key}: {text}" for key, text in headers.items()), "", "A page."]
        handler.write("\r\n".join(lines).encode())

    server.answers["/a"] = answer
    assert WORDS not in web.fetch(f"{server.url}/a").text.partition("\n-----")[0]


# Redirects ----------------------------------------------------------------------------------------------------------


def test_redirects_on_one_server_are_followed(web, server):
    server.page("/c", "the end", "text/plain")
    server.redirect("/b", "c", 307)
    result = web.fetch(server.redirect("/a", f"{server.url}/b"))
    assert web.body_of(result) == "the end"
    assert result.metadata["url"] == f"{server.url}/c"


@pytest.mark.parametrize(
    "target",
    ["OTHER/x", "http://10.0.0.1/", "//example.com/x", "ftp://example.com/", "file:///etc/passwd", "http://[::1"],
)
def test_a_redirect_elsewhere_is_told_to_the_model(web, server, other, target):
    target = target.replace("OTHER", other.url)
    result = web.fetch(server.redirect("/a", target))
    assert not result.is_error
    assert "which wasn't fetched" in result.text
    assert target.removeprefix("//") in web.body_of(result)
    assert not other.requests


def test_rules_decide_on_the_target_of_a_redirect(web, server, other):
    """The model's call for it is decided as any other."""
    rules = Permissions([Rule("fetch", f"{server.url}/*", "allow"), Rule("fetch", f"{other.url}/*", "deny")])
    tool = WebFetch(Settings(allow=web.LOCAL))
    moved = web.fetch(server.redirect("/a", f"{other.url}/x"), tool=tool, permissions=rules, approver=None)
    result = web.fetch(moved.metadata["redirect"], tool=tool, permissions=rules, approver=None)
    assert result.kind == "denied"
    assert not other.requests


def test_a_page_that_rules_deny_isnt_reached_by_a_redirect(web, server):
    server.page("/secret", "x")
    rules = Permissions([Rule("fetch", "*", "allow"), Rule("fetch", f"{server.url}/secret", "deny")])
    result = web.fetch(server.redirect("/a", "/secret"), permissions=rules, approver=None)
    assert "which wasn't fetched" in result.text
    assert server.paths == ["/a"]


def test_redirects_in_a_circle_end(web, server):
    server.redirect("/b", "/a")
    result = web.fetch(server.redirect("/a", "/b"))
    assert result.is_error
    assert "redirects again and again" in result.text
    assert len(server.requests) == 6


def test_a_redirect_without_a_target_is_an_error(web, server):
    server.answers["/a"] = 302, {}, b""
    assert "answers 302" in web.fetch(f"{server.url}/a").text


def test_a_hostile_target_is_shown_short_and_visible(web, server):
    result = web.fetch(server.redirect("/a", "http://example.com/\xad" + "x" * 9_000))
    assert "http://example.com/\\u{ad}xxx" in web.body_of(result)
    assert len(result.text) < 2_000


def test_a_long_target_is_told_whole(web, server):
    target = "https://example.com/" + "x" * 4_000
    assert web.body_of(web.fetch(server.redirect("/a", target))) == target


# Limits -------------------------------------------------------------------------------------------------------------


def endless(chunk, kind="text/plain", **headers):
    def answer(handler):
        handler.send_response(200)
        for key, value in {"content-type": kind, **headers}.items():
            handler.send_header(key, value)
        handler.end_headers()
        while handler.write(chunk):
            pass

    return answer


def test_a_page_that_never_ends_is_cut(web, server):
    server.answers["/a"] = endless(b"words " * 100)
    result = web.fetch(f"{server.url}/a", most_bytes=30_000)
    assert len(web.body_of(result)) == 30_000
    assert result.text.endswith("[The rest of the page is missing, because it is too large.]")


def test_a_page_that_never_comes_is_given_up(web, server):
    server.answers["/a"] = lambda _: server.end.wait(30) and None
    started = time.monotonic()
    result = web.fetch(f"{server.url}/a", timeout=0.2)
    assert result.is_error
    assert "didn't answer it whole within 0.2 s" in result.text
    assert time.monotonic() - started < 10


def test_a_page_that_comes_drop_by_drop_is_given_up(web, server):
    def drip(handler):
        handler.send_response(200)
        handler.end_headers()
        while handler.write(b"x") and not server.end.wait(0.01):
            pass

    server.answers["/a"] = drip
    assert "within 0.3 s" in web.fetch(f"{server.url}/a", timeout=0.3).text


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n" * 100),
        ("HTTP/1.1 200 OK\r\na: ", "b" * 1_000),
        ("HTTP/1.1 200 ", "a" * 1_000),
        ("", "HTTP/1.1 102 Wait\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "0" * 1_000),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", "a: b\r\n" * 100),
    ],
    ids=["headers", "header", "status", "answers", "chunk", "trailers"],
)
def test_what_surrounds_a_page_may_not_be_endless(web, server, begin, more):
    def answer(handler):
        handler.write(begin.encode())
        while handler.write(more.encode()):
            pass

    server.answers["/a"] = answer
    assert "can't be fetched" in web.fetch(f"{server.url}/a", timeout=0.5).text


def test_a_page_in_tiny_parts_doesnt_hold_up_the_event_loop(web, server):
    def answer(handler):
        handler.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n")

    async def count(turns):
        while True:
            turns.append(await asyncio.sleep(0))

    async def run(turns):
        counting = asyncio.create_task(count(turns))
        fetcher = Fetcher(Settings(allow=web.LOCAL, cache_seconds=0))
        await fetcher.fetch(f"{server.url}/a", ToolContext())  # imports what it needs
        turns.clear()
        page = await fetcher.fetch(f"{server.url}/b", ToolContext())
        counting.cancel()
        return page

    turns = []
    server.answers["/b"] = answer
    server.page("/a", "x")
    assert asyncio.run(run(turns)).text == "x" * 5_000
    assert len(turns) > 4_000


def test_a_compressed_page_is_read(web, server):
    url = server.page("/a", gzip.compress(b"some words"), "text/plain", **{"content-encoding": "gzip"})
    assert web.body_of(web.fetch(url)) == "some words"
    url = server.page("/b", b"", "text/plain", **{"content-encoding": "gzip"})
    assert "has no text" in web.fetch(url).text


@pytest.mark.parametrize("end", [b"", b"\0\0\0", b"no gzip"])
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_a_compressed_page_of_several_parts_is_read_whole(web, server, size, end):
    """Wherever the network cuts it; what follows it is ignored."""
    content = b"".join(map(gzip.compress, (b"some ", b"", b"more ", b"words"))) + end

    def answer(handler):
        handler.send_response(200)
        handler.send_header("content-type", "text/plain")
        handler.send_header("content-encoding", "gzip")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for place in range(0, len(content), size):
            part = content[place : place + size]
            handler.write(b"%x\r\n%b\r\n" % (len(part), part))
        handler.write(b"0\r\n\r\n")

    server.answers["/a"] = answer
    assert web.body_of(web.fetch(f"{server.url}/a")) == "some more words"


def test_the_title_of_a_result_has_no_hidden_characters(web, server):
    """A person reads it; line ends would make it two."""
    result = web.fetch(server.page("/a", "<title>A\u202e page&#10;of two lines</title>x"))
    assert result.title == "A\\u{202e} page of two lines"


@pytest.mark.slow
def test_a_first_page_imports_no_network_library_in_the_event_loop(server):
    server.page("/a", "x")
    code = (
        "import asyncio, sys, threading\n"
        "from pegboard import ToolContext\n"
        "from pegboard_web import Settings, WebFetch\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if threading.current_thread() is threading.main_thread():\n"
        "            print(name)\n"
        "async def fetch():\n"
        "    sys.meta_path.insert(0, Finder())\n"
        f"    await WebFetch(Settings(allow=('127.0.0.1',))).web_fetch('{server.url}/a')\n"
        "    sys.meta_path.pop(0)\n"
        "asyncio.run(fetch())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_bomb_is_cut_while_it_is_decompressed(web, server):
    """A gigabyte of nothing, of which only the beginning is ever decompressed."""
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    begin = b"".join([pack.compress(b"a" * 1_000_000) for _ in range(5)]) + pack.flush(zlib.Z_FULL_FLUSH)
    more = pack.compress(b"\0" * 10_000_000) + pack.flush(zlib.Z_FULL_FLUSH)
    server.page("/a", begin + more * 100, "text/plain", **{"content-encoding": "gzip"})
    result = web.fetch(f"{server.url}/a", most_bytes=50_000)
    assert "The rest of the page is missing" in web.fetch(f"{server.url}/a", offset=40_000, most_bytes=50_000).text
    assert set(web.body_of(result)) == {"a"}


def test_a_bomb_that_is_empty_is_cut(web, server):
    """Endless blocks of compressed data without content."""
    head = zlib.compressobj(9, zlib.DEFLATED, 31)
    server.page("/x", "")
    first, empty = head.compress(b"") + head.flush(zlib.Z_FULL_FLUSH), b"\0\0\0\xff\xff" * 2_000

    def answer(handler):
        handler.send_response(200)
        handler.send_header("content-encoding", "gzip")
        handler.end_headers()
        handler.write(first)
        while handler.write(empty):
            pass

    server.answers["/a"] = answer
    assert "has no text" in web.fetch(f"{server.url}/a", most_bytes=100_000).text


@pytest.mark.parametrize(
    ("encoding", "content", "reason"),
    [
        ("br", b"x", "compressed in a way that the request ruled out"),
        ("gzip, gzip", b"x", "in a way that the request ruled out"),
        ("gzip", b"no gzip", "compressed data is damaged"),
        ("gzip", gzip.compress(b"some words", mtime=0)[:-12], "compressed data ends too early"),
    ],
)
def test_a_page_that_cant_be_decompressed(web, server, encoding, content, reason):
    url = server.page("/a", content, "text/plain", **{"content-encoding": encoding})
    result = web.fetch(url)
    assert result.is_error
    assert reason in result.text


# Parts --------------------------------------------------------------------------------------------------------------


def test_a_long_page_comes_in_parts(web, server):
    text = "".join(f"{number:09} " for number in range(10_000))
    server.page("/a", text, "text/plain")
    tool, offset, parts = WebFetch(Settings(allow=web.LOCAL)), 0, []
    while offset is not None:
        result = web.fetch(f"{server.url}/a", offset=offset, tool=tool)
        parts.append(web.body_of(result))
        found = result.text.rpartition("offset=")
        offset = int(found[2].removesuffix(".]")) if found[0] else None
    assert "".join(parts) == text
    assert len(server.requests) == 1, "the other parts come from the cache"
    assert result.text.endswith("[Characters 80,001 to 100,000 of 100,000.]")


@pytest.mark.parametrize("text", ["中文" * 40_000, "\u200b" * 40_000, "a\n" * 40_000])
def test_no_part_is_cut_by_the_limits_of_results(web, server, text):
    server.page("/a", text, "text/plain; charset=utf-8")
    result = web.fetch(f"{server.url}/a")
    assert "To continue, call web_fetch with offset=" in result.text
    assert "truncated" not in result.metadata


def test_an_offset_beyond_the_end_is_an_error(web, server):
    assert "The page has 1 characters only" in web.fetch(server.page("/a", "x", "text/plain"), offset=5).text


# Errors -------------------------------------------------------------------------------------------------------------


def test_an_error_has_the_status_and_its_text_as_of_others(web, server):
    result = web.fetch(f"{server.url}/a")
    assert result.is_error
    assert f"{server.url}/a can't be fetched: the server answers 404 Not Found." in result.text
    assert "This is the text of its answer. Others wrote" in result.text
    assert "nothing here" in result.text


def test_an_errors_text_is_short_and_what_is_none_is_left_out(web, server):
    server.answers["/a"] = 500, {}, b"x" * 100_000
    assert len(web.fetch(f"{server.url}/a").text) < 3_000
    server.answers["/a"] = 500, {"content-type": "application/zip"}, b"PK\3\4"
    assert web.fetch(f"{server.url}/a").text.startswith(f"{server.url}/a can't be fetched: the server answers 500")


def test_what_may_work_later_says_so(web, server):
    async def error():
        with pytest.raises(Exception, match="503") as raised:
            await Fetcher(Settings(allow=web.LOCAL)).fetch(f"{server.url}/a", _NoCall())
        return raised.value

    class _NoCall:
        pass

    server.answers["/a"] = 503, {"retry-after": "7"}, b""
    found = asyncio.run(error())
    assert (found.retryable, found.retry_after) == (True, 7.0)


def test_no_connection_and_no_http(web, server):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        assert (
            "No connection to 127.0.0.1 could be made" in web.fetch(f"http://127.0.0.1:{nobody.getsockname()[1]}/").text
        )
    server.answers["/a"] = lambda handler: handler.write(b"SSH-2.0-x\r\n\r\n") and None
    assert "doesn't answer in HTTP" in web.fetch(f"{server.url}/a").text
    server.answers["/a"] = lambda _: None
    assert "its server broke off" in web.fetch(f"{server.url}/a").text

    def half(handler):
        handler.send_response(200)
        handler.send_header("content-length", "100")
        handler.end_headers()
        handler.write(b"half")

    server.answers["/a"] = half
    assert web.fetch(f"{server.url}/a").is_error


# Rules --------------------------------------------------------------------------------------------------------------


def test_each_page_needs_the_permission(web, server):
    url = server.page("/a", "x")
    asked = []

    def approver(request, _context):
        asked.append((request.permission, request.patterns))
        return Reject()

    assert web.fetch(url, approver=approver).kind == "rejected"
    assert asked == [("fetch", (url,))]
    assert web.fetch(url, approver=None).kind == "denied"
    assert not server.requests


def test_rules_about_hosts_apply(web, server):
    server.page("/a", "x")
    rules = Permissions([Rule("fetch", "127.0.0.1", "allow"), Rule("fetch", "*/private*", "deny")])
    assert not web.fetch(f"{server.url}/a", permissions=rules, approver=None).is_error
    assert web.fetch(f"{server.url}/private/a", permissions=rules, approver=None).kind == "denied"
    assert web.fetch("https://example.com/", permissions=rules, approver=None).kind == "denied"


# Cache --------------------------------------------------------------------------------------------------------------


def test_a_page_is_kept_for_a_while(web, server):
    url, tool = server.page("/a", "x"), WebFetch(Settings(allow=web.LOCAL))
    for _ in range(2):
        web.fetch(url, tool=tool)
    assert server.paths == ["/a"]
    web.fetch(server.redirect("/b", "/a"), tool=tool)
    assert server.paths == ["/a", "/b"], "also where a redirect leads to it"


@pytest.mark.parametrize(
    "headers",
    [
        *(
            {"cache-control": value}
            for value in ("no-store", "max-age=9, Private", 'no-cache="x"', "max-age=0,no-store")
        ),
        {"vary": "accept, *"},
    ],
)
def test_what_isnt_for_all_isnt_kept(web, server, headers):
    url, tool = server.page("/a", "x", **headers), WebFetch(Settings(allow=web.LOCAL))
    for _ in range(2):
        web.fetch(url, tool=tool)
    assert server.paths == ["/a", "/a"]


def test_errors_arent_kept(web, server):
    tool = WebFetch(Settings(allow=web.LOCAL))
    assert web.fetch(f"{server.url}/a", tool=tool).is_error
    server.page("/a", "x")
    assert not web.fetch(f"{server.url}/a", tool=tool).is_error


def test_a_kept_page_is_decided_on_as_any_other(web, server):
    url, tool = server.page("/a", "x"), WebFetch(Settings(allow=web.LOCAL))
    web.fetch(url, tool=tool)
    assert web.fetch(url, tool=tool, approver=None).kind == "denied"


def test_many_pages_at_once(web, server):
    for number in range(8):
        server.page(f"/{number}", f"page {number}", "text/plain")

    async def run():
        async with ToolRegistry(permissions=Permissions([Rule("fetch", "*", "allow")])) as registry:
            registry.register(WebFetch(Settings(allow=web.LOCAL)))
            calls = [ToolCall("web_fetch", {"url": f"{server.url}/{number}"}, str(number)) for number in range(8)]
            return (await registry.dispatch(calls)).results

    assert [web.body_of(result) for result in asyncio.run(run())] == [f"page {number}" for number in range(8)]


def test_arguments_are_bounded(web, server):
    assert web.call(WebFetch(), arguments={"url": ""}).kind == "invalid_arguments"
    assert web.call(WebFetch(), arguments={"url": server.url, "offset": -1}).kind == "invalid_arguments"
