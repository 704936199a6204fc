"""HTTP answers that are no success, as the error that hosts know."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pegboard.request.client import LONGEST_MESSAGE, http_error, retry_after, told, without_secrets

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
    assert told(error) == text


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
