"""The search services that are built in: SearXNG, Brave and Tavily."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from pegboard import ToolError
from pegboard.errors import PegboardError, hide
from pegboard.json import is_array, is_object
from pegboard.threads import run_in_thread
from pegboard_web.search import SearchResult
from pegboard_web.settings import Backend, SearchSettings

if TYPE_CHECKING:
    import httpx2

    from pegboard_web.http import Answer

_MOST_ANSWER: Final = 4_000_000
_MOST_SHOWN: Final = 500  # characters of an answer, for the operator
_TELL: Final = "Continue without web_search, or tell the user."


class SearchError(PegboardError):
    """Why a search failed, for the operator."""


@frozen(eq=False)
class Request:
    """A request to a service.

    Attributes:
        method: In upper case.
        url: The address.
        params: The query.
        headers: By name.
        json: The body.
    """

    method: str
    url: str
    params: Mapping[str, str] | None = None
    headers: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    json: Any = None


@frozen(eq=False)
class Service:
    """A search service, as its documentation says.

    Attributes:
        title: Its name for people.
        request: The request of a search: `(settings, query, most)`.
        path: Where its answer has the results.
        text: The name of a result's text.
        hints: What the operator has to do, by status.
    """

    title: str
    request: Callable[[SearchSettings, str, int], Request]
    path: tuple[str, ...]
    text: str
    hints: Mapping[int, str]


def _searxng(settings: SearchSettings, query: str, _most: int) -> Request:
    url = (settings.url or "").rstrip("/")
    return Request("GET", f"{url.removesuffix('/search')}/search", {"q": query, "format": "json"})


def _brave(settings: SearchSettings, query: str, most: int) -> Request:
    url = settings.url or "https://api.search.brave.com/res/v1/web/search"
    params = {"q": query, "count": str(most), "text_decorations": "false"}
    return Request("GET", url, params, {"x-subscription-token": settings.key or ""})


def _tavily(settings: SearchSettings, query: str, most: int) -> Request:
    url = settings.url or "https://api.tavily.com/search"
    body = {"query": query, "max_results": most}
    return Request("POST", url, headers={"authorization": f"Bearer {settings.key}"}, json=body)


_OF_KEYS: Final = {401: "the key is wrong", 403: "the key doesn't allow searches"}
SERVICES: Final[Mapping[Backend, Service]] = {
    "searxng": Service(
        "SearXNG",
        _searxng,
        ("results",),
        "content",
        {403: "add json to search.formats in its settings.yml", 429: "its limiter is on: see server.limiter there"},
    ),
    "brave": Service(
        "Brave", _brave, ("web", "results"), "description", {**_OF_KEYS, 422: "the key is wrong, or the request"}
    ),
    "tavily": Service("Tavily", _tavily, ("results",), "content", {**_OF_KEYS, 432: "the plan's limit is reached"}),
}


@frozen(eq=False)
class ServiceBackend:
    """A built-in service as a `SearchBackend`.

    Attributes:
        settings: Its settings.
    """

    settings: SearchSettings

    @property
    def service(self) -> Service:
        """The service of the settings."""
        return SERVICES[self.settings.backend]

    async def search(self, query: str, most: int) -> Sequence[SearchResult]:
        """The results of the service, in its order.

        Args:
            query: The words to search for.
            most: How many results are wanted.

        Raises:
            ToolError: The service can't be reached, refuses, or answers something else; the cause has the details.
        """
        client = await run_in_thread(_client, self.settings.proxy)
        import httpx2

        from pegboard_web.http import BodyError, read_answer

        request = self.service.request(self.settings, query, most)
        try:
            async with asyncio.timeout(self.settings.timeout), client:
                headers = {"accept": "application/json", **request.headers}
                options: dict[str, Any] = {"params": request.params, "headers": headers, "json": request.json}
                async with client.stream(request.method, request.url, **options) as response:
                    answer = await read_answer(response, _MOST_ANSWER)
        except TimeoutError as error:
            text = f"The search service didn't answer within {self.settings.timeout:g} s. Try again later."
            raise ToolError(text, retryable=True) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, BodyError, UnicodeError) as error:
            is_lost = isinstance(error, httpx2.TransportError)
            text = f"The search service can't be reached. {'Try again later.' if is_lost else _TELL}"
            cause = self._hide(f"{request.url}: {type(error).__name__}: {error}")
            raise ToolError(text, retryable=is_lost) from SearchError(cause)
        if not answer.is_success:
            error, cause = self._refusal(answer)
            raise error from cause
        return self._results(answer)

    def _refusal(self, answer: Answer) -> tuple[ToolError, SearchError]:
        """The errors of an answer that isn't a success, for the model and the operator."""
        from pegboard_clients.errors import retry_after

        status, title = answer.status, self.service.title
        again = answer.is_retryable
        words = {
            401: f"The search service doesn't accept the key (401). {_TELL}",
            403: f"The search service denies access (403). {_TELL}",
            429: "The search service limits how often it may be used (429). Try again later.",
        }
        other = f"The search service failed ({status}). {'Try again later.' if again else _TELL}"
        hint = self.service.hints.get(status)
        if 300 <= status < 400:
            hint = f"it redirects to {answer.headers.get('location', '')!r:.200}: set search.url to its new address"
        cause = f"{title} at {answer.url.host} answered {status}{f': {hint}' if hint else ''}"
        detail = self._hide(f"{cause}; {answer.content[:_MOST_SHOWN]!r}")
        wait = retry_after(answer.headers) if again else None
        return ToolError(words.get(status, other), retryable=again, retry_after=wait), SearchError(detail)

    def _results(self, answer: Answer) -> list[SearchResult]:
        """The results in an answer.

        Raises:
            ToolError: It isn't one of the service.
        """
        from jiter import from_json

        data: Any = None
        with suppress(ValueError):
            data = from_json(answer.content, allow_inf_nan=False)
        for key in self.service.path:
            data = data.get(key, [] if key == self.service.path[-1] else {}) if is_object(data) else None
        if not is_array(data):
            kind = answer.headers.get("content-type", "of no type")
            place = f"{self.service.title} at {answer.url.host}"
            detail = f"{place} answered something else ({kind:.80}): {answer.content[:_MOST_SHOWN]!r}"
            error = ToolError(f"The search service answered something else than results. {_TELL}")
            raise error from SearchError(self._hide(detail))
        return [
            SearchResult(each.get("title"), each.get("url"), each.get(self.service.text))
            for each in data
            if is_object(each)
        ]

    def _hide(self, text: str) -> str:
        return hide(text, [self.settings.key] if self.settings.key else [])


def _client(proxy: str | None) -> httpx2.AsyncClient:
    """A client; importing its library takes long."""
    from pegboard_web.http import service_client

    return service_client(proxy)
