"""Calls of operations over HTTP: sending, redirects, and answers as results."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from attrs import define, evolve, field, frozen

from pegboard import AudioContent, FileContent, ImageContent, ToolContext, ToolError, ToolResult
from pegboard.errors import hide
from pegboard.json import size_text
from pegboard.threads import run_in_thread
from pegboard.tools import is_text_type, media_type, plain_type
from pegboard_openapi.auth import Authenticator, Credentials, Scheme, may_get_secrets
from pegboard_openapi.document import DocumentError, origin_of
from pegboard_openapi.operations import IDEMPOTENT, SAFE, Operation
from pegboard_openapi.options import Options
from pegboard_openapi.requests import Draft, draft_of, file_paths, read_uploads

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx2

_MOST_REDIRECTS: Final = 5
_MOST_ERROR: Final = 4_000  # characters of an error's body for the model
_MOST_ERROR_BODY: Final = 100_000
_MOST_WAIT: Final = 86_400.0
_RETRYABLE: Final = frozenset({429, 503})
_RETRYABLE_IF_IDEMPOTENT: Final = frozenset({408, 425, 500, 502, 504})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CHARSET: Final = re.compile(  # of the web: Python has others, such as punycode, that take quadratic time
    r"charset\s*=\s*[\"']?((?:utf-?(?:8|16|32)|us-ascii|latin|iso-|windows-|koi8|gb|big5|euc|shift_jis)[\w-]*)",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(r"<title[^>]{0,300}>(.{0,300}?)</title", re.IGNORECASE | re.DOTALL)


@frozen(eq=False)
class Answer:
    """An answer that was read within the limits.

    Attributes:
        status: The HTTP status.
        reason: Its words.
        headers: By name in lower case.
        content: The body.
        is_cut: Whether the body is longer than the limit.
    """

    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    is_cut: bool = False


@define(eq=False)
class Caller:
    """Calls the operations of one document.

    Attributes:
        location: The document's path or URL.
        options: Of its toolset.
        authenticator: Makes the credentials.
    """

    location: str
    options: Options
    authenticator: Authenticator

    async def call(self, operation: Operation, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Runs an operation.

        Raises:
            ToolError: It failed.
        """
        if not operation.server:
            cause = DocumentError("the document names no server by its full address: set base_url")
            raise ToolError(f"{operation.name} isn't set up here: it has no server. Tell the user.") from cause
        files = await run_in_thread(read_uploads, file_paths(operation, arguments), context)
        draft = draft_of(operation, arguments, files)
        client = await run_in_thread(_make_client)  # loading httpx2 and certificates takes long
        import httpx2

        credentials = Credentials()
        limit = asyncio.timeout(self.options.timeout)
        try:
            async with limit, client:
                chosen = self._choose(operation, draft.url)
                await self.authenticator.add(credentials, chosen, client)
                answer = await self._send(client, draft, credentials)
        except TimeoutError:
            if not limit.expired():
                raise
            return _timeout_result(operation, self.options.timeout)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return _no_answer(operation, error, credentials.secrets)
        if answer.status == 401:
            self.authenticator.forget(chosen)
        reader = _AnswerReader(operation, answer, credentials.secrets, self.options.most_bytes, bool(chosen))
        return await run_in_thread(reader.result)  # a large answer takes long

    def _choose(self, operation: Operation, url: str) -> list[tuple[Scheme, tuple[str, ...]]]:
        """The schemes for a request.

        Raises:
            ToolError: Its server may not get the credentials.
        """
        chosen = self.authenticator.choose(operation.security)
        targets = [url] if chosen else []
        targets += [scheme.token_url for scheme, _ in chosen if scheme.token_url and "token_url" not in scheme.given]
        for target in targets:
            if not may_get_secrets(self.location, self.options.base_url, target):
                text = "The credentials may not be sent to its server. Continue without this tool, or tell the user."
                cause = f"{self.location} names the server {target}, which has another origin: "
                raise ToolError(text) from DocumentError(f"{cause}set base_url (or token_url in auth) to allow it")
        return chosen

    async def _send(self, client: httpx2.AsyncClient, draft: Draft, credentials: Credentials) -> Answer:
        """Sends a request, and follows redirects: to other servers only if allowed, and without credentials."""
        for _ in range(_MOST_REDIRECTS + 1):
            response = await client.send(_request(client, draft, credentials), stream=True)
            try:
                location = response.headers.get("location") if response.status_code in _REDIRECTS else None
                if location is None:
                    return await self._read(response)
            finally:
                await response.aclose()
            try:
                target = urljoin(draft.url, location)
            except ValueError:  # it is no address, and shown as it is
                target = location
            if _is_same_server(draft.url, target):
                draft = _redirect(draft, target, response.status_code)
            elif draft.method in ("GET", "HEAD") and self._may_follow(target):
                draft, credentials = Draft(draft.method, target), Credentials()
            else:
                return Answer(response.status_code, "", {"location": target}, b"")
        return Answer(508, "Loop Detected", {"content-type": "text/plain"}, b"it redirects again and again")

    def _may_follow(self, url: str) -> bool:
        try:
            return origin_of(url) in map(origin_of, self.options.follow)
        except DocumentError:
            return False

    async def _read(self, response: httpx2.Response) -> Answer:
        import httpx2

        headers = {name.lower(): value for name, value in response.headers.items()}
        if headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            # Once it is decompressed, it could exceed any limit.
            text = "the answer is compressed, although the request ruled that out"
            raise httpx2.DecodingError(text, request=response.request)
        content, most = bytearray(), self.options.most_bytes if response.is_success else _MOST_ERROR_BODY
        async for part in response.aiter_raw():
            content += part
            if len(content) > most:
                break
        is_cut = len(content) > most
        return Answer(response.status_code, response.reason_phrase, headers, bytes(content[:most]), is_cut)


def _make_client() -> httpx2.AsyncClient:
    """A client for one call: kept connections would only work in one event loop, and outlive it."""
    import httpx2

    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # an answer's are for no other call
    headers = {"accept-encoding": "identity", "accept": "application/json, text/*;q=0.8, */*;q=0.5"}
    return httpx2.AsyncClient(headers=headers, timeout=None, cookies=no_cookies, verify=_tls())


@cache
def _tls() -> SSLContext:
    """The context of all clients, as loading the certificates takes long."""
    import httpx2

    return httpx2.create_ssl_context()


def _request(client: httpx2.AsyncClient, draft: Draft, credentials: Credentials) -> httpx2.Request:
    """A request with credentials; those in the query aren't part of its URL, which httpx2 logs."""
    headers = {**draft.headers, **credentials.headers}
    if cookies := [*draft.cookies, *credentials.cookies]:
        headers["cookie"] = "; ".join(cookies)
    request = client.build_request(
        draft.method, draft.url, headers=headers, content=draft.content, files=draft.parts or None
    )
    if credentials.query:
        path = request.url.raw_path
        request.extensions["target"] = path + (b"&" if b"?" in path else b"?") + "&".join(credentials.query).encode()
    return request


def _is_same_server(url: str, target: str) -> bool:
    """Whether two URLs have the same origin, or the second is the first's by HTTPS."""
    try:
        one, other = origin_of(url), origin_of(target)
    except DocumentError:
        return False
    return one == other or (one[1] == other[1] and (one[0], one[2], other[0], other[2]) == ("http", 80, "https", 443))


def _redirect(draft: Draft, url: str, status: int) -> Draft:
    """The request for a redirect on the same server, by RFC 9110, 15.4."""
    if draft.method in ("GET", "HEAD") or status in (307, 308) or (status != 303 and draft.method != "POST"):
        return evolve(draft, url=url)
    headers = {name: value for name, value in draft.headers.items() if name != "content-type"}
    return Draft("GET", url, headers, draft.cookies)


# Answers ----------------------------------------------------------------------------------------------------------


def _timeout_result(operation: Operation, seconds: float) -> ToolResult:
    more = "" if operation.method in SAFE else " It may have taken effect: check that before you call it again."
    return ToolResult.error("timeout", f"{operation.name}: the server didn't answer within {seconds:g} s.{more}")


def _no_answer(operation: Operation, error: Exception, secrets: Sequence[str]) -> ToolResult:
    """The result of a call without an answer, of which it may not be known whether it took effect.

    Raises:
        ToolError: It had no effect.
    """
    import httpx2

    host = urlsplit(operation.server).hostname
    detail = hide(f"{type(error).__name__}: {error}", secrets)
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.ProxyError):
        text = f"{operation.name} was not run: no connection to {host} could be made."
        raise ToolError(text, retryable=True) from DocumentError(detail)
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
        raise ToolError(f"{operation.name} was not run: its request isn't valid HTTP.") from DocumentError(detail)
    if isinstance(error, httpx2.DecodingError):
        return ToolResult.error("invalid_output", f"{operation.name}: the answer can't be read.", detail=detail)
    if operation.method in SAFE:
        text = f"{operation.name} failed: the connection to {host} ended before the answer."
        raise ToolError(text, retryable=True) from DocumentError(detail)
    text = f"The outcome of {operation.name} is unknown: the connection to {host} ended before the answer. "
    return ToolResult.error(
        "unknown_outcome", f"{text}Check whether it took effect before you call it again.", detail=detail
    )


@frozen(eq=False)
class _AnswerReader:
    """Reader of one answer, which makes its result."""

    operation: Operation
    answer: Answer
    secrets: Sequence[str] = field(repr=False)
    most_bytes: int
    has_credentials: bool

    def result(self) -> ToolResult:
        """The result.

        Raises:
            ToolError: The answer is an error.
        """
        answer, name = self.answer, self.operation.name
        if answer.status in _REDIRECTS and "location" in answer.headers:
            where = self._redact(answer.headers["location"], 500)
            text = f"{name}: the answer ({answer.status}) redirects to another server, which isn't followed: {where}"
            raise ToolError(text)
        if not 200 <= answer.status < 300:
            raise self._failure()
        if answer.is_cut:
            limit = f"{name}: the answer has more than {size_text(self.most_bytes)}"
            if self.operation.method in SAFE:
                raise ToolError(f"{limit}. Ask for less, for example by fewer items a page, or a filter.")
            return ToolResult.error("invalid_output", f"{limit}, so it can't be shown. It was done ({answer.status}).")
        if self.operation.method == "HEAD":
            lines = [f"{key}: {value}" for key, value in answer.headers.items()]
            return ToolResult(self._redact("\n".join([self._status(), *lines]), 20_000))
        if not answer.content.strip():
            return ToolResult(f"{self._status()}, without content")
        return self._content()

    def _content(self) -> ToolResult:
        answer, declared = self.answer, self.answer.headers.get("content-type", "")
        kind, content = plain_type(declared), answer.content
        if _is_json(kind):
            return self._json()
        if kind.startswith(("image/", "audio/")) and not is_text_type(kind):
            found = media_type(content, kind)
            if found.startswith("image/"):
                return ToolResult(ImageContent(content, found))
            if found.startswith("audio/"):
                return ToolResult(AudioContent(content, found))
        found = kind if is_text_type(kind) else media_type(content, kind)
        if found == "text/html" and not self._may_be_html():
            return self._mismatch("an HTML page" + self._title())
        if is_text_type(found):
            return ToolResult(self._redact(self._text()))
        return ToolResult(FileContent(self.operation.server + self.operation.path, content, found))

    def _json(self) -> ToolResult:
        from jiter import from_json

        text = self._text()
        try:
            data: Any = from_json(text.encode(), allow_inf_nan=False)
            compact = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
            if (redacted := self._redact(compact)) != compact:  # secrets that the server has escaped are plain now
                compact, data = redacted, from_json(redacted.encode())
        except (ValueError, RecursionError):
            if text.lstrip().startswith("<"):
                return self._mismatch("an HTML page" + self._title())
            return self._mismatch("something else")
        return ToolResult(compact, data)

    def _may_be_html(self) -> bool:
        """Whether the document describes answers in HTML, or no media type of answers."""
        media = self.operation.media
        return not media or any("html" in each or "*" in each for each in media)

    def _mismatch(self, what: str) -> ToolResult:
        done = "" if self.operation.method in SAFE else " It may have taken effect."
        text = f"{self.operation.name}: the server answered {what} instead of what its document says.{done}"
        return ToolResult.error("invalid_output", text, detail=self._redact(self._text(), _MOST_ERROR))

    def _title(self) -> str:
        found = _TITLE.search(self._text()[:100_000])
        title = " ".join(found[1].split()) if found else ""
        return f" ({self._redact(title, 200)!r})" if title else ""

    def _failure(self) -> ToolError:
        """The error of an answer that isn't a success."""
        answer, operation = self.answer, self.operation
        kind = plain_type(answer.headers.get("content-type", ""))
        if kind == "text/html" or answer.content.lstrip()[:1] == b"<":
            words = f"an HTML page{self._title()}"
        elif is_text_type(kind) or not kind:
            words = self._redact(self._text().strip(), _MOST_ERROR)
        else:
            words = ""
        text = f"{operation.name} failed: {self._status()}" + (f": {words}" if words else "")
        hint = None
        if answer.status in (401, 403) and operation.security and not self.has_credentials:
            hint = f"No credentials for {' or '.join(sorted({n for g in operation.security for n in g}))!r} are set up."
        statuses = _RETRYABLE | _RETRYABLE_IF_IDEMPOTENT if operation.method in IDEMPOTENT else _RETRYABLE
        retryable = answer.status in statuses
        after = retry_after(answer.headers.get("retry-after")) if retryable else None
        return ToolError(text, retryable=retryable, retry_after=after, hint=hint)

    def _status(self) -> str:
        return self._redact(f"{self.answer.status} {self.answer.reason}".strip(), 200)

    def _text(self) -> str:
        answer = self.answer
        charset = _CHARSET.search(answer.headers.get("content-type", ""))
        try:
            return answer.content.decode(charset[1] if charset and answer.content[:1] != b"\xef" else "utf-8-sig")
        except (LookupError, ValueError):
            return answer.content.decode(errors="replace")

    def _redact(self, text: str, most: int | None = None) -> str:
        """A text without secrets, not longer than so many characters."""
        text = hide(text, self.secrets)
        return text if most is None or len(text) <= most else f"{text[:most]}..."


def _is_json(kind: str) -> bool:
    return kind.endswith(("/json", "+json"))


def retry_after(value: str | None) -> float | None:
    """The seconds of a `Retry-After` header, which has seconds or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), _MOST_WAIT) if seconds == seconds else None  # noqa: PLR0124  NaN
