"""What clients share; that models over an SDK keep to it, the contract of the vendors' packages holds."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest

from pegboard import ModelRequest, ToolRegistry
from pegboard.errors import ModelError
from pegboard.messages import ModelResponse, ReasoningPart, TextDelta
from pegboard_clients.client import Clients, ProviderModel, SDKMethod, streamed


class Client:
    """Notes whether it was closed."""

    def __init__(self):
        self.closed = 0

    async def close(self):
        self.closed += 1


def clients(first=None, again=Client):
    return Clients(first or Client(), again, Client.close)


async def now(of):
    return of.now()


def test_a_new_client_is_made_after_closing():
    of = clients()

    async def main():
        before = of.now()
        await of.aclose()
        return before, of.now()

    before, after = asyncio.run(main())
    assert (before.closed, after.closed, before is after) == (1, 0, False)


def test_the_client_of_another_loop_is_left_to_it():
    of = clients()
    asyncio.run(now(of))
    asyncio.run(of.aclose())
    assert of.first.closed == 0


def test_clients_of_loops_that_are_gone_are_forgotten():
    of = clients()
    for _ in range(5):
        asyncio.run(now(of))
    gc.collect()
    assert len(of._of_loop) == 0


def test_loops_in_threads_never_share_one():
    of, begin = clients(), threading.Barrier(8)

    def work(_):
        begin.wait()
        return asyncio.run(now(of))

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(work, range(8)))) == 8


class Broken(ProviderModel):
    """Raises an error instead of sending anything."""

    def __init__(self, error):
        super().__init__("m", ToolRegistry().exporter("openai"))
        self.error = error

    async def aclose(self):
        """Nothing is open."""

    async def _answer(self, body):
        raise self.error

    async def _models(self):
        raise self.error

    async def _events(self, body):
        raise self.error
        yield


@pytest.mark.parametrize("ask", [lambda model: model.respond(ModelRequest("Hi")), lambda model: model.models()])
@pytest.mark.parametrize("error", [OSError("lost"), ModelError("said by the provider", provider="p")])
def test_a_model_converts_what_its_client_raises(ask, error):
    with pytest.raises(ModelError) as caught:
        asyncio.run(ask(Broken(error)))
    assert caught.value is error or (caught.value.retryable and caught.value.__cause__ is error)


class Reader:
    """Each chunk is a piece of text."""

    def __init__(self):
        self.texts = []

    def feed(self, chunk):
        self.texts.append(chunk["text"])
        return [TextDelta(chunk["text"])]

    def response(self, *, broken=None):
        return ModelResponse("".join(self.texts), interrupted=broken is not None, error_message=broken)


class StreamStreaming:
    """Chunks, and what breaks it off; tells whether it was closed."""

    def __init__(self, *texts, error=None):
        self.texts, self.error, self.closed = texts, error, False

    async def chunks(self):
        try:
            for text in self.texts:
                yield {"text": text}
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


def read(chunks, *broken_by, reader=None, **facts):
    async def gathered():
        return [each async for each in streamed(chunks, reader or Reader(), *broken_by, **facts)]

    return asyncio.run(gathered())


def test_a_stream_without_a_chunk_is_an_answer_too():
    assert read(StreamStreaming().chunks()) == [ModelResponse("")]


class Silent(Reader):
    """However much comes, nothing is said."""

    def __init__(self, **facts):
        self.facts = facts

    def feed(self, chunk):
        return []

    def response(self, *, broken=None):
        return ModelResponse(ReasoningPart("Hm."), **self.facts)


@pytest.mark.parametrize("error", [ModelError("overloaded"), OSError("reset")])
def test_an_error_before_the_first_text_is_raised(error):
    with pytest.raises(type(error)) as caught:
        read(StreamStreaming("a", error=error).chunks(), OSError, reader=Silent(interrupted=True))
    assert caught.value is error


@pytest.mark.parametrize(("said", "text"), [(None, "ended without an answer"), ("no end mark", "no end mark")])
def test_a_stream_that_ends_early_and_without_a_word_may_be_tried_again(said, text):
    with pytest.raises(ModelError, match=f"^p: .*{text}$") as caught:
        read(StreamStreaming("a").chunks(), reader=Silent(interrupted=True, error_message=said), provider="p")
    assert (caught.value.provider, caught.value.retryable) == ("p", True)


@pytest.mark.parametrize("facts", [{}, {"interrupted": True, "finish_reason": "error"}])
def test_an_answer_of_thoughts_and_one_that_says_its_error_are_answers(facts):
    assert read(StreamStreaming("a").chunks(), reader=Silent(**facts)) == [ModelResponse(ReasoningPart("Hm."), **facts)]


def test_what_doesnt_break_a_stream_is_a_fault_and_is_passed_on():
    with pytest.raises(ZeroDivisionError):
        read(StreamStreaming("a", error=ZeroDivisionError()).chunks(), OSError)


class SdkStream:
    """Gives one event, then ends or raises; notes whether it was closed."""

    def __init__(self, error=None):
        self.error, self.closed = error, False

    async def __aiter__(self):
        yield {"a": 1}
        if self.error is not None:
            raise self.error

    async def close(self):
        self.closed = True


@pytest.mark.parametrize(("error", "most"), [(None, 1), (None, None), (OSError("lost"), None)])
def test_the_stream_of_an_sdk_is_closed_however_it_ends(error, most):
    stream = SdkStream(error)

    async def create(**body):
        assert body == {"m": "x", "stream": True}
        return stream

    async def main():
        asked = SDKMethod(clients(again=None), lambda _client: create, lambda error: ModelError(str(error)), dict)
        async with aclosing(asked.events({"m": "x"})) as events:
            async for event in events:
                assert event == {"a": 1}
                if most:
                    break

    if error is None:
        asyncio.run(main())
    else:
        with pytest.raises(ModelError, match="lost"):
            asyncio.run(main())
    assert stream.closed
