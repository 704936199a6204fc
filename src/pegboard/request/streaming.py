"""`streamed`: a provider's stream, read piece by piece to a whole response, also where it breaks off."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from typing import Any

from pegboard.errors import ModelError
from pegboard.messages.message import ReasoningPart
from pegboard.messages.response import Delta, ModelResponse
from pegboard.request.exporter import ResponseReader


async def streamed(
    chunks: AsyncIterable[Mapping[str, Any]], reader: ResponseReader, *broken_by: type[Exception], provider: str = ""
) -> AsyncGenerator[Delta | ModelResponse]:
    """Pieces as they come, and last the response; what a broken stream has brought is not lost.

    Where a stream breaks off before the model has said anything (thoughts are nothing said), there is nothing to lose,
    and another attempt may do better: then the error is raised. A `ModelError` may come behind the event in which the
    provider says it; it knows more than the event does.

    Args:
        chunks: The provider's events, as JSON data.
        reader: The exporter's.
        broken_by: What else than `ModelError` the provider's client raises where a stream breaks off.
        provider: The provider's name, for an error of a stream that ends without one.

    Raises:
        ModelError: The provider answered with an error instead of words, or the stream ended without any.
    """
    begun, broken = False, None
    try:
        async for chunk in chunks:
            begun = True
            for delta in reader.feed(chunk):
                yield delta
    except (ModelError, *broken_by) as error:
        if not begun:
            raise
        broken = error
    finally:  # whoever reads may leave in the middle
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
    response = reader.response(broken=None if broken is None else f"{type(broken).__name__}: {broken}")
    if all(isinstance(part, ReasoningPart) for part in response.parts):
        _check_ended(response, broken, provider)
    yield response


def _check_ended(response: ModelResponse, broken: Exception | None, provider: str) -> None:
    """Checks that an answer without a word is one: that its stream came to its end."""
    if broken is not None:
        raise broken
    if response.interrupted and response.finish_reason != "error":
        message = response.error_message or "the stream ended without an answer"
        raise ModelError(message, provider=provider, retryable=True)


__all__ = ["streamed"]
