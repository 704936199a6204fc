"""The settings of the executors: where the server is, and how to log in to it."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
from attrs import field, frozen

from pegboard.errors import at_least, check_keys, instance_of, tuple_of

_SECONDS: Final = (instance_of(int, float), at_least(0, exclusive=True))
_TEXT: Final = instance_of(str, type(None))
_ADDRESS: Final = re.compile(r"(nats|tls|ws|wss)://(?:[^/\s]*@)?[^/@\s]+/?")
_PREFIX_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def _servers(given: Any) -> tuple[str, ...]:
    servers = tuple_of("servers", str)((given,) if isinstance(given, str) else given)
    for server in servers:
        if not _ADDRESS.fullmatch(server):  # the text may hold a password
            raise ValueError("servers must be addresses such as nats://HOST:4222 or tls://HOST:4222")
    return servers


def _check_secret(_settings: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str | None):
        raise TypeError(f"{attribute.name} must be text, got {type(value).__name__}")


def _check_prefix(_settings: Any, _attribute: Any, value: Any) -> None:
    if not isinstance(value, str) or not value or not _PREFIX_CHARACTERS.issuperset(value) or len(value) > 32:
        raise ValueError(f"prefix must be 1 to 32 letters, digits, '-' and '_', got {value!r:.40}")


@frozen(kw_only=True)
class NatsSettings:
    """Settings of the executors `nats` and `jetstream`.

    Attributes:
        servers: The addresses of one server or of a cluster's.
        user: The user's name.
        password: The user's password.
        token: A token instead of both.
        credentials: The path of a credentials file (`.creds`).
        nkey: The path of a file with an nkey's seed.
        tls: Whether the connection has to be encrypted; implied by the other settings of TLS, and by `tls://`.
        tls_ca: The path of the certificates to trust, where the system's aren't meant.
        tls_certificate: The path of the client's own certificate.
        tls_key: The path of its key.
        tls_hostname: The name in the server's certificate, where it isn't the one in its address.
        prefix: The first part of all subjects and the name of what is stored: programs with other ones don't meet.
        wait: Seconds that a call may wait for a server and a worker; after that it is reported as not run.
        dead_after: Seconds without a sign of a worker after which its calls are given up.
        keep: Seconds that `jetstream` keeps results.
        synced: Whether the server is set to sync before it acknowledges, so that `jetstream` doesn't warn.
    """

    servers: tuple[str, ...] = field(default=("nats://127.0.0.1:4222",), converter=_servers, repr=False)
    user: str | None = field(default=None, validator=_TEXT)
    password: str | None = field(default=None, validator=_check_secret, repr=False)
    token: str | None = field(default=None, validator=_check_secret, repr=False)
    credentials: str | None = field(default=None, validator=_TEXT)
    nkey: str | None = field(default=None, validator=_TEXT)
    tls: bool = field(default=False, validator=instance_of(bool))
    tls_ca: str | None = field(default=None, validator=_TEXT)
    tls_certificate: str | None = field(default=None, validator=_TEXT)
    tls_key: str | None = field(default=None, validator=_TEXT)
    tls_hostname: str | None = field(default=None, validator=_TEXT)
    prefix: str = field(default="pegboard", validator=_check_prefix)
    wait: float = field(default=10.0, validator=_SECONDS)
    dead_after: float = field(default=10.0, validator=_SECONDS)
    keep: float = field(default=86_400.0, validator=_SECONDS)
    synced: bool = field(default=False, validator=instance_of(bool))

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> NatsSettings:
        """Settings from `[plugins.nats]`.

        Raises:
            ValueError: A setting is unknown or out of range.
            TypeError: A setting is of the wrong type.
        """
        check_keys(given, attrs.fields_dict(cls), "plugins.nats")
        return cls(**given)

    @property
    def where(self) -> str:
        """The addresses without names and passwords, for messages."""
        return ", ".join(urlsplit(server)._replace(netloc=_place(server)).geturl() for server in self.servers)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show."""
        inside = [urlsplit(server).netloc.rpartition("@")[0].rpartition(":")[2] for server in self.servers]
        return tuple(secret for secret in (self.password, self.token, *inside) if secret)

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection has to be encrypted."""
        given = (self.tls_ca, self.tls_certificate, self.tls_key, self.tls_hostname)
        is_in_address = any(server.startswith(("tls:", "wss:")) for server in self.servers)
        return self.tls or is_in_address or any(each is not None for each in given)

    def options(self) -> dict[str, Any]:
        """The options of `nats.connect`.

        Raises:
            OSError: A file can't be read, or isn't a certificate.
        """
        login = {
            "user": self.user,
            "password": self.password,
            "token": self.token,
            "user_credentials": _home(self.credentials),
            "nkeys_seed": _home(self.nkey),
            "tls_hostname": self.tls_hostname,
        }
        options: dict[str, Any] = {name: value for name, value in login.items() if value is not None}
        if self.is_encrypted:
            options["tls"] = context = ssl.create_default_context(cafile=_home(self.tls_ca))
            if self.tls_certificate is not None:
                context.load_cert_chain(str(_home(self.tls_certificate)), _home(self.tls_key))
        return {"servers": [*self.servers], **options}


def _place(server: str) -> str:
    return urlsplit(server).netloc.rpartition("@")[2]


def _home(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser())
