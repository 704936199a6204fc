"""HTTP within limits: clients, connections to addresses that were checked, and bodies that are read bounded."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import version
from ipaddress import ip_address
from ssl import SSLContext
from typing import Any, Final

import anyio
import httpx2
from attrs import define, field, frozen

from pegboard.errors import PegboardError
from pegboard_web.addresses import resolve
from pegboard_web.settings import Network

_CONNECT_SECONDS: Final = 5.0  # for one address, so that there is time for the others
_MOST_ADDRESSES: Final = 4
_PORTS: Final = {"http": 80, "https": 443}
_RETRYABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class BodyError(PegboardError):
    """The body of an answer can't be read."""


@frozen(eq=False)
class Answer:
    """An answer that was read within the limits.

    Attributes:
        url: Where it comes from.
        status: The HTTP status.
        headers: By name in lower case.
        content: The body, decompressed.
        is_cut: Whether there is more of it than the limit.
    """

    url: httpx2.URL
    status: int
    headers: Mapping[str, str]
    content: bytes
    is_cut: bool

    @property
    def is_success(self) -> bool:
        """Whether the status says so."""
        return 200 <= self.status < 300

    @property
    def is_retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _RETRYABLE


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Transport that resolves a host once, checks all its addresses, and connects to one of these.

    The request keeps its `Host`, and TLS the host's name, so that certificates are verified as ever.

    Args:
        inner: Sends the requests, whose URLs have addresses.
        allowed: Networks whose addresses are allowed although they aren't global.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, allowed: Sequence[Network]) -> None:
        self._inner = inner
        self._allowed = allowed

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends a request.

        Raises:
            ToolError: An address of the host isn't allowed.
            httpx2.ConnectError: No connection could be made to any of them.
        """
        host = request.url.raw_host.decode("ascii")
        port = request.url.port or _PORTS[request.url.scheme]
        addresses = await resolve(host, port, self._allowed)
        *others, last = addresses[:_MOST_ADDRESSES]
        for address in others:
            try:
                return await self._inner.handle_async_request(_aim(request, host, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._inner.handle_async_request(_aim(request, host, last))

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._inner.aclose()


def _aim(request: httpx2.Request, host: str, address: str) -> httpx2.Request:
    """A request to an address of its host."""
    extensions = dict(request.extensions)
    if not _is_address(host):
        extensions["sni_hostname"] = host.removesuffix(".")
    url = request.url.copy_with(host=address)
    return httpx2.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=extensions)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def page_client(allowed: Sequence[Network], proxy: str | None) -> httpx2.AsyncClient:
    """A client for one page, whose connections go to addresses that were checked."""
    return _client(CheckedTransport(_transport(proxy), allowed))


def service_client(proxy: str | None) -> httpx2.AsyncClient:
    """A client for one request to a service that the user has chosen."""
    return _client(_transport(proxy))


def _client(transport: httpx2.AsyncBaseTransport) -> httpx2.AsyncClient:
    """One for a single call: kept connections would only work in one event loop, and outlive it."""
    _load_network()
    headers = {"user-agent": _user_agent(), "accept-encoding": "gzip"}
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
    return httpx2.AsyncClient(
        transport=transport, headers=headers, timeout=timeout, cookies=no_cookies, trust_env=False
    )


def _transport(proxy: str | None) -> httpx2.AsyncHTTPTransport:
    return httpx2.AsyncHTTPTransport(verify=_tls(), proxy=proxy)


@cache
def _load_network() -> None:
    """Imports what the first connection would import in the event loop, for 0.2 s: this runs in a thread."""
    anyio.run(anyio.sleep, 0)
    _ = anyio.connect_tcp  # which is imported at its first use


@cache
def _user_agent() -> str:
    return f"pegboard-web/{version('pegboard-web')}"


@cache
def _tls() -> SSLContext:
    """One for all clients, as making it takes long."""
    return httpx2.create_ssl_context()


async def read_answer(response: httpx2.Response, most: int) -> Answer:
    """Reads an answer, up to so many bytes of its decompressed body.

    Raises:
        BodyError: The body is damaged, or compressed in a way that the request ruled out.
        httpx2.HTTPError: The connection was lost.
    """
    headers = {name.lower(): value for name, value in response.headers.items()}
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise BodyError("it is compressed in a way that the request ruled out")
    unzip = _Gunzip() if encoding.endswith("gzip") else None
    content, read = bytearray(), 0
    async for part in response.aiter_raw():
        read += len(part)
        content += part if unzip is None else unzip.read(part, most + 1 - len(content))
        if max(read, len(content)) > most:  # also of what is empty once it is decompressed
            break
        await asyncio.sleep(0)  # very many small parts don't hold up the event loop
    is_cut = max(read, len(content)) > most
    if unzip is not None and read and not is_cut and not unzip.member.eof:
        raise BodyError("its compressed data ends too early")
    return Answer(response.request.url, response.status_code, headers, bytes(content[:most]), is_cut)


def _start_member() -> Any:
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


@define(eq=False)
class _Gunzip:
    """Decompresses the members of a gzip file, one after another; what follows them and is none is ignored."""

    member: Any = field(factory=_start_member)

    def read(self, part: bytes, most: int) -> bytes:
        """The content of the next part, at most so many bytes: if there is more, the limit is exceeded anyway."""
        content = b""
        try:
            while part and len(content) < most:
                if self.member.eof:
                    part = part.lstrip(b"\0")  # padding
                    if not part.startswith(b"\x1f"):
                        break
                    self.member = _start_member()
                content += self.member.decompress(part, most - len(content))
                part = self.member.unused_data
        except zlib.error as error:
            raise BodyError("its compressed data is damaged") from error
        return content
