from __future__ import annotations

import pytest

from pegboard_openai._openai import failure, no_answer


@pytest.mark.parametrize(
    ("error", "code", "status", "again"),
    [
        ({"message": "m", "type": "requests", "code": "rate_limit_exceeded"}, "rate_limit_exceeded", None, True),
        ({"message": "m", "type": "tokens", "code": "insufficient_quota"}, "insufficient_quota", None, False),
        ({"message": "m", "type": "invalid_request_error"}, "invalid_request_error", None, False),
        ({"message": "m", "code": 429}, None, 429, True),
        ({"message": "m", "code": 503}, None, 503, True),
        ({"message": "m", "code": 7}, None, None, False),
        ("m", None, None, False),
    ],
)
def test_an_error_says_its_code_and_whether_to_try_again(error, code, status, again):
    raised = failure(error, "openai")
    assert (str(raised), raised.code, raised.status, raised.retryable) == ("openai: m", code, status, again)


def test_an_error_that_says_nothing_is_one_all_the_same():
    assert str(failure([1], "openai")) == "openai: the provider answered with an error"
    assert no_answer("x", "openai").code == "invalid_response"
