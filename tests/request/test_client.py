"""Keys as headers can hold them."""

from __future__ import annotations

import asyncio
import gc
import threading
import traceback
from contextlib import aclosing

import pytest
from hypothesis import given, strategies as st

from fake_vendors.rules.exporters import EXPORTERS
from pegboard import ModelRequest
from pegboard.errors import ModelError
from pegboard.messages import ModelResponse, ReasoningPart, TextDelta
from pegboard.request.client import (
    LONGEST_MESSAGE,
    Clients,
    ProviderModel,
    SDKMethod,
    Secrets,
    as_data,
    check_alone,
    http_error,
    retry_after,
    secrets_in,
    streamed,
    usable_key,
    with_cause,
    without_secrets,
)
from pegboard.request.model_request import can_stream


@pytest.mark.parametrize("key", ["sk-secret", " sk-secret\r\n", "\tsk-secret\u00a0"])
def test_space_around_a_key_is_left_out(key):
    assert usable_key(key, "KEY", "p") == "sk-secret"


@pytest.mark.parametrize("key", ["", " \n"])
def test_nothing_but_space_is_no_key(key):
    assert usable_key(key, "KEY", "p") == ""


@pytest.mark.parametrize("key", ["sk-sec\nret", "sk-secret\0", "sk-secr\u00e9t", "sk-\udcffsecret", "\ufeffsk-secret"])
def test_a_key_that_no_header_can_hold_is_named_and_not_shown(key):
    with pytest.raises(ModelError, match=r"^p: the variable KEY holds characters") as caught:
        usable_key(key, "the variable KEY", "p")
    assert "sk-" not in str(caught.value)
    assert (caught.value.code, caught.value.retryable) == ("invalid_api_key", False)


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


def test_the_first_loop_gets_the_first_client_and_keeps_it():
    of = clients()

    async def main():
        assert of.now() is of.now() is of.first

    asyncio.run(main())


def test_a_further_loop_gets_a_client_of_its_own():
    of = clients()
    assert asyncio.run(now(of)) is of.first
    second, third = asyncio.run(now(of)), asyncio.run(now(of))
    assert len({of.first, second, third}) == 3


def test_a_client_that_was_given_serves_all_and_stays_open():
    of = clients(again=None)
    assert asyncio.run(now(of)) is asyncio.run(now(of)) is of.first
    asyncio.run(of.aclose())
    assert of.first.closed == 0


def test_one_is_made_only_where_none_was_given():
    given = Client()
    made = Clients.of(None, Client, Client.close)
    assert (Clients.of(given, Client, Client.close).first, made.again) == (given, Client)
    assert Clients.of(given, Client, Client.close).again is None
    assert isinstance(made.first, Client)


def test_nothing_that_would_go_unheard_is_said_beside_a_client():
    check_alone(None, {"key": "x"})
    check_alone(Client(), {"key": None})
    with pytest.raises(TypeError, match=r"^client=\.\.\. is used as it is; leave out key, timeout$"):
        check_alone(Client(), {"key": "x", "address": None, "timeout": 0})


def test_a_loop_closes_its_own_client():
    of = clients()

    async def main():
        client = of.now()
        await of.aclose()
        await of.aclose()
        return client

    assert asyncio.run(main()) is of.first
    assert of.first.closed == 1
    second = asyncio.run(main())
    assert (second.closed, of.first.closed) == (1, 1)


def test_whoever_asks_again_behind_the_end_gets_another_one():
    of = clients()

    async def main():
        before = of.now()
        await of.aclose()
        return before, of.now()

    before, after = asyncio.run(main())
    assert (before.closed, after.closed, before is after) == (1, 0, False)


def test_a_client_that_nobody_used_is_closed_too():
    of = clients()
    asyncio.run(of.aclose())
    assert of.first.closed == 1


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
    of, got, begin = clients(), [], threading.Barrier(8)

    def work():
        begin.wait()
        got.append(asyncio.run(now(of)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(got)) == 8


NOW = 1_445_412_480.0  # Wed, 21 Oct 2015 07:28:00 GMT


@pytest.mark.parametrize("status", [None, 408, 409, 425, 429, 500, 502, 503, 504, 520, 529])
def test_what_may_pass_is_retryable(status):
    assert http_error("later", provider="p", status=status).retryable


@pytest.mark.parametrize("status", [200, 302, 400, 401, 402, 403, 404, 413, 422, 501, 505])
def test_what_will_not_pass_is_not(status):
    assert not http_error("no", provider="p", status=status).retryable


@pytest.mark.parametrize(
    ("advice", "known", "retryable"),
    [
        ("true", None, True),
        ("false", None, False),
        ("maybe", None, False),
        ("true", False, False),
        ("false", True, True),
    ],
)
def test_the_provider_and_the_caller_know_better_than_the_status(advice, known, retryable):
    error = http_error("no", provider="p", status=400, headers={"X-Should-Retry": advice}, retryable=known)
    assert error.retryable is retryable


def test_all_facts_are_kept():
    headers = {"Retry-After": "7"}
    error = http_error("no", provider="p", status=429, headers=headers, code="slow_down", request_id="r1")
    assert (str(error), error.provider, error.status) == ("p: no", "p", 429)
    assert (error.code, error.retry_after, error.request_id) == ("slow_down", 7.0, "r1")


@pytest.mark.parametrize("code", [None, "", 7, {"a": 1}])
def test_a_code_that_is_no_word_is_none(code):
    assert http_error("no", provider="p", code=code).code is None


def test_a_long_message_is_cut():
    assert str(http_error("x" * 9000, provider="p")) == "p: " + "x" * LONGEST_MESSAGE


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 09:28:30 +0200"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:27:30 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 99999 07:27:30 GMT"}, None),
        ({"retry-after": "Wed, 99 Oct 99999999999 99:99:99 GMT"}, None),
        ({"retry-after": "1 Jan 0001 00:00:00 +2359"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "-1"}, 0.0),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
    ],
)
def test_the_pause_is_read_as_milliseconds_seconds_or_a_date(headers, seconds):
    assert retry_after(headers, NOW) == seconds


def test_a_date_is_counted_from_now():
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert retry_after({"retry-after": "Tue, 19 Jan 2100 03:14:07 GMT"}) > 0


@pytest.mark.parametrize(
    ("error", "cause", "text"),
    [
        (OSError("lost"), None, "lost"),
        (OSError("lost"), ValueError("reset"), "lost (ValueError: reset)"),
        (OSError("lost"), ValueError("lost"), "lost"),
        (OSError(), None, "OSError"),
    ],
)
def test_an_error_is_told_with_its_cause(error, cause, text):
    error.__cause__ = cause
    assert with_cause(error) == text


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "x-should-retry"]), st.text()))
def test_headers_never_make_it_fail(headers):
    error = http_error("no", provider="p", status=429, headers=headers)
    assert error.retry_after is None or error.retry_after >= 0


@pytest.mark.parametrize(
    ("text", "secret", "shown"),
    [
        ("Bearer sk-12345678.", "sk-12345678", "Bearer ***."),
        ("header b'nsk-12345678\\n'", "sk-12345678\n", "header b'n***\\n'"),
        ("b'sk-1234\\x005678'", "sk-1234\x005678", "b'***'"),
        ("b'sk-\\xff'", "sk-é", "b'sk-\\xff'"),
        ("?key=a%2Fb%2Bc%3D%3Dxyz&n=1", "a/b+c==xyz", "?key=***&n=1"),
        ('{"key": "a\\"b\\u00e9-12345"}', 'a"b\u00e9-12345', '{"key": "***"}'),
        ("cut: sk-12345", "sk-12345678", "cut: ***"),
        ("cut: sk-1234", "sk-12345678", "cut: sk-1234"),
        ("a sk-X, mask-X", "sk-X", "a ***, mask-X"),
        ("x is x", "x", "x is x"),
        ("all the same", "", "all the same"),
    ],
)
def test_secrets_are_not_shown(text, secret, shown):
    assert without_secrets(text, [secret]) == shown


def test_a_secret_that_begins_as_another_leaves_nothing_of_it():
    assert without_secrets("abcdefgh-ijkl", ["abcdefgh", "abcdefgh-ijkl"]) == "***"


@given(st.text(), st.text(st.characters(categories=["L", "N"]), min_size=8), st.text())
def test_a_secret_never_shows_wherever_it_stands(before, secret, after):
    assert secret not in without_secrets(f"{before} {secret} {after}", [secret])


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


class ClientSdkMethod:
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


def asked(client, method=ClientSdkMethod.create):
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
    client = ClientSdkMethod(Piece({"text": "Hi."}))
    assert asyncio.run(asked(client).answer({"model": "m", "stream": True})) == {"text": "Hi."}
    assert client.asked == {"model": "m", "stream": False, "extra_body": None}


@pytest.mark.parametrize("data", [{"a": 1}, [1], "text", None])
def test_what_is_data_already_stays_as_it_is(data):
    assert as_data(data) is data


@pytest.mark.parametrize("given", [None, {"extra_body": {"brand_new": 2, "mine": 3}}])
def test_what_the_method_has_no_parameter_for_goes_beside(given):
    client = ClientSdkMethod({})
    asyncio.run(asked(client).answer({"model": "m", "brand_new": 1, **(given or {})}))
    assert client.asked["extra_body"] == ({"brand_new": 2, "mine": 3} if given else {"brand_new": 1})


def test_a_method_that_takes_anything_gets_the_whole_body():
    client = ClientSdkMethod({})
    asyncio.run(asked(client, ClientSdkMethod.create_any).answer({"model": "m", "brand_new": 1}))
    assert client.asked == {"model": "m", "brand_new": 1}


def test_an_error_in_place_of_an_answer_is_a_model_error():
    client = ClientSdkMethod(StatusError())
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
        asyncio.run(asked(ClientSdkMethod(Deep())).answer({"model": "m"}))


def test_a_stream_is_read_to_its_end_and_closed():
    stream = Stream({"a": 1}, {"b": 2})
    client = ClientSdkMethod(stream)
    assert events(client, {"model": "m"}) == ([{"a": 1}, {"b": 2}], None)
    assert (client.asked["stream"], stream.closed) == (True, True)


def test_a_stream_that_is_left_is_closed_sdk_method():
    stream = Stream({"a": 1}, {"b": 2})
    assert events(ClientSdkMethod(stream), {"model": "m"}, most=1) == ([{"a": 1}], None)
    assert stream.closed


@pytest.mark.parametrize("body", [None, "<html>", [1]])
def test_a_stream_that_breaks_off_raises(body):
    stream = Stream({"a": 1}, error=StatusError(body))
    came, error = events(ClientSdkMethod(stream), {"model": "m"})
    assert (came, str(error), error.__cause__) == ([{"a": 1}], "p: it failed", stream.error)
    assert stream.closed


def test_an_error_that_the_provider_said_is_an_event_before_it_is_raised():
    stream = Stream({"a": 1}, error=StatusError({"message": "busy"}))
    came, error = events(ClientSdkMethod(stream), {"model": "m"})
    assert came == [{"a": 1}, {"type": "error", "message": "busy"}]
    assert error.__cause__ is stream.error
    assert stream.closed


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


@pytest.mark.parametrize("chunks", [StreamStreaming("a", "b").chunks, lambda: Plain("a", "b")])
def test_pieces_come_as_they_come_and_the_whole_last(chunks):
    assert read(chunks()) == [TextDelta("a"), TextDelta("b"), ModelResponse("ab")]


def test_a_stream_without_a_chunk_is_an_answer_too():
    assert read(StreamStreaming().chunks()) == [ModelResponse("")]


@pytest.mark.parametrize("error", [ModelError("overloaded"), OSError("reset")])
def test_what_a_broken_stream_has_brought_isnt_lost(error):
    *pieces, response = read(StreamStreaming("a", error=error).chunks(), OSError)
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


@pytest.mark.parametrize("error", [ModelError("overloaded"), OSError("reset")])
def test_an_error_in_place_of_a_stream_is_passed_on(error):
    with pytest.raises(type(error)):
        read(StreamStreaming(error=error).chunks(), OSError)


def test_what_doesnt_break_a_stream_is_a_fault_and_is_passed_on():
    with pytest.raises(ZeroDivisionError):
        read(StreamStreaming("a", error=ZeroDivisionError()).chunks(), OSError)


def test_whoever_leaves_in_the_middle_closes_the_stream():
    stream = StreamStreaming("a", "b")

    async def leave():
        pieces = streamed(stream.chunks(), Reader())
        assert await anext(pieces) == TextDelta("a")
        assert not stream.closed
        await pieces.aclose()
        return stream.closed

    assert asyncio.run(leave())
