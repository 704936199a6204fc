"""`Format`: a provider's words, for the server that speaks them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

import jmespath

from fake_vendors.rules.rules import received_faults
from fake_vendors.server.script import Error, Json, RefusedError, Reply, Request, need, sse


def _names(where: str, body: Json) -> list[str]:
    found = jmespath.search(where, body)
    return [name for name in (found if isinstance(found, list) else [found]) if name]


class Format(ABC):
    """One wire format, with what it remembers of one conversation with one server.

    Args:
        undeclared_calls: Whether the history may hold calls of tools that are no longer declared.

    Attributes:
        exporter: The name of the exporter that writes it, by which its rules are known.
        declared: Where the names of the tools stand that a sound request declares, as JMESPath.
        called: The same of the tools that its history calls.
        chosen: The same of the tools that the model must call, or may call of those declared.
        required: Members that a body must have.
        credentials: The headers of which one must be there.
        needs_tools: Whether a history with calls wants tools to be declared.
        content_type: Of a stream.
        end: What follows a stream's last event.
    """

    exporter: ClassVar[str]
    declared: ClassVar[str]
    called: ClassVar[str]
    chosen: ClassVar[str]
    required: ClassVar[tuple[str, ...]] = ("model", "messages")
    credentials: ClassVar[tuple[str, ...]] = ("authorization",)
    needs_tools: ClassVar[bool] = False
    content_type: ClassVar[str] = "text/event-stream; charset=utf-8"
    end: ClassVar[bytes] = b""

    def __init__(self, *, undeclared_calls: bool = False) -> None:
        self._undeclared_calls = undeclared_calls
        self._invented: set[str] = set()
        self._raw_played = False

    def streamed(self, path: str, body: Json) -> bool:
        """Whether the client asks for a stream."""
        return isinstance(body, dict) and body.get("stream") is True

    def check(self, request: Request) -> None:
        """Judges a request.

        Raises:
            RefusedError: It breaks a rule.
        """
        self.authorise(request)
        body = request.body
        need(isinstance(body, dict), "the body must be an object")
        missing = [name for name in self.required if not body.get(name)]
        need(not missing, f"Missing required parameter: {', '.join(map(repr, missing))}")
        try:
            faults = received_faults(self.exporter, body)
        except (AttributeError, KeyError, TypeError, RecursionError) as error:  # what a rule counts on isn't there
            faults = [f"the request can't be read: {error!r}"]
        need(not faults, "; ".join(faults[:3]))
        called, declared = _names(self.called, body), _names(self.declared, body)
        for name in called:
            known = name in declared or name in self._invented or self._undeclared_calls or self._raw_played
            need(known, f"the history calls the tool '{name}', which the request does not declare")
        need(declared or not called or not self.needs_tools, "requests with calls or results must define tools")
        for name in _names(self.chosen, body):
            need(name in declared, f"tool choice: the tool '{name}' is not declared")

    def authorise(self, request: Request) -> None:
        """Refuses a request that has none of the headers for credentials."""
        if not any(request.headers.get(name) for name in self.credentials):
            names = ", ".join(self.credentials)
            raise RefusedError(f"Missing credentials: one of the headers {names} is required", status=401)

    @abstractmethod
    def body(self, reply: Reply) -> Json:
        """The answer in one piece."""

    @abstractmethod
    def events(self, reply: Reply) -> Iterator[Json]:
        """The answer as events."""

    @abstractmethod
    def error_body(self, error: Error) -> Json:
        """An error in the provider's shape."""

    def error_headers(self, error: Error) -> dict[str, str]:
        """The headers that come with an error."""
        return {} if error.retry_after is None else {"retry-after": f"{error.retry_after:g}"}

    def headers(self, number: int) -> Mapping[str, str]:
        """The headers of every answer."""
        return {"x-request-id": f"req_{number}"}

    def frame(self, event: Json) -> bytes:
        """An event as bytes."""
        return sse(event)

    def error_frame(self, error: Error) -> bytes:
        """An error inside a stream as bytes."""
        return self.frame(self.error_body(error))

    def remember(self, reply: Reply) -> None:
        """Takes notes of the tools that the model made up: calls of them may come back.

        What a raw round brought isn't read: names that are unknown may have come from there.
        """
        self._raw_played |= reply.round.raw is not None
        names = {call.name for call in reply.round.calls}
        self._invented |= names.difference(_names(self.declared, reply.request.body))
