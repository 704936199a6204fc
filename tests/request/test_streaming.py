from __future__ import annotations

import asyncio

import pytest

from pegboard.errors import ModelError
from pegboard.messages.message import ReasoningPart
from pegboard.messages.response import ModelResponse, TextDelta
from pegboard.request.client import streamed


class Reader:
    """Each chunk is a piece of text."""

    def __init__(self):
        self.texts = []

    def feed(self, chunk):
        self.texts.append(chunk["text"])
        return [TextDelta(chunk["text"])]

    def response(self, *, broken=None):
        return ModelResponse("".join(self.texts), interrupted=broken is not None, error_message=broken)


class Stream:
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


class Plain:
    """An async iterable that can't be closed, as some clients give."""

    def __init__(self, *texts):
        self.texts = list(texts)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.texts:
            raise StopAsyncIteration
        return {"text": self.texts.pop(0)}


def read(chunks, *broken_by, reader=None, **facts):
    async def gathered():
        return [each async for each in streamed(chunks, reader or Reader(), *broken_by, **facts)]

    return asyncio.run(gathered())


@pytest.mark.parametrize("chunks", [Stream("a", "b").chunks, lambda: Plain("a", "b")])
def test_pieces_come_as_they_come_and_the_whole_last(chunks):
    assert read(chunks()) == [TextDelta("a"), TextDelta("b"), ModelResponse("ab")]


def test_a_stream_without_a_chunk_is_an_answer_too():
    assert read(Stream().chunks()) == [ModelResponse("")]


@pytest.mark.parametrize("error", [ModelError("overloaded"), OSError("reset")])
def test_what_a_broken_stream_has_brought_isnt_lost(error):
    *pieces, response = read(Stream("a", error=error).chunks(), OSError)
    assert pieces == [TextDelta("a")]
    assert (response.text, response.interrupted) == ("a", True)
    assert response.error_message == f"{type(error).__name__}: {error}"


class Silent(Reader):
    """However much comes, nothing is said."""

    def __init__(self, **facts):
        self.facts = facts

    def feed(self, chunk):
        return []

    def response(self, *, broken=None):
        return ModelResponse(ReasoningPart("Hm."), **self.facts)


@pytest.mark.parametrize("error", [ModelError("overloaded"), OSError("reset")])
def test_an_error_before_a_word_was_said_is_passed_on(error):
    with pytest.raises(type(error)) as caught:
        read(Stream("a", error=error).chunks(), OSError, reader=Silent(interrupted=True))
    assert caught.value is error


@pytest.mark.parametrize(("said", "text"), [(None, "ended without an answer"), ("no end mark", "no end mark")])
def test_a_stream_that_ends_early_and_without_a_word_may_be_tried_again(said, text):
    with pytest.raises(ModelError, match=f"^p: .*{text}$") as caught:
        read(Stream("a").chunks(), reader=Silent(interrupted=True, error_message=said), provider="p")
    assert (caught.value.provider, caught.value.retryable) == ("p", True)


@pytest.mark.parametrize("facts", [{}, {"interrupted": True, "finish_reason": "error"}])
def test_an_answer_of_thoughts_and_one_that_says_its_error_are_answers(facts):
    assert read(Stream("a").chunks(), reader=Silent(**facts)) == [ModelResponse(ReasoningPart("Hm."), **facts)]


@pytest.mark.parametrize("error", [ModelError("overloaded"), OSError("reset")])
def test_an_error_in_place_of_a_stream_is_passed_on(error):
    with pytest.raises(type(error)):
        read(Stream(error=error).chunks(), OSError)


def test_what_doesnt_break_a_stream_is_a_fault_and_is_passed_on():
    with pytest.raises(ZeroDivisionError):
        read(Stream("a", error=ZeroDivisionError()).chunks(), OSError)


def test_whoever_leaves_in_the_middle_closes_the_stream():
    stream = Stream("a", "b")

    async def leave():
        pieces = streamed(stream.chunks(), Reader())
        assert await anext(pieces) == TextDelta("a")
        assert not stream.closed
        await pieces.aclose()
        return stream.closed

    assert asyncio.run(leave())
