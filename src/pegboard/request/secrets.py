"""`Secrets`: what errors and answers of a client must not show."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Final, TypeVar

from attrs import evolve, frozen

from pegboard.errors import ModelError
from pegboard.messages.response import ModelResponse
from pegboard.request.http_error import without_secrets

P = TypeVar("P")

_SECRET_HEADERS: Final = frozenset({"api-key", "authorization", "proxy-authorization", "x-api-key", "x-goog-api-key"})


@frozen
class Secrets:
    """The secrets of a client, and what they are kept out of: whatever an SDK, its transport or a server echoes.

    Attributes:
        known: Gives them; it is asked anew each time, as keys may be renewed.
    """

    known: Callable[[], Iterable[str]]

    @contextmanager
    def kept(self) -> Generator[None]:
        """A `ModelError` that leaves the block shows none, neither itself nor in the errors it is chained to."""
        try:
            yield
        except ModelError as error:
            self._keep_from(error)
            raise

    def kept_from(self, piece: P) -> P:
        """A response, or a piece of one, whose error shows none."""
        if isinstance(piece, ModelResponse) and piece.error_message:
            return evolve(piece, error_message=without_secrets(piece.error_message, self.known()))
        return piece

    async def kept_from_all(self, pieces: AsyncGenerator[P]) -> AsyncGenerator[P]:
        """The pieces of a stream, with both; closing it closes the stream.

        Raises:
            ModelError: As the stream does.
        """
        with self.kept():
            async with aclosing(pieces):
                async for piece in pieces:
                    yield self.kept_from(piece)

    def _keep_from(self, error: ModelError) -> None:
        """Mends the error in place. What it is chained to can't be mended: where that shows a secret, it is let go."""
        from traceback import format_exception

        known = list(self.known())
        error.args = tuple(without_secrets(str(each), known) for each in error.args)
        error.code = error.code and without_secrets(error.code, known)
        error.request_id = error.request_id and without_secrets(error.request_id, known)
        shown = "".join(format_exception(error, limit=0))
        if without_secrets(shown, known) != shown:
            error.__cause__ = error.__context__ = None


def secrets_in(headers: Mapping[str, Any]) -> list[str]:
    """What headers carry that are for credentials, with the scheme before it and without."""
    said = [value for name, value in headers.items() if name.lower() in _SECRET_HEADERS and isinstance(value, str)]
    return [part for value in said for part in (value, value.partition(" ")[2])]


__all__ = ["Secrets", "secrets_in"]
