"""`made_client`: Amazon's own client, without retries of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard import ModelError
from pegboard_bedrock.credentials import strip_session, usable_options
from pegboard_bedrock.errors import model_error


def made_client(provider: str, base_url: str | None, options: Mapping[str, Any]) -> Any:
    """A client of `bedrock-runtime`. The SDK is imported here.

    Args:
        provider: For errors.
        base_url: Where the server is; by default Amazon's address in the region.
        options: What else `boto3.Session().client` takes.

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
        facts: dict[str, Any] = {**usable, "config": once if given is None else once.merge(given)}
        sessions: Any = botocore.session
        core = sessions.get_session()  # its own: the default one isn't made for several threads
        if not usable.get("aws_access_key_id"):
            strip_session(core)
        session: Any = boto3.Session(botocore_session=core)
        return session.client("bedrock-runtime", endpoint_url=base_url, **facts)
    except Exception as error:
        made = model_error(error, provider)
        raise ModelError(f"no client can be made: {error}{_hint(made)}", provider=provider, code=made.code) from error


def check_alone(client: object, others: Mapping[str, Any]) -> None:
    """Checks that a client which is given has all that it needs.

    Raises:
        TypeError: Something is given beside it that it would not use.
    """
    beside = [name for name, value in others.items() if value is not None]
    if client is not None and beside:
        raise TypeError(f"client=... is used as it is; leave out {', '.join(beside)}")


def _hint(made: ModelError) -> str:
    known = made.code == "NoRegionError"
    return " Set the environment variable AWS_REGION or AWS_DEFAULT_REGION, or pass region_name=..." if known else ""


__all__ = ["check_alone", "made_client"]
