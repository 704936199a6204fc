"""Models that have nothing but a carrier of their own."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from fake_vendors.rules.exporters import EXPORTERS
from pegboard import ModelRequest
from pegboard.errors import ModelError
from pegboard.messages.response import TextDelta
from pegboard.request.client import ProviderModel
from pegboard.request.model import can_stream

ANSWER = {"choices": [{"message": {"content": "It rains."}, "finish_reason": "stop"}]}
PIECES = [
    {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]}
    for text, reason in [("It ", None), ("rains.", "stop")]
]
HI = ModelRequest("Hi")


class Carried(ProviderModel):
    """Answers from memory, and notes what it was asked and whether its stream was closed."""

    def __init__(self, events=()):
        super().__init__("m", EXPORTERS["openai"]())
        self.events, self.bodies, self.ended = events, [], False

    async def aclose(self):
        pass

    async def _answer(self, body):
        self.bodies.append(body)
        return ANSWER

    async def _events(self, body):
        self.bodies.append(body)
        try:
            for event in self.events:
                yield event
        finally:
            self.ended = True


async def pieces_of(model):
    return [piece async for piece in model.stream(HI)]


def test_a_request_is_written_carried_and_the_answer_read():
    model = Carried()
    assert asyncio.run(model.respond(HI)).text == "It rains."
    [body] = model.bodies
    assert (body["model"], body["messages"]) == ("m", [{"role": "user", "content": "Hi"}])


def test_a_request_may_name_another_model():
    model = Carried()
    asyncio.run(model.respond(HI.evolve(model="other")))
    assert model.bodies[0]["model"] == "other"


def test_a_stream_comes_in_pieces_and_last_as_a_whole():
    *pieces, whole = asyncio.run(pieces_of(Carried(PIECES)))
    assert pieces == [TextDelta("It "), TextDelta("rains.")]
    assert (whole.text, whole.complete) == ("It rains.", True)


def test_a_stream_without_a_word_is_an_error_of_the_provider():
    with pytest.raises(ModelError, match=r"^openai: .*without its end mark") as caught:
        asyncio.run(pieces_of(Carried()))
    assert (caught.value.provider, caught.value.retryable) == ("openai", True)


def test_a_stream_that_is_left_is_closed():
    async def main():
        model = Carried(PIECES)
        async with aclosing(model.stream(HI)) as pieces:
            await anext(pieces)
            assert not model.ended
        return model.ended

    assert asyncio.run(main())


def test_it_names_itself():
    model = Carried()
    assert (model.name, model.provider, repr(model)) == ("m", "openai", "Carried('m', provider='openai')")
    assert model.exporter.name == model.provider
    assert model.loads_deferred is False
    assert can_stream(model)
