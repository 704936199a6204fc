"""Access to the server over HTTP: its settings, host names, tokens and OAuth."""

from __future__ import annotations

import hmac
import logging
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final, cast
from urllib.parse import urlsplit

from attrs import evolve, field, frozen
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings

from pegboard import ReadonlyContext
from pegboard.config import with_secrets
from pegboard.errors import ConfigError, cause_of
from pegboard.schema.converter import read_table
from pegboard.threads import run_in_thread

SETTINGS: Final = "plugins.mcp.serve"
LEAST_TOKEN: Final = 16
"""Characters of a token; a shorter one could be guessed."""

CLAIMS: Final = "claims."
"""The prefix of a token's claims in the state."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_FETCH_SECONDS: Final = 10


@frozen
class OAuth:
    """An authorization server whose JSON Web Tokens are accepted (RFC 9068).

    Attributes:
        issuer: Its URL: the required `iss` of a token.
        resource: This server's own URL: the required `aud` of a token.
        jwks: The URL of its public keys.
        scopes: The required scopes of a token.
        algorithms: Accepted signature algorithms; none with a shared key.
    """

    issuer: str
    resource: str
    jwks: str
    scopes: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA")


@frozen
class HttpSettings:
    """`[plugins.mcp.serve]` in pegboard.toml.

    Attributes:
        token: The bearer token of all clients, or `None`.
        tokens: Bearer tokens by user.
        oauth: An authorization server whose tokens are accepted, or `None`.
        hosts: Host names of the server, with or without a port, besides its address.
        origins: Origins of web pages that may use it.
        body: Maximum bytes of a request.
        body_seconds: How long a request's headers, and its body, may take to arrive.
        rate: Requests a second of one user, or one address; bursts may be twice as large.
        sessions: Maximum number of sessions at once.
        user_sessions: The same of one user of `tokens` or `oauth`, or of one address without.
        idle_seconds: Seconds without a request after which a session ends.
        grace: Seconds that running calls have to finish on shutdown.
    """

    token: str | None = field(default=None, repr=False)
    tokens: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    oauth: OAuth | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    body: int = 4_000_000
    body_seconds: float = 10.0
    rate: float = 1_000.0
    sessions: int = 1_000
    user_sessions: int = 100
    idle_seconds: float = 1_800.0
    grace: float = 10.0

    def __attrs_post_init__(self) -> None:
        tokens = {f"tokens.{user}": token for user, token in self.tokens.items()}
        if self.token is not None:
            tokens["token"] = self.token
        for name, value in tokens.items():
            if type(value) is not str or len(value) < LEAST_TOKEN:  # the values of a table aren't validated yet
                raise ValueError(f"{name}: must be a string of at least {LEAST_TOKEN} characters")
        if "" in self.tokens:
            raise ValueError("tokens: a user has to have a name")
        if len({*tokens.values()}) < len(tokens):
            raise ValueError("tokens: no two users may have the same token")
        for name in ("body", "body_seconds", "rate", "sessions", "user_sessions", "idle_seconds", "grace"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: must be above 0")

    @property
    def is_guarded(self) -> bool:
        """Whether clients need a token."""
        return bool(self.token or self.tokens or self.oauth)

    @property
    def places(self) -> int:
        """Maximum requests, and connections, at once: each session may have a stream and a call."""
        return 2 * self.sessions + 100

    @property
    def user_places(self) -> int:
        """Maximum requests of one user, or one address, at once."""
        return 2 * self.user_sessions + 100

    def check_bind(self, host: str) -> None:
        """Checks that an address that other machines can reach has a token, and a host name.

        Raises:
            ConfigError: One is missing; the text says what to do.
        """
        if is_loopback(host):
            return
        if not self.is_guarded:
            text = "other machines can reach it, so clients need a token: give --token-env NAME, or set token or oauth"
            raise ConfigError(f"can't serve at {host}: {text}", file="pegboard.toml", key=SETTINGS)
        if _is_wildcard(host) and not (self.hosts or self.oauth):
            text = 'set hosts = ["tools.example.com"], the host names of its URLs'
            raise ConfigError(f"can't serve at {host}: {text}", file="pegboard.toml", key=SETTINGS)

    def security(self, host: str, given: str) -> TransportSecuritySettings:
        """The `Host` and `Origin` headers that the SDK accepts.

        Args:
            host: The address that it is bound to.
            given: The host as given, a name or the same address.
        """
        names = [] if _is_wildcard(host) else [_bracket(host), _bracket(given)]
        names += [*(_LOOPBACK if is_loopback(host) else ()), *self.hosts]
        origins = [f"http://{name}" for name in _LOOPBACK] if is_loopback(host) else []
        if self.oauth is not None:
            names.append(urlsplit(self.oauth.resource).netloc)
        return TransportSecuritySettings(
            allowed_hosts=[*_with_ports(names)], allowed_origins=[*_with_ports(origins), *self.origins]
        )

    def auth(self) -> AuthSettings | None:
        """The SDK's settings of a resource server; `None` if no token is needed."""
        if not self.is_guarded:
            return None
        given: dict[str, Any] = {"issuer_url": "http://localhost", "resource_server_url": None}
        if self.oauth is not None:
            given = {"issuer_url": self.oauth.issuer, "resource_server_url": self.oauth.resource}
            given["required_scopes"] = list(self.oauth.scopes)
            given["validate_token_resource"] = False  # the verifier does, by `aud`
        return AuthSettings.model_validate(given)  # from texts, which URLs stay equal to

    def verifier(self) -> TokenVerifier | None:
        """The verifier of tokens; `None` if no token is needed."""
        return Verifier(self) if self.is_guarded else None


def read_http_settings(settings: object, token_env: str | None = None) -> HttpSettings:
    """The settings of `[plugins.mcp.serve]`, with their secrets filled in.

    Args:
        settings: The table.
        token_env: The environment variable of the token, which overrides that of the settings.

    Raises:
        ConfigError: A setting is unknown or wrong, or refers to a missing secret.
    """
    wrong: list[str] = []
    given = with_secrets(cast("Mapping[str, Any]", settings), wrong, []) if isinstance(settings, Mapping) else settings
    try:
        read = read_table(HttpSettings, given, "")
    except ValueError as error:
        wrong.append(str(error))
        read = HttpSettings()
    token = None if token_env is None else os.environ.get(token_env, "")
    if token is not None and len(token) < LEAST_TOKEN:
        wrong.append(f"the variable {token_env} of --token-env needs at least {LEAST_TOKEN} characters")
    if wrong:
        raise ConfigError(wrong[0], file="pegboard.toml", key=SETTINGS)
    return read if token is None else evolve(read, token=token)


@lru_cache(maxsize=256)  # each request asks for its client's
def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine; false for a host name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_wildcard(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _with_ports(names: Iterable[str]) -> Iterable[str]:
    """Each name, and without a port also with any: the server may be behind a proxy with another port."""
    for name in dict.fromkeys(names):
        yield name
        if not re.search(r":\d+$", name):
            yield f"{name}:*"


class Verifier(TokenVerifier):
    """Verifier of static and OAuth tokens.

    Args:
        settings: The settings with the tokens.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._tokens = [(user, token.encode()) for user, token in settings.tokens.items()]
        if settings.token is not None:
            self._tokens.append(("", settings.token.encode()))
        self._oauth = settings.oauth
        self._keys: Any = None

    async def verify_token(self, token: str) -> AccessToken | None:
        """The token with its user and claims, or `None`."""
        given, found = token.encode(), None
        for user, each in self._tokens:  # all of them, against timing attacks
            if hmac.compare_digest(given, each):
                found = AccessToken(token=token, client_id=user or "token", scopes=[], subject=user or None)
        if found is not None or self._oauth is None:
            return found
        try:
            return await run_in_thread(self._read, token, self._oauth)
        except Exception as error:  # noqa: BLE001  (errors of pyjwt and of fetching the keys)
            logging.getLogger("pegboard.mcp").warning("a token was refused: %s", cause_of(error))
            return None

    def _read(self, token: str, oauth: OAuth) -> AccessToken:
        import jwt

        if self._keys is None:
            self._keys = jwt.PyJWKClient(oauth.jwks, timeout=_FETCH_SECONDS)
        claims: dict[str, Any] = jwt.decode(
            token,
            self._keys.get_signing_key_from_jwt(token).key,
            algorithms=list(oauth.algorithms),
            audience=oauth.resource,
            issuer=oauth.issuer,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
        scope = claims.get("scope", "")
        return AccessToken(
            token=token,
            client_id=str(claims.get("client_id") or claims.get("azp") or claims["sub"]),
            scopes=scope.split() if isinstance(scope, str) else [],
            expires_at=int(claims["exp"]),
            resource=oauth.resource,
            subject=claims["sub"],
            claims=claims,
        )


def context_of_token(context: ReadonlyContext, user: object) -> ReadonlyContext:
    """The context of a client with a token: its user, and its claims as `claims.NAME` in the state.

    A claim that is a list also sets a key for each item: `claims.groups.admin` is true. Without a token it is the
    server's own context.

    Args:
        context: The server's own context.
        user: The user set by the SDK's middleware.
    """
    if not isinstance(user, AuthenticatedUser):
        return context
    token = user.access_token
    claims: dict[str, Any] = {}
    for name, value in (token.claims or {}).items():
        claims[f"{CLAIMS}{name}"] = value
        if isinstance(value, list | tuple):
            claims.update(
                {f"{CLAIMS}{name}.{item}": True for item in cast("list[Any]", value) if isinstance(item, str)}
            )
    claims.update({f"{CLAIMS}scope.{scope}": True for scope in token.scopes})
    return evolve(context, user=token.subject or context.user, state={**context.state, **claims})
