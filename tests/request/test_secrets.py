"""What errors and answers don't show."""

from __future__ import annotations

import asyncio
import traceback

import pytest

from pegboard.errors import ModelError
from pegboard.messages.response import ModelResponse, TextDelta
from pegboard.request.client import Secrets, secrets_in

KEY = "sk-very-secret"
SECRETS = Secrets(lambda: [KEY])


def raised(error, cause=None):
    """The error as it leaves the block."""
    with pytest.raises(ModelError) as caught, SECRETS.kept():
        raise error from cause
    assert caught.value is error
    return error


def test_an_error_shows_none_in_any_of_its_texts():
    error = raised(ModelError(f"no {KEY}", provider="p", code=f"c-{KEY}", request_id=f"r-{KEY}"))
    assert (str(error), error.code, error.request_id) == ("p: no ***", "c-***", "r-***")
    assert KEY not in repr(error)


def test_a_cause_that_shows_none_is_kept():
    cause = OSError("lost")
    assert raised(ModelError("no"), cause).__cause__ is cause


@pytest.mark.parametrize("depth", [1, 3])
def test_a_cause_that_shows_one_is_let_go_however_deep_it_is(depth):
    cause = OSError(f"Bearer {KEY}")
    for _ in range(depth):
        outer = ValueError("broken")
        outer.__cause__ = cause
        cause = outer
    error = raised(ModelError("no"), cause)
    assert error.__cause__ is error.__context__ is None
    assert KEY not in "".join(traceback.format_exception(error))


def test_one_that_was_being_handled_is_let_go_as_well():
    def fail():
        try:
            int(KEY)
        except ValueError:
            raise ModelError("no")  # noqa: B904  that is the case

    with pytest.raises(ModelError) as caught, SECRETS.kept():
        fail()
    assert caught.value.__context__ is None


def test_other_errors_pass():
    with pytest.raises(KeyError), SECRETS.kept():
        raise KeyError("a")


def test_the_error_of_a_response_shows_none():
    shown = SECRETS.kept_from(ModelResponse("Hi", error_message=f"no {KEY}"))
    assert (shown.error_message, shown.text) == ("no ***", "Hi")
    response = ModelResponse(f"Hi {KEY}")
    assert SECRETS.kept_from(response) is response


def test_a_stream_shows_none_and_is_closed():
    closed = []

    async def pieces():
        try:
            yield TextDelta("Hi")
            yield ModelResponse("Hi", error_message=KEY)
            raise ModelError(KEY)
        finally:
            closed.append(True)

    async def main():
        came = []
        try:
            async for piece in SECRETS.kept_from_all(pieces()):
                came.append(piece)  # noqa: PERF401  what came before the error counts
        except ModelError as error:
            came.append(str(error))
        return came

    delta, response, error = asyncio.run(main())
    assert (delta, response.error_message, error, closed) == (TextDelta("Hi"), "***", "***", [True])


def test_headers_of_credentials_are_secret():
    headers = {"Authorization": "Bearer abc", "X-Api-Key": 7, "x-goog-api-key": "k", "accept": "all"}
    assert secrets_in(headers) == ["Bearer abc", "abc", "k", ""]
