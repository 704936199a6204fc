"""`BedrockModel`: models on Amazon Bedrock, over Converse and Amazon's SDK."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from threading import Lock
from typing import Any, Final

from attrs import define, field

from pegboard import Exporter, ModelError, ModelRequest
from pegboard.threads import WorkerPool
from pegboard.typing import JsonMapping, JsonObject
from pegboard_bedrock._bedrock import error_of, exception_in
from pegboard_bedrock.bedrock import exporter as shared
from pegboard_clients.client import ProviderModel, check_alone
from pegboard_clients.errors import environment_key, http_error, is_lost, usable_key
from pegboard_clients.wire import as_object, object_in, text_in

KEYS: Final = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or AWS_BEARER_TOKEN_BEDROCK"
"""The environment variables for credentials."""


def model_error(error: Exception, provider: str) -> ModelError:
    """Converts an exception of the SDK: status, the provider's code, request id, and whether to retry."""
    from botocore import exceptions as sdk  # pyright: ignore[reportMissingTypeStubs]  the SDK has none

    if isinstance(error, ModelError):
        return error
    body = body_of(error)
    if body:
        return _error_of(body, provider)
    text = str(error) or type(error).__name__
    passes = isinstance(error, sdk.ConnectionError | sdk.HTTPClientError) or is_lost(error)
    if isinstance(error, sdk.NoCredentialsError):
        text = f"there are no credentials: set the environment variables {KEYS}, or sign in as the SDK's pages describe"
    elif not passes and not isinstance(error, sdk.BotoCoreError | sdk.ClientError):
        text, passes = UNREAD, not isinstance(error, RecursionError)  # its parser fails on the pages of proxies
    return http_error(text, provider=provider, code=type(error).__name__, retryable=passes)


def body_of(error: Exception) -> JsonMapping:
    """The provider's error, as the SDK parsed it; empty if there is none."""
    return as_object(getattr(error, "response", None))


def _error_of(body: JsonMapping, provider: str) -> ModelError:
    made = error_of(body)
    return http_error(
        made.message,
        provider=provider,
        status=made.status,
        headers=object_in(object_in(body, "ResponseMetadata"), "HTTPHeaders"),
        code=made.code,
        retryable=made.retryable or (None if made.status else False),
        request_id=made.request_id,
    )


UNREAD: Final = "the answer can't be read, or was cut off"
_OPTIONS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
TOKEN: Final = "AWS_BEARER_TOKEN_BEDROCK"  # noqa: S105  a name
"""The environment variable of a key that replaces credentials."""

_VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", TOKEN)


def usable_options(options: Mapping[str, Any], provider: str) -> dict[str, Any]:
    """The options of a client, with stripped credentials.

    Args:
        options: Options of `boto3.Session().client`.
        provider: For errors.

    Raises:
        ModelError: Credentials that are given, or that the environment holds, can't be sent.
    """
    for variable in _VARIABLES:
        environment_key(variable, provider)
    given = {name: options[name] for name in _OPTIONS if isinstance(options.get(name), str)}
    return {**options, **{name: usable_key(key, f"{name}=...", provider) for name, key in given.items()}}


def strip_session(session: Any) -> None:
    """Makes a session strip the credentials from the environment.

    Args:
        session: A session of botocore, without a client yet.
    """
    session.register_component("token_provider", _Stripped(session.get_component("token_provider")))
    held = session.get_credentials()
    if getattr(held, "method", None) == "env" and "_expiry_time" not in vars(held):
        for name in ("access_key", "secret_key", "token"):
            setattr(held, name, (getattr(held, name) or "").strip() or None)


def secrets_of(client: Any) -> list[str]:
    """The secrets that a client signs with or sends, without renewing them."""
    signer: Any = getattr(client, "_request_signer", None)
    held: Any = getattr(signer, "_credentials", None)
    facts: Any = getattr(held, "__dict__", {})
    secrets: list[Any] = [facts.get(name) for name in ("secret_key", "token", "_secret_key", "_token")]
    secrets += [getattr(getattr(signer, "_auth_token", None), "token", None), os.environ.get(TOKEN)]
    return [secret for secret in secrets if isinstance(secret, str)]


class _Stripped:
    """Wrapper of the SDK's token provider that strips tokens from the environment."""

    def __init__(self, chain: Any) -> None:
        self._chain = chain

    def load_token(self, **about: Any) -> Any:
        """The token, or `None`; called by the SDK."""
        token: Any = self._chain.load_token(**about)
        replaced: Any = getattr(token, "_replace", None)  # renewable tokens have none
        return token if replaced is None else replaced(token=token.token.strip())


def make_client(
    provider: str, base_url: str | None, options: Mapping[str, Any], service: str = "bedrock-runtime"
) -> Any:
    """Makes a client of a service, importing the SDK.

    Args:
        provider: For errors.
        base_url: Where the server is; by default Amazon's address in the region.
        options: What else `boto3.Session().client` takes.
        service: `bedrock-runtime` answers requests, `bedrock` lists models.

    Raises:
        ModelError: There is no region, credentials can't be sent, or the SDK refuses the options.
    """
    import boto3  # pyright: ignore[reportMissingTypeStubs]  the SDK has none
    import botocore.session  # pyright: ignore[reportMissingTypeStubs]
    from botocore.config import Config  # pyright: ignore[reportMissingTypeStubs]

    once: Any = Config(retries={"total_max_attempts": 1, "mode": "standard"})
    given = options.get("config")
    usable = usable_options(options, provider)
    try:
        if region := os.environ.get("AWS_REGION", "").strip():  # the SDK itself reads only AWS_DEFAULT_REGION
            usable.setdefault("region_name", region)
        facts: dict[str, Any] = {**usable, "config": once if given is None else once.merge(given)}
        sessions: Any = botocore.session
        core = sessions.get_session()  # a new one: the default session isn't thread-safe
        if not usable.get("aws_access_key_id"):
            strip_session(core)
        session: Any = boto3.Session(botocore_session=core)
        return session.client(service, endpoint_url=base_url, **facts)
    except Exception as error:
        made = model_error(error, provider)
        raise ModelError(f"no client can be made: {error}{_hint(made)}", provider=provider, code=made.code) from error


def _list_ids(make: Callable[[str], Any]) -> list[str]:
    """The ids of models and inference profiles, from a client of `bedrock`."""
    with closing(make("bedrock")) as client:
        models = client.list_foundation_models(byOutputModality="TEXT", byInferenceType="ON_DEMAND")["modelSummaries"]
        pages = client.get_paginator("list_inference_profiles").paginate()
        profiles = [each["inferenceProfileId"] for page in pages for each in page["inferenceProfileSummaries"]]
    return [*(each["modelId"] for each in models), *profiles]


def _hint(made: ModelError) -> str:
    known = made.code == "NoRegionError"
    return " Set the environment variable AWS_REGION or AWS_DEFAULT_REGION, or pass region_name=..." if known else ""


@define(eq=False)
class Events:
    """A stream that is read in threads.

    Attributes:
        send: Sends the request; blocks until the answer starts.
    """

    threads: WorkerPool
    send: Callable[[], Any]
    provider: str
    _stream: Any = field(default=None, init=False)
    _events: Iterator[JsonObject] = field(factory=lambda: iter(()), init=False)
    _left: bool = field(default=False, init=False)
    _reading: Lock = field(factory=Lock, init=False)

    async def data(self) -> AsyncGenerator[JsonObject]:
        """The events; an exception in the stream is an event, too, before it is raised.

        Raises:
            ModelError: The request failed, or the provider answered with an error; or the stream broke off.
        """
        try:
            await self.threads.run(self._open)
            while (event := await self.threads.run(self._next)) is not None:
                yield event
        except Exception as error:  # the SDK and its transport raise all kinds
            made = model_error(error, self.provider)
            event = {made.code or "": body_of(error).get("Error")}
            if exception_in(event) is not None:
                yield event
            raise made from error
        finally:
            await self._leave()

    def _open(self) -> None:
        stream = self.send()["stream"]
        self._stream, self._events = stream, iter(stream)
        if self._left:  # while it was being opened
            self._close()

    def _next(self) -> JsonObject | None:
        with self._reading:
            return next(self._events, None)

    async def _leave(self) -> None:
        """Closes the connection, also while a thread is reading from it."""
        self._left = True  # before the check of `_stream`; `_open` does it in the opposite order
        if self._stream is None:
            return
        with suppress(Exception):  # it may have ended, and then it can't be shut down
            self._stream._raw_stream.shutdown()  # noqa: SLF001  `close` alone would wait for the thread that reads
        await self.threads.run(self._close)

    def _close(self) -> None:
        with self._reading:
            self._stream.close()


class BedrockModel(ProviderModel):
    """A model over Amazon's SDK, which blocks, and so runs in threads.

    Args:
        model: Its id, or that of an inference profile, such as `"eu.anthropic.claude-sonnet-4-5-20250929-v1:0"`, or an
            ARN.
        client: A `boto3` client of `bedrock-runtime` that is used as it is, and is not closed; make it with one
            attempt, as turns try again themselves. By default one is made.
        exporter: Writes requests and reads answers; by default the built-in `"bedrock"`.
        base_url: By default Amazon's address in the region.
        options: Further options of `boto3.Session().client`, such as `region_name`, `config`, or credentials, which the
            SDK otherwise finds by itself.

    Raises:
        ModelError: There is no region, or the client can't be made.
        TypeError: A client is given together with options for making one.
    """

    def __init__(
        self,
        model: str,
        *,
        client: Any = None,
        exporter: Exporter | None = None,
        base_url: str | None = None,
        **options: Any,
    ) -> None:
        check_alone(client, {"base_url": base_url, **options})
        super().__init__(model, exporter or shared())
        self._client = client or make_client(self.provider, base_url, options)
        self._owned = client is None
        self._make = partial(make_client, self.provider, base_url, options)
        self._threads = WorkerPool()

    async def aclose(self) -> None:
        """Closes the client, unless it was given."""
        self._threads.close()
        if self._owned:
            self._client.close()

    async def _models(self) -> list[str]:
        """Requests the ids of the models that converse and of the inference profiles in the region.

        Models that are only available by a profile are left out. The client for it is made with the model's options, as
        the model's own client is of another service.
        """
        return await self._threads.run(_list_ids, self._make)

    def _error(self, error: Exception) -> ModelError:
        return model_error(error, self.provider)

    async def _answer(self, body: JsonObject) -> Any:
        """The answer; cancelling it stops the wait.

        The SDK can't cancel a request: the connection stays open until the provider has answered, or the client's
        `read_timeout` is over. A stream closes it at once.
        """
        raw = await self._threads.run(self._client.converse, **body)
        if not raw.get("output"):
            # The SDK doesn't report an answer that was cut off: it parses nothing of it.
            about = object_in(raw, "ResponseMetadata")
            raise http_error(
                UNREAD,
                provider=self.provider,
                retryable=True,
                request_id=text_in(about, "RequestId") or None,
            )
        return raw

    def _events(self, body: JsonObject) -> AsyncGenerator[JsonObject]:
        return Events(self._threads, partial(self._client.converse_stream, **body), self.provider).data()

    def _known_secrets(self) -> list[str]:
        return secrets_of(self._client)

    def _body(self, request: ModelRequest) -> JsonObject:
        return {"modelId": self.name, **self.exporter.request(request)}
