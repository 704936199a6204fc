"""Methods of generated SDKs, asked with a body."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from pegboard.errors import ModelError
from pegboard.request.client import Clients, SDKMethod, as_data


class Piece:
    """What the SDK makes of an event."""

    def __init__(self, data):
        self.data = data

    def to_dict(self, *, mode, warnings):
        assert (mode, warnings) == ("json", False)
        return self.data


class StatusError(Exception):
    """The SDK's, with the body that came."""

    def __init__(self, body=None):
        super().__init__("it failed")
        self.body = body


class Stream:
    """Gives its pieces, raises its error, and notes whether it was closed."""

    def __init__(self, *pieces, error=None):
        self.pieces, self.error, self.closed = pieces, error, False

    async def __aiter__(self):
        for piece in self.pieces:
            yield Piece(piece)
        if self.error is not None:
            raise self.error

    async def close(self):
        self.closed = True


class Client:
    """Gives an answer or raises it, and notes what it was asked with."""

    def __init__(self, answer=None):
        self.answer, self.asked = answer, None

    async def create(self, *, model, stream=False, extra_body=None):
        return self._answer(model=model, stream=stream, extra_body=extra_body)

    async def create_any(self, **body):
        return self._answer(**body)

    def _answer(self, **body):
        self.asked = body
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def asked(client, method=Client.create):
    """The method of a client."""
    return SDKMethod(
        Clients(client, None, lambda made: made.close()),
        method.__get__,
        lambda error: ModelError(str(error), provider="p"),
        lambda body: {"type": "error", **body},
    )


def events(client, body, most=None):
    """What came, and the error behind it."""

    async def main():
        came = []
        try:
            async with aclosing(asked(client).events(body)) as stream:
                async for event in stream:
                    came.append(event)
                    if len(came) == most:
                        break
        except ModelError as error:
            return came, error
        return came, None

    return asyncio.run(main())


def test_an_answer_is_the_data_that_came():
    client = Client(Piece({"text": "Hi."}))
    assert asyncio.run(asked(client).answer({"model": "m", "stream": True})) == {"text": "Hi."}
    assert client.asked == {"model": "m", "stream": False, "extra_body": None}


@pytest.mark.parametrize("data", [{"a": 1}, [1], "text", None])
def test_what_is_data_already_stays_as_it_is(data):
    assert as_data(data) is data


@pytest.mark.parametrize("given", [None, {"extra_body": {"brand_new": 2, "mine": 3}}])
def test_what_the_method_has_no_parameter_for_goes_beside(given):
    client = Client({})
    asyncio.run(asked(client).answer({"model": "m", "brand_new": 1, **(given or {})}))
    assert client.asked["extra_body"] == ({"brand_new": 2, "mine": 3} if given else {"brand_new": 1})


def test_a_method_that_takes_anything_gets_the_whole_body():
    client = Client({})
    asyncio.run(asked(client, Client.create_any).answer({"model": "m", "brand_new": 1}))
    assert client.asked == {"model": "m", "brand_new": 1}


def test_an_error_in_place_of_an_answer_is_a_model_error():
    client = Client(StatusError())
    with pytest.raises(ModelError, match="p: it failed") as caught:
        asyncio.run(asked(client).answer({"model": "m"}))
    assert caught.value.__cause__ is client.answer
    came, error = events(client, {"model": "m"})
    assert (came, error.__cause__) == ([], client.answer)


def test_an_answer_that_cannot_be_said_is_a_model_error():
    class Deep:
        def to_dict(self, **how):
            raise ValueError("nested too deep")

    with pytest.raises(ModelError, match="nested too deep"):
        asyncio.run(asked(Client(Deep())).answer({"model": "m"}))


def test_a_stream_is_read_to_its_end_and_closed():
    stream = Stream({"a": 1}, {"b": 2})
    client = Client(stream)
    assert events(client, {"model": "m"}) == ([{"a": 1}, {"b": 2}], None)
    assert (client.asked["stream"], stream.closed) == (True, True)


def test_a_stream_that_is_left_is_closed():
    stream = Stream({"a": 1}, {"b": 2})
    assert events(Client(stream), {"model": "m"}, most=1) == ([{"a": 1}], None)
    assert stream.closed


@pytest.mark.parametrize("body", [None, "<html>", [1]])
def test_a_stream_that_breaks_off_raises(body):
    stream = Stream({"a": 1}, error=StatusError(body))
    came, error = events(Client(stream), {"model": "m"})
    assert (came, str(error), error.__cause__) == ([{"a": 1}], "p: it failed", stream.error)
    assert stream.closed


def test_an_error_that_the_provider_said_is_an_event_before_it_is_raised():
    stream = Stream({"a": 1}, error=StatusError({"message": "busy"}))
    came, error = events(Client(stream), {"model": "m"})
    assert came == [{"a": 1}, {"type": "error", "message": "busy"}]
    assert error.__cause__ is stream.error
    assert stream.closed
