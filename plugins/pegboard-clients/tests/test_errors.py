"""Errors of provider clients, from which secrets are left out."""

from __future__ import annotations

import asyncio
import traceback
from types import SimpleNamespace
from typing import Any

import httpx
import httpx2
import pytest
from hypothesis import given, strategies as st

from pegboard.errors import ModelError
from pegboard.messages import ModelResponse, TextDelta
from pegboard_clients.errors import (
    LONGEST_MESSAGE,
    Secrets,
    environment_key,
    http_error,
    no_key,
    retry_after,
    secrets_in,
    unanswered,
    with_cause,
    without_secrets,
)

NOW = 1_445_412_480.0  # Wed, 21 Oct 2015 07:28:00 GMT


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        *((status, True) for status in (None, 408, 409, 425, 429, 500, 502, 503, 504, 520, 529)),
        *((status, False) for status in (200, 302, 400, 401, 402, 403, 404, 413, 422, 501, 505)),
    ],
)
def test_retryable_statuses(status, retryable):
    assert http_error("no", provider="p", status=status).retryable is retryable


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


def test_an_error_has_all_its_details():
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
        *((each, None) for each in ({"retry-after": "nan"}, {"retry-after": "inf"}, {"retry-after": ""})),
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
def test_the_text_of_an_error_has_its_cause(error, cause, text):
    error.__cause__ = cause
    assert with_cause(error) == text


@pytest.mark.parametrize("by_cause", [False, True])
def test_the_text_of_a_lost_connection_has_the_address_without_a_password(by_cause):
    lost: Any = OSError("refused")  # as those of httpx, which has its request
    lost.request = SimpleNamespace(url="http://user:secret@127.0.0.1:9/v1?key=x")
    error = OSError("refused") if by_cause else lost
    error.__cause__ = lost if by_cause else None
    assert with_cause(error) == "request to http://127.0.0.1:9: refused"


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "x-should-retry"]), st.text()))
def test_headers_never_make_it_fail(headers):
    error = http_error("no", provider="p", status=429, headers=headers)
    assert error.retry_after is None or error.retry_after >= 0


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        *((each, True) for each in (ConnectionResetError("reset"), TimeoutError(), httpx.ReadError("cut"))),
        *((each, True) for each in (httpx2.RemoteProtocolError("cut"), KeyError("of the SDK"))),
        (ValueError("no json"), False),
        (RecursionError(), False),
    ],
)
def test_without_an_answer_only_a_lost_connection_is_retryable(error, retryable):
    made = unanswered(error, "p", KeyError)
    assert (made.provider, made.status, made.code) == ("p", None, type(error).__name__)
    assert made.retryable is retryable
    assert str(made) != "p: "
    assert unanswered(made, "q") is made


def test_a_key_of_the_environment_is_stripped_and_checked(monkeypatch):
    assert not environment_key("NO_SUCH_KEY", "p")
    monkeypatch.setenv("PLUM_KEY", " k\n")
    assert environment_key("PLUM_KEY", "p") == "k"
    monkeypatch.setenv("PLUM_KEY", "ü")
    with pytest.raises(ModelError, match="PLUM_KEY is not a valid key"):
        environment_key("PLUM_KEY", "p")
    error = no_key("PLUM_KEY", "p")
    assert error.code == "missing_api_key"
    assert str(error) == "p: there is no API key: set the environment variable PLUM_KEY, or pass api_key=..."


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
def test_secrets_are_redacted_everywhere(before, secret, after):
    assert secret not in without_secrets(f"{before} {secret} {after}", [secret])


KEY = "sk-very-secret"
SECRETS = Secrets(lambda: [KEY])


def raised(error, cause=None):
    """The error as it leaves the block."""
    with pytest.raises(ModelError) as caught, SECRETS.redact_errors():
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

    with pytest.raises(ModelError) as caught, SECRETS.redact_errors():
        fail()
    assert caught.value.__context__ is None


def test_the_error_of_a_response_shows_none():
    shown = SECRETS.redact(ModelResponse("Hi", error_message=f"no {KEY}"))
    assert (shown.error_message, shown.text) == ("no ***", "Hi")
    response = ModelResponse(f"Hi {KEY}")
    assert SECRETS.redact(response) is response


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
            async for piece in SECRETS.redact_all(pieces()):
                came.append(piece)  # noqa: PERF401  what came before the error counts
        except ModelError as error:
            came.append(str(error))
        return came

    delta, response, error = asyncio.run(main())
    assert (delta, response.error_message, error, closed) == (TextDelta("Hi"), "***", "***", [True])


def test_headers_of_credentials_are_secret():
    headers = {"Authorization": "Bearer abc", "X-Api-Key": 7, "x-goog-api-key": "k", "accept": "all"}
    assert secrets_in(headers) == ["Bearer abc", "abc", "k", ""]
