"""The plugin's settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Final, Literal, TypeAlias

from attrs import evolve, field, frozen

from pegboard.config import with_secrets
from pegboard.json import is_object
from pegboard.schema.converter import Allowed, read_table

Network: TypeAlias = IPv4Network | IPv6Network
Backend: TypeAlias = Literal["searxng", "brave", "tavily"]  # the search services that are built in


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _begins_with_http(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _up_to(most: float) -> Callable[[float], bool]:
    return lambda number: 0 < number <= most


_Networks: TypeAlias = Annotated[
    tuple[str, ...],
    Allowed("a list of addresses and networks, such as '10.1.0.0/16'", lambda texts: all(map(_is_network, texts))),
]
_Address: TypeAlias = Annotated[
    str | None,
    Allowed("an address such as https://example.com", lambda text: text is None or _begins_with_http(text)),
]
_Seconds: TypeAlias = Annotated[float, Allowed("a number of seconds above 0, up to 600", _up_to(600))]
PLACE: Final = "plugins.web"
_MOST_BYTES: Final = 100_000_000


@frozen(kw_only=True)
class SearchSettings:
    """Settings of `web_search`.

    Attributes:
        backend: The search service.
        url: Its address: required for SearXNG, else the service's own.
        key: The key of Brave or Tavily.
        proxy: The proxy for searches.
        timeout: Seconds for one search.
    """

    backend: Backend
    url: _Address = None
    key: str | None = field(default=None, repr=False)
    proxy: _Address = field(default=None, repr=False)
    timeout: _Seconds = 15.0

    @property
    def lacks(self) -> str | None:
        """The setting that the backend can't do without, if it isn't there."""
        needed = "url" if self.backend == "searxng" else "key"
        return None if getattr(self, needed) else needed


@frozen(kw_only=True)
class Settings:
    """Settings of the plugin.

    Attributes:
        allow: Addresses and networks that pages may come from although they aren't reachable from everywhere.
        timeout: Seconds for one page, with its redirects.
        most_bytes: The maximum size of a page, decompressed: the rest of a text is left out, other content refused.
        cache_seconds: How long a page is kept; 0 keeps none.
        proxy: The proxy for pages. It gets the address that was checked, not the host's name.
        search: Settings of `web_search`; without them it isn't offered.
    """

    allow: _Networks = ()
    timeout: _Seconds = 15.0
    most_bytes: Annotated[int, Allowed(f"a number of bytes, 1 to {_MOST_BYTES:,}", _up_to(_MOST_BYTES))] = 512_000
    cache_seconds: Annotated[
        float, Allowed("a number of seconds, 0 or more", lambda number: 0 <= number < math.inf)
    ] = 300.0
    proxy: _Address = field(default=None, repr=False)
    search: SearchSettings | None = None

    @property
    def networks(self) -> list[Network]:
        """What `allow` says."""
        return [ip_network(text) for text in self.allow]


def read_settings(table: Mapping[str, Any]) -> Settings:
    """The settings of a table `[plugins.web]`.

    Raises:
        ValueError: A setting is unknown or wrong: `"plugins.web.key: reason"`.
    """
    settings = read_table(Settings, {key: value for key, value in table.items() if key != "search"}, PLACE)
    if (search := table.get("search")) is None:
        return settings
    return evolve(settings, search=read_table(SearchSettings, search, f"{PLACE}.search"))


def check_proxies(given: Mapping[str, Any]) -> None:
    """Checks that no proxy is left out: pages would be fetched without it.

    Args:
        given: The table `[plugins.web]` with references to secrets.

    Raises:
        ValueError: The secret of a proxy is missing.
    """
    if missing := missing_secret(given, "proxy") or missing_secret(given, "search", "proxy"):
        raise ValueError(f"{missing}. Nothing is fetched without it: set it, or remove the setting")


def missing_secret(given: Mapping[str, Any], *path: str) -> str | None:
    """A sentence on the secret that a setting refers to, if it is missing.

    Args:
        given: The table `[plugins.web]` with references to secrets.
        path: The keys of the setting in it.
    """
    value: Any = dict(given)
    for key in path:
        value = value.get(key) if is_object(value) else None
    missing: list[str] = []
    with_secrets({".".join((PLACE, *path)): value}, missing, [])
    return missing[0] if missing else None
