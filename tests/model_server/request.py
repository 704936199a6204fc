"""`Request`: what a client sent."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from model_server.script import Json


@frozen
class Request:
    """One request, as it was read.

    Attributes:
        path: Without the query.
        query: What stands behind the `?`.
        headers: Names in lower case.
        body: The JSON body, parsed.
        streamed: Whether the client asked for a stream.
    """

    path: str
    query: str
    headers: Mapping[str, str]
    body: Json
    streamed: bool = False
