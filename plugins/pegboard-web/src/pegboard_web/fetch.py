"""Fetching a page: its request, redirects on its server, and errors."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

import httpx2
from attrs import Factory, define, field, frozen

from pegboard import ToolContext, ToolError
from pegboard.threads import run_in_thread
from pegboard_clients.errors import retry_after
from pegboard_web.addresses import parse_url
from pegboard_web.cache import PageCache
from pegboard_web.foreign import mark_foreign, short
from pegboard_web.http import Answer, BodyError, page_client, read_answer
from pegboard_web.page import Page
from pegboard_web.reading import read_page
from pegboard_web.settings import Settings

PERMISSION: Final = "fetch"
MOST_REDIRECTS: Final = 5
_MOST_ERROR: Final = 2_000  # characters of an error's page
_ACCEPT: Final = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5"
_NOT_FOR_ALL: Final = frozenset({"no-store", "no-cache", "private"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@frozen
class Moved:
    """A redirect that isn't followed.

    Attributes:
        url: The page that was asked for, or that one on its server has led to.
        target: Where it leads; a short text if that can't be a page.
    """

    url: str
    target: str


@define(eq=False)
class Fetcher:
    """Fetches pages within the limits of the settings, and keeps them for a while.

    Attributes:
        settings: The plugin's settings.
    """

    settings: Settings
    _cache: PageCache = field(
        default=Factory(lambda self: PageCache(self.settings.cache_seconds), takes_self=True), init=False
    )

    async def fetch(self, text: str, context: ToolContext) -> Page | Moved:
        """The page of a URL.

        Args:
            text: The URL.
            context: The running call, by whose rules redirects are followed.

        Raises:
            ToolError: It can't be fetched, or not in time.
        """
        url = parse_url(text)
        page = self._cache.get(str(url))
        if page is not None:
            return page
        client = await run_in_thread(page_client, self.settings.networks, self.settings.proxy)
        try:
            async with asyncio.timeout(self.settings.timeout), client:
                found = await self._follow(client, url, context)
        except TimeoutError:
            late = f"its server didn't answer it whole within {self.settings.timeout:g} s"
            raise ToolError(f"{short(url)} can't be fetched: {late}.", retryable=True) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, BodyError) as error:
            raise _failure(url, error) from error
        if not isinstance(found, Answer):
            return found
        if not found.is_success:
            raise await run_in_thread(_refusal, found)
        page = await run_in_thread(read_page, found)
        if _is_for_all(found):
            self._cache.put(page)
        return page

    async def _follow(self, client: httpx2.AsyncClient, url: httpx2.URL, context: ToolContext) -> Answer | Page | Moved:
        """The answer of a URL, or of where its server redirects to."""
        for _ in range(MOST_REDIRECTS + 1):
            async with client.stream("GET", url, headers={"accept": _ACCEPT}) as response:
                location = response.headers.get("location") if response.status_code in _REDIRECTS else None
                if location is None:
                    return await read_answer(response, self.settings.most_bytes)
            try:
                target = parse_url(str(url.join(location)))
            except (httpx2.InvalidURL, ValueError, ToolError):
                return Moved(str(url), short(location))
            if not _is_same_server(url, target) or not context.allows(PERMISSION, str(target)):
                return Moved(str(url), str(target))
            url = target
            page = self._cache.get(str(url))
            if page is not None:
                return page
        raise ToolError(f"{short(url)} redirects again and again: {MOST_REDIRECTS} redirects were followed.")


def _is_for_all(answer: Answer) -> bool:
    """Whether an answer may be given to other users and sessions for a while (RFC 9111)."""
    control = answer.headers.get("cache-control", "").lower().split(",")
    forbids = _NOT_FOR_ALL.intersection(word.partition("=")[0].strip() for word in control)
    return not forbids and "*" not in answer.headers.get("vary", "")


def _is_same_server(url: httpx2.URL, target: httpx2.URL) -> bool:
    """Whether both have the same host and port, and the second isn't less protected: from http to https is fine."""
    if url.raw_host != target.raw_host:
        return False
    one, other = (url.scheme, url.port), (target.scheme, target.port)
    return one == other or (one, other) == (("http", None), ("https", None))


def _failure(url: httpx2.URL, error: Exception) -> ToolError:
    """The error of a page without a readable answer."""
    if isinstance(error, BodyError):
        return ToolError(f"{short(url)} can't be read: {error}.")
    cause = error.__cause__ or error
    if isinstance(error, httpx2.ConnectError) and "CERTIFICATE_VERIFY_FAILED" in str(cause):
        return ToolError(f"{short(url)} can't be fetched: the certificate of its server isn't valid.")
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return ToolError(f"No connection to {short(url.host)} could be made.", retryable=True)
    return ToolError(f"{short(url)} can't be fetched: its server broke off, or doesn't answer in HTTP.", retryable=True)


def _refusal(answer: Answer) -> ToolError:
    """The error of an answer that isn't a success, with the beginning of its text."""
    known = answer.status in set(HTTPStatus)
    status = f"{answer.status} {HTTPStatus(answer.status).phrase}" if known else answer.status
    text = f"{short(answer.url)} can't be fetched: the server answers {status}."
    try:
        words = read_page(answer).text.strip()
    except ToolError:
        words = ""
    if words:
        text = f"{text}\n{mark_foreign('This is the text of its answer', words[:_MOST_ERROR])}"
    again = answer.is_retryable
    return ToolError(text, retryable=again, retry_after=retry_after(answer.headers) if again else None)
