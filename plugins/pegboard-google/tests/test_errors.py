"""What the SDK raises, as the error that hosts know."""

from __future__ import annotations

import pytest
from google.genai.errors import APIError

from pegboard import ModelError
from pegboard_google.client import model_error


class Answer:
    """As much of an HTTP answer as is looked at."""

    def __init__(self, **headers):
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def test_what_is_one_already_stays_itself():
    error = ModelError("no")

    assert model_error(error, "gemini") is error


def test_the_headers_time_counts_before_the_bodys():
    body = {"error": {"message": "slow down", "status": "X", "details": [{"retryDelay": "9s"}]}}

    error = model_error(APIError(429, body, Answer(retry_after="7")), "gemini")

    assert (error.status, error.code, error.retryable, error.retry_after) == (429, "X", True, 7.0)


@pytest.mark.parametrize("body", [{}, {"error": {"message": 5, "status": ["x"]}}, {"error": {}}])
def test_a_body_that_says_nothing_is_read_all_the_same(body):
    error = model_error(APIError(529, body, None), "gemini")

    assert (error.status, error.code, error.retryable, error.retry_after) == (529, "APIError", True, None)
    assert "529" in str(error)


def test_without_status_only_a_lost_connection_may_pass():
    assert model_error(TimeoutError(), "gemini").retryable
    assert model_error(ConnectionResetError("reset"), "gemini").retryable
    assert not model_error(ValueError("no"), "gemini").retryable
    assert not model_error(RecursionError(), "gemini").retryable


def test_an_error_without_words_is_told_by_its_name():
    error = model_error(TimeoutError(), "gemini")

    assert (str(error), error.code) == ("gemini: TimeoutError", "TimeoutError")


def test_credentials_say_themselves_whether_to_try_again():
    from google.auth.exceptions import RefreshError

    assert model_error(RefreshError("later", retryable=True), "gemini").retryable
    assert not model_error(RefreshError("never"), "gemini").retryable
