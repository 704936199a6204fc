"""`Settings`: where the Temporal server is, and what calls by it need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
from attrs import field, frozen

from pegboard.errors import check_keys
from pegboard.json import is_object
from pegboard.worker import DEFAULT_QUEUE, check_queue

_TEXTS: Final = ("address", "namespace", "api_key", "profile", "folder")
_LEAST: Final = {"wait": 0.1, "heartbeat": 1.0}  # seconds
_MOST: Final = 31_622_400  # seconds: a year
_TLS: Final = ("ca", "cert", "key", "server_name")


@frozen(kw_only=True)
class Settings:
    """Settings of the executor. What isn't set of the server is taken from Temporal's own environment and file.

    Attributes:
        address: `"HOST:PORT"` of the server; else `TEMPORAL_ADDRESS`, a profile's, or `localhost:7233`.
        namespace: The namespace; else `TEMPORAL_NAMESPACE`, a profile's, or `default`.
        api_key: The API key, which also turns TLS on.
        tls: `True`, or the paths `ca`, `cert` and `key` of PEM files, and a `server_name`.
        profile: The profile of Temporal's configuration file.
        queue: The queue of calls that name none.
        wait: Seconds in which a worker has to take a call; else it isn't run.
        heartbeat: Seconds without a sign of its worker after which a call counts as lost. Workers give one each third.
        folder: A folder that callers and workers, of one user, share, such as a network drive, for what is longer than
            Temporal stores; `None` limits arguments and results to 1.9 MB.
    """

    address: str | None = field(default=None, repr=False)
    namespace: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    tls: bool | Mapping[str, str] = field(default=False, repr=False)
    profile: str | None = None
    queue: str = field(default=DEFAULT_QUEUE, converter=check_queue)
    wait: float = 60.0
    heartbeat: float = 15.0
    folder: str | None = None

    def __attrs_post_init__(self) -> None:
        for name in _TEXTS:
            if not isinstance(getattr(self, name), str | None):
                raise TypeError(f"{name} must be text")  # without the value, which may be a secret
        tls: Any = {} if isinstance(self.tls, bool) else self.tls
        if not is_object(tls) or not all(isinstance(value, str) for value in tls.values()):
            raise TypeError("tls must be true, or a table of texts")
        check_keys(tls, _TLS, "tls")
        for name, least in _LEAST.items():
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= _MOST:
                raise ValueError(f"{name} must be a number from {least:g} to {_MOST}, got {value!r:.40}")


def settings_from(data: Mapping[str, Any]) -> Settings:
    """The settings of `[plugins.temporal]`.

    Raises:
        ValueError: One is unknown or out of range.
        TypeError: One is of the wrong type.
    """
    check_keys(data, [each.name for each in attrs.fields(Settings)], "plugins.temporal")
    return Settings(**data)
