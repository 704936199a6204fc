"""Credentials: by the schemes of a document, from the environment or the keyring."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import quote, urljoin

from attrs import define, field, frozen

from pegboard import ToolError
from pegboard.config import with_secrets
from pegboard.errors import check_keys, hide
from pegboard.json import is_object
from pegboard.threads import run_in_thread
from pegboard_openapi.document import Document, DocumentError, is_url, origin_of
from pegboard_openapi.operations import HEADER_NAME

if TYPE_CHECKING:
    import httpx2

_SOURCES: Final = ("env", "keyring")  # of secrets
_KEYS: Final = (
    *("type", "in", "name", "scheme", "value", "username", "password"),
    *("client_id", "client_secret", "scopes", "token_url"),
)
_EARLY: Final = 30.0  # seconds before its end that a token is replaced
_MOST_TOKEN: Final = 100_000


@define(eq=False)
class Credentials:
    """What a request needs to be accepted.

    Attributes:
        headers: By name.
        query: `name=value`, each, encoded.
        cookies: `name=value`, each.
        secrets: What no text may show.
    """

    headers: dict[str, str] = field(factory=dict[str, str])
    query: list[str] = field(factory=list[str])
    cookies: list[str] = field(factory=list[str])
    secrets: list[str] = field(factory=list[str])


@frozen(eq=False)
class Scheme:
    """A security scheme with its credentials.

    Attributes:
        name: Its name in the document, or in the settings.
        kind: How its secret is sent.
        given: The settings: references to secrets, or secrets.
        place: For a key: `"header"`, `"query"` or `"cookie"`.
        key: For a key: the name of the header, parameter or cookie.
        token_url: For client credentials.
        scopes: For client credentials: those of the settings, or `None` for those that an operation needs.
        own: Whether the settings define it, so that operations without requirements need it, too.
    """

    name: str
    kind: Literal["key", "bearer", "basic", "client"]
    given: Mapping[str, Any] = field(repr=False)
    place: str = ""
    key: str = ""
    token_url: str = ""
    scopes: tuple[str, ...] | None = None
    own: bool = False

    def secret(self, key: str, secrets: list[str]) -> str:
        """The secret of a setting, looked up now, and added to `secrets`.

        Raises:
            ToolError: It isn't there; the cause is for the operator.
        """
        value: Any = self.given.get(key)
        kind, _, name = value.partition(":") if isinstance(value, str) else ("", "", "")
        missing: list[str] = []
        place = f"auth.{self.name}.{key}"
        found = with_secrets({place: {kind: name} if kind in _SOURCES else value}, missing, secrets)
        if missing or not isinstance(found.get(place), str):
            text = f"The credentials {self.name!r} aren't set up here. Continue without this tool, or tell the user."
            raise ToolError(text) from DocumentError("; ".join(missing) or f"auth.{self.name} has no {key}")
        secrets.append(found[place])
        return found[place].strip()


def read_schemes(document: Document, auth: Mapping[str, Any]) -> tuple[dict[str, Scheme], list[str]]:
    """The schemes for which there are credentials, by name, and what is wrong with others.

    Args:
        document: The document.
        auth: By the scheme's name: a reference to a secret (`"env:NAME"`, `"keyring:NAME"`), or a table.
    """
    found: dict[str, Scheme] = {}
    problems: list[str] = []
    components: Any = document.main.root.get("components")
    written: Any = components.get("securitySchemes") if is_object(components) else None
    declared: Mapping[str, Any] = written if is_object(written) else {}
    for name, given in auth.items():
        try:
            found[name] = _scheme(document, name, declared, {"value": given} if isinstance(given, str) else given)
        except (DocumentError, ValueError, TypeError) as error:
            problems.append(f"auth.{name}: {error}")
    return found, problems


def _scheme(document: Document, name: str, declared: Mapping[str, Any], given: Any) -> Scheme:
    """The scheme of a name, as the settings describe it, or else the document.

    Raises:
        DocumentError: It isn't supported, or the settings don't fit it.
        ValueError: An unknown key.
    """
    if not is_object(given):
        raise DocumentError("has to be a text, such as 'env:NAME', or a table")
    check_keys(given, _KEYS)
    if "type" not in given and name not in declared:
        known = ", ".join(map(repr, declared)) or "none"
        hint = "name one of them, or say what it is: type = 'http', scheme = 'bearer', value = 'env:NAME'"
        raise DocumentError(f"isn't among the document's security schemes ({known}); {hint}")
    facts = given if "type" in given else document.follow(declared[name], document.main, "the scheme")[0]
    own, kind, http = facts is given, facts.get("type"), str(facts.get("scheme", "")).lower()
    if kind == "apiKey":
        place, key = facts.get("in"), facts.get("name")
        if place not in ("header", "query", "cookie") or not isinstance(key, str):
            raise DocumentError("an API key needs 'in' (header, query or cookie) and 'name'")
        if place != "query" and not HEADER_NAME.fullmatch(key):
            raise DocumentError(f"no {place} can have the name {key!r:.80}")
        return Scheme(name, "key", given, place, key, own=own)
    if kind == "http" and http in ("bearer", "basic"):
        return Scheme(name, cast("Any", http), given, own=own)
    if kind in ("oauth2", "openIdConnect") and "value" in given:
        return Scheme(name, "bearer", given, own=own)  # an access token from elsewhere
    if kind == "oauth2":
        flows: Any = facts.get("flows", {"clientCredentials": {"tokenUrl": facts.get("token_url", "")}})
        if "clientCredentials" not in flows and "token_url" not in given:
            hint = "get a token elsewhere and give it: 'env:NAME'"
            raise DocumentError(f"has only the flows {', '.join(flows) or 'none'}; {hint}")
        flow: Any = flows.get("clientCredentials", {})
        url = urljoin(document.main.location, str(given.get("token_url") or flow.get("tokenUrl", "")))
        origin_of(url)  # refuses what is no address
        scopes: Any = given.get("scopes")
        return Scheme(name, "client", given, token_url=url, scopes=None if scopes is None else tuple(scopes), own=own)
    what = f"http {http}" if kind == "http" else str(kind)
    hint = "API keys, bearer, basic, and OAuth2 client credentials are"
    raise DocumentError(f"the scheme {what!r:.60} isn't supported; {hint}")


@define(eq=False)
class Authenticator:
    """Chooses and makes the credentials of requests.

    Attributes:
        schemes: Those with credentials, by name.
    """

    schemes: Mapping[str, Scheme]
    _tokens: dict[tuple[str, tuple[str, ...]], tuple[str, float]] = field(factory=dict[Any, Any], init=False)

    def choose(self, security: Sequence[Mapping[str, tuple[str, ...]]]) -> list[tuple[Scheme, tuple[str, ...]]]:
        """The schemes for an operation, each with the scopes that it needs; none if it lacks credentials."""
        for group in security:
            if group and group.keys() <= self.schemes.keys():
                return [(self.schemes[name], scopes) for name, scopes in group.items()]
        return [(scheme, ()) for scheme in self.schemes.values() if scheme.own]

    def missing_schemes(self, security: Sequence[Mapping[str, tuple[str, ...]]]) -> list[str]:
        """The schemes without credentials, by name, that an operation may use, if it can't do without them."""
        if not security or {} in security or self.choose(security):
            return []
        return sorted({name for group in security for name in group.keys() - self.schemes.keys()})

    async def add(
        self, credentials: Credentials, chosen: Sequence[tuple[Scheme, tuple[str, ...]]], client: httpx2.AsyncClient
    ) -> None:
        """Adds the credentials by these schemes.

        Raises:
            ToolError: A secret is missing, or there is no token.
        """
        for scheme, scopes in chosen:
            if scheme.kind == "key":
                secret = await run_in_thread(scheme.secret, "value", credentials.secrets)
                _add_key(credentials, scheme, secret)
            elif scheme.kind == "bearer":
                secret = await run_in_thread(scheme.secret, "value", credentials.secrets)
                credentials.headers["authorization"] = f"Bearer {secret}"
            elif scheme.kind == "basic":
                credentials.headers["authorization"] = await run_in_thread(_basic, scheme, credentials.secrets)
            else:
                token = await self._token(scheme, scopes, client, credentials.secrets)
                credentials.headers["authorization"] = f"Bearer {token}"
        for name, value in credentials.headers.items():
            if not value.isascii() or not value.isprintable():
                raise ToolError("The credentials aren't set up correctly here. Tell the user.") from DocumentError(
                    f"the secret for the header {name!r} has characters that no header can have"
                )

    def forget(self, chosen: Sequence[tuple[Scheme, tuple[str, ...]]]) -> None:
        """Drops the tokens of these schemes, which the server has refused."""
        names = {scheme.name for scheme, _ in chosen}
        for key in [key for key in self._tokens if key[0] in names]:
            self._tokens.pop(key, None)

    async def _token(
        self, scheme: Scheme, scopes: tuple[str, ...], client: httpx2.AsyncClient, secrets: list[str]
    ) -> str:
        """An access token by the flow of client credentials, from the cache until shortly before its end."""
        wanted = tuple(sorted(scopes if scheme.scopes is None else scheme.scopes))
        token, end = self._tokens.get((scheme.name, wanted), ("", 0.0))
        if time.monotonic() >= end:
            user = await run_in_thread(scheme.secret, "client_id", [])
            password = await run_in_thread(scheme.secret, "client_secret", secrets)
            token, seconds = await _fetch_token(scheme, wanted, (user, password), client, secrets)
            self._tokens[scheme.name, wanted] = token, time.monotonic() + max(seconds - _EARLY, 1.0)
        secrets.append(token)
        return token


def _add_key(credentials: Credentials, scheme: Scheme, secret: str) -> None:
    if scheme.place == "header":
        credentials.headers[scheme.key] = secret
    elif scheme.place == "query":
        credentials.query.append(f"{quote(scheme.key, safe='')}={quote(secret, safe='')}")
    else:
        credentials.cookies.append(f"{scheme.key}={quote(secret, safe='')}")


def _basic(scheme: Scheme, secrets: list[str]) -> str:
    if "password" in scheme.given:
        pair = f"{scheme.secret('username', [])}:{scheme.secret('password', secrets)}"
    else:
        pair = scheme.secret("value", secrets)
        secrets.append(pair.partition(":")[2])
    encoded = base64.b64encode(pair.encode()).decode()
    secrets.append(encoded)
    return f"Basic {encoded}"


async def _fetch_token(
    scheme: Scheme, scopes: Sequence[str], pair: tuple[str, str], client: httpx2.AsyncClient, secrets: list[str]
) -> tuple[str, float]:
    """A new token, and for how many seconds it is valid."""
    import httpx2

    user, password = (quote(each, safe="") for each in pair)  # RFC 6749, 2.3.1
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    secrets.append(basic)
    form = {"grant_type": "client_credentials", **({"scope": " ".join(scopes)} if scopes else {})}
    headers = {"authorization": f"Basic {basic}", "accept": "application/json"}
    try:
        async with client.stream("POST", scheme.token_url, data=form, headers=headers) as response:
            content = b""
            async for part in response.aiter_raw():
                content += part
                if len(content) > _MOST_TOKEN:
                    break
        return _token_in(response.status_code, content)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        text = f"No access token could be got for {scheme.name!r}. Try again later, or tell the user."
        cause = hide(f"{scheme.token_url}: {error or type(error).__name__}", secrets)
        raise ToolError(text, retryable=isinstance(error, httpx2.TransportError)) from DocumentError(cause)


def _token_in(status: int, content: bytes) -> tuple[str, float]:
    """The token in an answer, and for how many seconds it is valid; raises `ValueError` if there is none."""
    if status != 200:
        raise ValueError(f"the answer is {status}: {content[:300]!r}")
    try:
        data: Any = json.loads(content)
        token, end = data["access_token"], data.get("expires_in")
        seconds = 300.0 if end is None else float(end)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        token, seconds = None, 0.0
    if not isinstance(token, str):
        raise ValueError("the answer has no access_token, or its expires_in isn't a number")  # noqa: TRY004  data from outside
    return token, min(86_400.0, seconds)  # in this order, NaN is the former, too


def may_get_secrets(location: str, base_url: str | None, url: str) -> bool:
    """Whether a server may get credentials: one that the settings name, or one that the document may choose.

    A document from a URL may choose only its own server; one from a file, any that it names.

    Args:
        location: The document's.
        base_url: The server in the settings.
        url: Where the credentials would be sent.
    """
    return not is_url(location) or origin_of(url) in {origin_of(each) for each in (location, base_url) if each}
