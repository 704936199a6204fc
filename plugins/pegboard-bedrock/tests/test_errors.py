"""What the SDK raises, as the error that hosts know."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)
from urllib3.exceptions import ProtocolError

from pegboard import ModelError
from pegboard_bedrock.client import KEYS, model_error


def answered(code, status, message="no", **headers):
    about = {"HTTPStatusCode": status, "RequestId": "r1", "HTTPHeaders": headers}
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": about}, "Converse")


def test_what_is_one_already_stays_itself():
    error = ModelError("no")

    assert model_error(error, "bedrock") is error


def test_the_provider_says_what_and_when():
    error = model_error(answered("ThrottlingException", 429, "slow down", **{"retry-after": "7"}), "bedrock")

    assert (str(error), error.status, error.code) == ("bedrock: slow down", 429, "ThrottlingException")
    assert (error.retryable, error.retry_after, error.request_id) == (True, 7.0, "r1")


@pytest.mark.parametrize(("status", "retryable"), [(502, True), (529, True), (400, False), (413, False)])
def test_a_status_that_the_service_doesnt_name_tells_by_itself(status, retryable):
    assert model_error(answered("Unknown", status), "bedrock").retryable is retryable


@pytest.mark.parametrize("response", [{}, {"Error": 5}, {"Error": {}, "ResponseMetadata": "no"}])
def test_a_body_that_says_nothing_is_read_all_the_same(response):
    error = ClientError({}, "Converse")
    error.response = response

    made = model_error(error, "bedrock")

    assert (made.status, made.retryable, made.retry_after) == (None, False, None)


def test_without_an_answer_only_a_lost_connection_may_pass():
    address = {"endpoint_url": "http://127.0.0.1"}
    passing = [
        ConnectTimeoutError(**address),
        ReadTimeoutError(**address),
        ProtocolError("cut"),
        ConnectionResetError("reset"),
    ]

    assert all(model_error(error, "bedrock").retryable for error in passing)
    assert not model_error(ParamValidationError(report="no"), "bedrock").retryable
    assert not model_error(RecursionError(), "bedrock").retryable


def test_without_credentials_the_error_names_the_environment_variables():
    error = model_error(NoCredentialsError(), "bedrock")

    assert (error.code, error.retryable) == ("NoCredentialsError", False)
    assert KEYS in str(error)
