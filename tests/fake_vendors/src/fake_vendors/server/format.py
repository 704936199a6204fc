"""`Format`: a provider's words, for the server that speaks them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

from fake_vendors.server.script import Error, Json, RefusedError, Reply, Request, need, sse


class Format(ABC):
    """One wire format, with what it remembers of one conversation with one server.

    Args:
        undeclared_calls: Whether the history may hold calls of tools that are no longer declared.

    Attributes:
        content_type: Of a stream.
        end: What follows a stream's last event.
    """

    content_type: ClassVar[str] = "text/event-stream; charset=utf-8"
    end: ClassVar[bytes] = b""

    def __init__(self, *, undeclared_calls: bool = False) -> None:
        self._undeclared_calls = undeclared_calls
        self._invented: set[str] = set()
        self._raw_played = False

    def streamed(self, path: str, body: Json) -> bool:
        """Whether the client asks for a stream."""
        return isinstance(body, dict) and body.get("stream") is True

    @abstractmethod
    def check(self, request: Request) -> None:
        """Judges a request.

        Raises:
            RefusedError: It breaks a rule.
        """

    @abstractmethod
    def declared(self, body: Json) -> set[str]:
        """The names of the tools that a checked request declares."""

    @abstractmethod
    def body(self, reply: Reply) -> Json:
        """The answer in one piece."""

    @abstractmethod
    def events(self, reply: Reply) -> Iterator[Json]:
        """The answer as events."""

    @abstractmethod
    def error_body(self, error: Error) -> Json:
        """An error in the provider's shape."""

    def refusal_body(self, refused: RefusedError) -> Json:
        """A refusal in the provider's shape."""
        return self.error_body(Error(refused.status, refused.message))

    def error_headers(self, error: Error) -> dict[str, str]:
        """The headers that come with an error."""
        return {} if error.retry_after is None else {"retry-after": f"{error.retry_after:g}"}

    def refusal_headers(self, refused: RefusedError) -> dict[str, str]:
        """The headers that come with a refusal."""
        return self.error_headers(Error(refused.status, refused.message))

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
        """Takes notes of what the next request has to bring back.

        What a raw round brought isn't read: names and signatures that are unknown may have come from there.
        """
        self._raw_played |= reply.round.raw is not None
        names = {call.name for call in reply.round.calls}
        self._invented |= names - self.declared(reply.request.body)

    def need_declared(self, name: str, declared: set[str], where: str) -> None:
        """Refuses a call in the history of a tool that isn't declared, unless a round made up the name."""
        if name in declared or name in self._invented or self._undeclared_calls or self._raw_played:
            return
        raise RefusedError(
            f"{where}: the history calls the tool '{name}', which the request does not declare", param=where
        )


def authorised(request: Request, *names: str) -> None:
    """Refuses a request that has none of these headers."""
    if not any(request.headers.get(name) for name in names):
        raise RefusedError(f"Missing credentials: one of the headers {', '.join(names)} is required", status=401)


def same_json(one: Json, other: Json) -> bool:
    """Whether two JSON values are the same, whatever the order of their keys."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def choice_declared(name: Json, declared: set[str], where: str) -> None:
    """Refuses a tool choice that names a tool that isn't declared."""
    need(
        isinstance(name, str) and name in declared,
        f"Invalid value for '{where}': the tool '{name}' is not declared",
        param=where,
    )
