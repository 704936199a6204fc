"""`StreamEnd`: how a stream ended, and what that makes of the answer."""

from __future__ import annotations

from typing import Final

from attrs import define

from pegboard.messages.response import ModelResponse
from pegboard.tools.call import writable

EARLY: Final = "the stream ended without its end mark"
TOO_LONG: Final = "more came than is read of an answer"
NO_WORDS: Final = "the provider answered with an error"
_MOST_SHOWN: Final = 2_000


@define(eq=False)
class StreamEnd:
    """How a stream ended.

    Attributes:
        reached: Whether its end mark came.
        error: Whether it said an error.
        code: The provider's word for it, or `None`.
        message: Its text, or `None`.
    """

    reached: bool = False
    error: bool = False
    code: str | None = None
    message: str | None = None

    def failed(self, code: str | None, message: str | None) -> None:
        """The stream has said an error; the first one counts."""
        if not self.error:
            self.error, self.code = True, code
            self.message = writable(message or NO_WORDS)[:_MOST_SHOWN]

    def of(self, response: ModelResponse, broken: str | None, *, spent: bool) -> ModelResponse:
        """The answer, marked where it isn't whole.

        Args:
            response: All that has come.
            broken: Why the stream ended early, or `None`.
            spent: Whether there was more than is read.
        """
        if self.error:
            return response.evolve(
                finish_reason="error",
                complete=False,
                interrupted=not self.reached,
                error_code=self.code,
                error_message=self.message,
            )
        if broken is not None or not self.reached:
            # What cut an answer off is worth more than that its end was lost, too.
            reason = "other" if response.finish_reason in ("stop", "tool_calls") else response.finish_reason
            why = broken or response.error_message or EARLY
            return response.evolve(finish_reason=reason, complete=False, interrupted=True, error_message=writable(why))
        if spent:
            return response.evolve(finish_reason="length", complete=False, error_message=TOO_LONG)
        return response


__all__ = ["EARLY", "NO_WORDS", "TOO_LONG", "StreamEnd"]
