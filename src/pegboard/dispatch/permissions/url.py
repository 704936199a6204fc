"""URLs: what they lead to, and the patterns that look at them."""

from __future__ import annotations

import posixpath
import re
from functools import cached_property
from typing import Final
from urllib.parse import unquote

from attrs import field, frozen

from pegboard.dispatch.permissions.host import Host, HostError, HostPattern, host_of
from pegboard.dispatch.permissions.match import Match, Unreadable
from pegboard.dispatch.permissions.rule import Rule
from pegboard.dispatch.permissions.wildcard import Wildcard, wildcard

MOST_CHARACTERS: Final = 8192
_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
_WEB: Final = frozenset({None, "http", "https", "ws", "wss"})
"""What a pattern without a scheme allows."""

_URL: Final = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*)://)?(\[[^\]/?#@]*\]|[^/?#@:\[\]]*)(?::([0-9]*))?([/?][^#]*)?(?:#.*)?"
)
_STEPS: Final = re.compile(r"(?:^|/)\.{1,2}(?:$|[/;])|//")
"""What servers may shorten before they look at a path."""


def url_parts(text: str) -> tuple[Url | Unreadable]:
    """Where a URL leads, or what is said of one that programs may read in two ways."""
    try:
        return (url_of(text),)
    except HostError:
        return (Unreadable(text),)


def url_of(text: str) -> Url:
    r"""Reads a URL strictly. A missing scheme is left to the tool.

    Raises:
        HostError: It has spaces, control characters, `\` or a user name, no host or one that programs don't read
            alike, or a port that is none.
    """
    if len(text) > MOST_CHARACTERS or "\\" in text or not text.isprintable() or " " in text:
        raise HostError("no URL")
    found = _URL.fullmatch(text)
    if found is None:
        raise HostError("no URL")
    scheme, host, port, path = found.groups()
    read = host_of(host)
    if scheme is None and port is not None and not _is_surely_host(read, port):
        raise HostError("this may be a scheme")  # as in tel:110
    scheme = scheme and scheme.lower()
    number = int(port[:6]) if port else _PORTS.get(scheme or "")
    if number is not None and number > 65535:
        raise HostError("no port")
    path = path or "/"
    return Url(scheme, read, number, path if path.startswith("/") else f"/{path}")


def _is_surely_host(host: Host, port: str) -> bool:
    return port != "" and (host.is_address or "." in host.name or host.name == "localhost")


@frozen
class Url:
    """A URL.

    Attributes:
        scheme: In lower case, or `None`.
        host: Its host.
        port: Its own, or that of its scheme, or `None`.
        path: Path and query, from the first `/`.
    """

    scheme: str | None
    host: Host
    port: int | None
    path: str
    inside: bool = field(default=False, init=False)

    @property
    def origin(self) -> str:
        """Scheme, host, and the port where it isn't the scheme's own."""
        port = "" if self.port is None or self.port == _PORTS.get(self.scheme or "") else f":{self.port}"
        return f"{self.scheme + '://' if self.scheme else ''}{self.host}{port}"

    @property
    def shown(self) -> str:
        """In its normal form."""
        return self.origin + self.path

    @property
    def always(self) -> str | None:
        """Its scheme, host and port."""
        return self.origin

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Path and query in each form that a server may read them in; as written and unescaped first."""
        path, mark, query = self.path.partition("?")
        plain = unquote(unquote(path)).replace("\\", "/")
        return tuple(f"{form}{mark}{query}" for form in (path, plain, _shortened(plain)))

    @cached_property
    def is_certain(self) -> bool:
        """Whether all servers read the path alike: it has no steps back, also none in an escaped form."""
        path, plain = (each.partition("?")[0] for each in self.paths[:2])
        return path.count("/") == plain.count("/") and not _STEPS.search(plain) and plain.isprintable()

    def match(self, rule: Rule) -> Match:
        """By host first, then by what else the pattern says."""
        if rule.url.covers(self):
            return Match.SURELY
        return Match.PERHAPS if not rule.allows and rule.url.touches(self) else Match.NO


def _shortened(path: str) -> str:
    """A path without `.`, `..`, empty parts and what stands behind a `;` in one."""
    parts = "/".join(part.partition(";")[0] for part in path.split("/"))
    short = posixpath.normpath(re.sub(r"//+", "/", parts))
    return f"{short}/" if path.endswith("/") and short != "/" else short


@frozen
class UrlPattern:
    """`[scheme://]host[:port][/path]`; what it leaves out may be anything, but for a scheme that isn't the web's.

    Attributes:
        scheme: Of the scheme, or `None`.
        host: Of the host, its subdomains included.
        port: Or `None`.
        path: Of path and query, or `None`.
    """

    scheme: Wildcard | None
    host: HostPattern
    port: Wildcard | None
    path: Wildcard | None

    @classmethod
    def of(cls, pattern: str) -> UrlPattern:
        """Reads a pattern; any text is one."""
        scheme, mark, rest = pattern.partition("://")
        if not mark:
            scheme, rest = "", pattern
        start, slash, path = rest.partition("/")
        port = re.search(r":([0-9*?]+)$", start)
        host = start[: port.start()] if port else start
        return cls(
            wildcard(scheme.lower()) if scheme else None,
            HostPattern.of(host or "*"),
            wildcard(port[1]) if port else None,
            wildcard(f"/{path}") if slash else None,
        )

    def covers(self, url: Url) -> bool:
        """Whether the URL is surely meant."""
        if not (_fits(self.scheme, url.scheme, url.scheme in _WEB) and self.host.matches(url.host)):
            return False
        if not _fits(self.port, url.port, otherwise=True):
            return False
        return self.path is None or (url.is_certain and all(map(self.path.matches, url.paths[:2])))

    def touches(self, url: Url) -> bool:
        """Whether the URL may be meant."""
        if not (url.scheme is None or _fits(self.scheme, url.scheme, otherwise=True)):
            return False
        if not (url.port is None or _fits(self.port, url.port, otherwise=True)):
            return False
        return self.host.matches(url.host) and (self.path is None or any(map(self.path.matches, url.paths)))


def _fits(pattern: Wildcard | None, value: str | int | None, otherwise: bool) -> bool:
    return otherwise if pattern is None else value is not None and pattern.matches(str(value))


__all__ = ["Url", "UrlPattern", "url_of", "url_parts"]
