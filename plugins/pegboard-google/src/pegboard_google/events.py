"""`Events`: a stream of the SDK's as data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import frozen

from pegboard.typing import JsonObject
from pegboard_google.errors import body_of, model_error

if TYPE_CHECKING:
    from google.genai import Client


@frozen
class Events:
    """A stream on its way.

    Attributes:
        client: Who is asked.
        arguments: The keywords of the SDK's method.
        provider: For errors.
    """

    client: Client
    arguments: JsonObject
    provider: str

    async def data(self) -> AsyncGenerator[JsonObject]:
        """The chunks as JSON data; an error that the provider says among them is one as well, before it is raised.

        Raises:
            ModelError: The provider can't be asked, or answered with an error; or the stream broke off.
        """
        try:
            chunks = await methods(self.client).generate_content_stream(**self.arguments)
            try:
                async for chunk in chunks:
                    yield as_data(chunk)
            finally:
                await _hang_up(chunks)
        except Exception as error:
            body = body_of(error)
            if "error" in body:
                yield {"error": body["error"]}
            raise model_error(error, self.provider) from error


def methods(client: Client) -> Any:
    """The SDK's methods, whose annotations name packages that needn't be there."""
    return client.aio.models


def as_data(answer: Any) -> JsonObject:
    """What the SDK gives, as the JSON data that came."""
    return answer.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)


async def _hang_up(chunks: AsyncIterator[Any]) -> None:
    """Closes the connection of a stream that may have been left in the middle.

    The SDK's generators hold each other in a circle: closing the outermost leaves the connection open until garbage is
    collected. But one that is cancelled while it reads closes it at once. So the stream reads on, and is cancelled.
    """
    reading = asyncio.ensure_future(_read_out(chunks))
    try:
        await asyncio.sleep(0)  # until it waits for the provider
    finally:
        reading.cancel()
        await asyncio.wait([reading])


async def _read_out(chunks: AsyncIterator[Any]) -> None:
    with suppress(Exception):
        async for _ in chunks:
            pass


__all__ = ["Events", "as_data", "methods"]
