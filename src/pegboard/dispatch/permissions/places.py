"""Paths, hosts and URLs as rules match them: in one normal form, and only where programs agree on it."""

from __future__ import annotations

import errno
import os
import posixpath
import re
import sys
from contextlib import suppress
from functools import cached_property, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import unquote

import attrs
from attrs import field, frozen

from pegboard.dispatch.permissions.rule import (
    HOLE,
    Folders,
    Match,
    Part,
    Rule,
    UnreadableError,
    Wildcard,
    exactly,
    refuse_if,
    wildcard,
)
from pegboard.text import confusable_key, printable, visible

MOST_LINKS: Final = 40  # followed in one path, as on Linux
MOST_PATH: Final = 4096  # bytes of one path, as on Linux (`PATH_MAX`)
_NO_LINK: Final = frozenset({errno.EINVAL, errno.ENOENT, errno.ENOTDIR, errno.EACCES})
"""The errors of `readlink` where there is no link, nothing at all, or no access for this process."""

_MOST_FOLDERS: Final = 256  # for which one rule caches its compiled pattern
_BEFORE_HOME: Final = re.compile(r"(?:\./+)+(?=~)")
_IS_URL: Final = re.compile(r"(?i)[a-z][a-z0-9+.-]*://|file:")
_FOLDS_CASE: Final = sys.platform in ("darwin", "win32")  # `A` and `a` may be one file: a deny rule applies to both


def place_of(text: str, folders: Folders, known: str = "") -> PathPart:
    """Resolves a path component by component, through links; what doesn't exist yet stays as written.

    A tool may apply `..` before it follows links, or after, and expand `~` after `./` as pathlib does: if the results
    differ, all count. It may take `~` literally, or expand `$NAME`: those count for deny and ask rules only. `known` is
    as in `resolve`. A cycle of links, a path that no system accepts, a URL, or no folder is unreadable.
    """
    if not text or not folders.places or _IS_URL.match(text):
        raise UnreadableError("no path")
    folder = folders.places[0]
    written = _join(text, folder)
    real, loose = [resolve(written, known)], [os.path.normpath(written)]
    if ".." in written:
        real.append(resolve(loose[0]))
    if before := _BEFORE_HOME.match(text):
        real.append(resolve(_join(text[before.end() :], folder)))
    if text.startswith("~"):
        loose.append(resolve(f"{folder}/{text}"))
    if "$" in text and (filled := os.path.expandvars(text)) != text:
        loose.append(resolve(_join(filled, folder)))
    names = tuple(map(_name_of, dict.fromkeys((*real, *loose))))
    return PathPart(tuple(dict.fromkeys(real)), names, folders)


def resolve(path: str, known: str = "") -> str:
    """An absolute path without links, `.` and `..`; its end need not exist. Raises as `place_of`.

    `known` is a folder without links, with a `/` after it: it was resolved just before, and isn't examined again.
    """
    done, links = "", 0
    if path.startswith(known):
        done, path = known[:-1], path[len(known) :]
    waiting = path.split("/")[::-1]
    while waiting:
        part = waiting.pop()
        if part == "..":
            done = done.rpartition("/")[0]
        elif part not in ("", "."):
            place = f"{done}/{part}"
            target = None if known.startswith(f"{place}/") else _target(place)
            if target is None:
                done = place
                continue
            links += 1
            refuse_if(links > MOST_LINKS, "too many links")
            done = "" if target.startswith("/") else done
            waiting.extend(target.split("/")[::-1])
    return done or "/"


def _join(text: str, folder: str) -> str:
    try:
        path = os.path.expanduser(text) if text.startswith("~") else text  # noqa: PTH111  (pathlib takes "." and "//" away)
        path = path if path.startswith("/") else os.path.join(folder, path)  # noqa: PTH118
        refuse_if("\0" in path or len(os.fsencode(path)) > MOST_PATH, "no path")
    except ValueError:  # also of a lone surrogate, or NUL in a user's name
        raise UnreadableError("no path") from None
    return path


def _target(path: str) -> str | None:
    """The target of a link, or `None` if there is no link."""
    try:
        return os.readlink(path)  # noqa: PTH115  (it costs half as much)
    except OSError as error:
        if error.errno in _NO_LINK:
            return None
        raise UnreadableError(f"{error.strerror}") from None


@frozen(eq=False)
class PathPattern:
    """Compiled path pattern."""

    start: str  # literal prefix: a folder without links, with its last `/`
    rest: Wildcard | None  # pattern of what follows; `None`: nothing

    def matches(self, place: str) -> bool:
        """Whether a path matches."""
        if self.rest is None:
            return place == self.start
        return place.startswith(self.start) and self.rest.matches(place[len(self.start) :])

    def touches(self, name: Name) -> bool:
        """Whether a path may match, with its names compared by how they look, or as they are shown escaped."""
        path, looks = name
        if self.matches(path):
            return True
        return (self._alike is not self or looks != (path,)) and any(map(self._alike.matches, looks))

    @cached_property
    def _alike(self) -> PathPattern:
        """The pattern as it looks; itself if it looks as it is written."""
        rest = "" if self.rest is None else self.rest.pattern
        alike = _look_of(self.start), rest and (_look_of(rest) or "*")
        return self if alike == (self.start, rest) else _compile(*alike)


@lru_cache(1_024)
def _compile(place: str, rest: str) -> PathPattern:
    """One object for equal patterns: calls resolve them again, and mostly to the same."""
    return PathPattern(f"{place.rstrip('/')}/" if place and rest else place, wildcard(rest) if rest else None)


Name: TypeAlias = tuple[str, tuple[str, ...]]  # a path, and how it looks: as it is, and as it is shown


def _name_of(path: str) -> Name:
    shown = () if path.isascii() and path.isprintable() else (visible(path), printable(path))
    return path, tuple(map(_look_of, (path, *shown)))


def _look_of(path: str) -> str:
    """A path as it looks, casefolded if the system may ignore case."""
    if not (path.isascii() and path.isprintable() and " " not in path):
        path = "/".join(map(confusable_key, path.split("/")))
    return path.casefold() if _FOLDS_CASE else path


def path_patterns(pattern: str, folder: str, known: str = "") -> tuple[PathPattern | None, ...]:
    """Compiles a path pattern, in two ways: its literal start resolved as a path is, and as written; once if the same.

    A pattern that starts with `*` or `?` starts anywhere; any other relative one starts at the absolute `folder`.
    `$NAME` is filled in from the environment. One that ends with `/` matches everything in the folder. `known` is as in
    `resolve`. It is `None` where its start can't be resolved.
    """
    pattern = os.path.expandvars(pattern) if "$" in pattern else pattern
    split = _split.__wrapped__ if pattern.startswith("~") else _split  # the home folder may change
    try:
        written, short, rest = split(pattern, folder)
    except UnreadableError:
        return (None,)
    if written is None:
        return (_compile("", rest),)
    try:
        real = resolve(written, known)
    except UnreadableError:
        return None, _compile(short, rest)
    return tuple(_compile(place, rest) for place in dict.fromkeys((real, short)))


@lru_cache(1_024)
def _split(pattern: str, folder: str) -> tuple[str | None, str, str]:
    """The literal start of a path pattern, `None` if it may be anywhere; without `..`; and the rest."""
    if pattern.endswith("/"):
        pattern += "*"
    literal = re.split(r"[*?]", pattern, maxsplit=1)[0]
    if not literal:
        return None, "", pattern
    cut = len(pattern) if literal == pattern else literal.rfind("/") + 1
    written = _join(pattern[:cut] or ".", folder)
    return written, os.path.normpath(written), pattern[cut:]


@frozen
class PathPart(Part):
    """File system path."""

    real: tuple[str, ...]  # the path without links; several if `..` or `~` can be read in two ways
    names: tuple[Name, ...]  # these, and for deny and ask rules only, the path as written and by other readings
    folders: Folders  # where relative patterns start; for allow rules, the first only
    shown: str = field(default=attrs.Factory(lambda self: self.real[0], takes_self=True), init=False)

    @property
    def literal(self) -> str | None:
        """The path, unless it can be read in two ways."""
        return self.shown if len(self.real) == 1 and HOLE not in self.shown else None

    @property
    def wider(self) -> str | None:
        """Everything in its folder, unless that is the root."""
        folder = exactly(self.shown.rpartition("/")[0])
        return folder and f"{folder}/*"

    def holds(self, other: PathPart) -> bool:
        """Whether another path is this one or below it, by names as they are shown, as tools may accept those."""
        here = tuple(printable(each).rstrip("/") + "/" for each in self.real)
        return all(f"{printable(each)}/".startswith(here) for each in other.real)

    def match(self, rule: Rule) -> Match:
        """Matches the real path; deny and ask rules also match the path as written."""
        first = _first_pattern(rule, self.folders.places[0])
        if rule.allows:
            return Match.SURELY if first is not None and all(map(first.matches, self.real)) else Match.NO
        pattern, known = rule.pattern, self.folders.patterns
        if pattern not in known:
            here = f"{self.real[0]}/"
            known[pattern] = [each for place in self.folders.places for each in path_patterns(pattern, place, here)]
        patterns = {first, *known[pattern]}
        if None in patterns:
            return Match.PERHAPS
        matches = [any(each is not None and each.touches(name) for each in patterns) for name in self.names]
        return Match.NO if not any(matches) else Match.SURELY if all(matches) else Match.PERHAPS


def _first_pattern(rule: Rule, folder: str) -> PathPattern | None:
    """A rule's pattern, its links resolved when it is first used: changed links mustn't widen it."""
    if folder in rule.compiled:
        return rule.compiled[folder]
    pattern = path_patterns(rule.pattern, folder)[0]
    return pattern if len(rule.compiled) >= _MOST_FOLDERS else rule.compiled.setdefault(folder, pattern)


_MOST_HOST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""The last label of what browsers read as an IPv4 address, also spelled 127.1, 2130706433 or 0x7f000001."""


@frozen
class Host:
    """Normalised host."""

    name: str  # in lower case, without its last dot, ASCII (`xn--...`); of an address its shortest form
    is_address: bool = False  # whether it is an IP address, which has no subdomains
    also: tuple[Host, ...] = ()  # other names and addresses of the same host, for deny and ask rules only

    def __str__(self) -> str:
        return f"[{self.name}]" if ":" in self.name else self.name


def host_of(text: str) -> Host:
    """Parses a host: a name, an IPv4 address, or an IPv6 address in brackets.

    Unreadable is what programs may read differently: escapes, other spellings of an IPv4 address, letters that are
    changed in the conversion to ASCII.
    """
    if text.startswith("[") and text.endswith("]"):
        return _address(text[1:-1])
    name = text.lower().removesuffix(".")
    name = name if name.isascii() else _ascii_name(name)
    labels = name.split(".")
    refuse_if(len(name) > _MOST_HOST or not all(map(_LABEL.fullmatch, labels)), "no host")
    if _NUMBER.fullmatch(labels[-1]):
        return _address(name)
    return Host(name, also=_LOOPBACK if labels[-1] in _LOOPBACK_NAMES else ())


def _ascii_name(name: str) -> str:
    """The ASCII form (IDNA) of a lower-case name, if it has the same meaning (`ß` is `ss` to some programs)."""
    with suppress(UnicodeError):
        encoded = name.encode("idna")
        if encoded.decode("idna") == name:
            return encoded.decode()
    raise UnreadableError("no host")


def _address(text: str) -> Host:
    try:
        address = IPv6Address(text) if ":" in text else IPv4Address(text)
    except ValueError:
        raise UnreadableError("no address") from None
    also: tuple[Host, ...] = ()
    if isinstance(address, IPv6Address):
        refuse_if(address.scope_id is not None, "no address")
        if address.ipv4_mapped is not None:
            return _address(str(address.ipv4_mapped))
        bits, inner = int(address), [address.sixtofour, *(address.teredo or ())]
        if any(address in network for network in _EMBEDDING) or bits >> 32 & _ISATAP[0] == _ISATAP[1]:
            inner.append(IPv4Address(bits & 0xFFFFFFFF))
        if address in _EMBEDDING[1]:  # or in the bits after the 48 of the network, except 64-71
            inner.append(IPv4Address((bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF))
        also = tuple(_address(str(each)) for each in inner if each is not None)
    if address.is_loopback or address.is_unspecified:
        also += _LOOPBACK
    return Host(str(address), is_address=True, also=also)


_LOOPBACK_NAMES: Final = ("localhost", "ip6-localhost", "ip6-loopback")
_LOOPBACK: Final = (
    *map(Host, _LOOPBACK_NAMES),
    *(Host(each, is_address=True) for each in ("127.0.0.1", "::1", "0.0.0.0", "::")),  # noqa: S104
)
"""The hosts that `localhost`, a loopback address and the unspecified address may reach."""

_EMBEDDING: Final = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")))
"""Networks of IPv6 whose last 32 bits are an address of IPv4."""

_ISATAP: Final = (0xFDFFFFFF, 0x5EFE)
"""Mask and value of the third 32 bits of such an address, which are 0000:5efe or 0200:5efe."""

_NETWORK: Final = re.compile(r"(?i)[0-9.]+/[0-9]{1,2}|\[?[0-9a-f:.]*:[0-9a-f:.]*\]?/[0-9]{1,3}")  # or a path of a host
_IPV6: Final = re.compile(r"(?=.*:.*:)[0-9a-f:.]+")
"""An IPv6 address or a pattern of some: a name with a port has one colon only."""


def _host_pattern(pattern: str) -> Wildcard:
    """Compiles a host pattern: a name, also with a leading dot; an address in any spelling; a wildcard."""
    pattern = pattern.lower().removeprefix(".")
    bare = pattern.removeprefix("[").removesuffix("]")
    with suppress(UnreadableError):
        return wildcard(host_of(f"[{bare}]" if _IPV6.fullmatch(bare) else pattern).name)
    if _NUMBER.fullmatch(pattern.rpartition(".")[2]):
        import socket

        with suppress(OSError):
            return wildcard(socket.inet_ntoa(socket.inet_aton(pattern)))
    labels = bare.removesuffix(".").split(".")
    for place, label in enumerate(labels):
        with suppress(UnreadableError):
            labels[place] = label if label.isascii() else _ascii_name(label)
    return wildcard(".".join(labels))


def url_problem(rule: Rule) -> str | None:
    """Why a rule can't match what it seems to if its pattern is read as a URL; `None` if it can."""
    pattern, read = rule.pattern, url_pattern(rule.pattern)
    name = read.names.pattern
    if read.has_user and rule.allows:
        return "a URL with a user name is never allowed: it matches nothing."
    if odd := re.search(r"[^a-zA-Z0-9_.*?:\[\]/-]", name):
        return f"no host has the character {odd[0]!r}: it matches nothing."
    if read.network is None and _NETWORK.fullmatch(pattern.partition("://")[2] or pattern):
        return "there is no such network: it is about a path of that host."
    if re.match(r"[^/]*://([/:]|$)|/(?!/)", pattern):
        return "it names no host, and is about every one."
    if read.network is None and exactly(name):
        try:
            host_of(f"[{name}]" if ":" in name else name)
        except UnreadableError:
            return f"no host is called {name!r}: it matches nothing."
    return None


def path_problem(rule: Rule) -> str | None:
    """As `url_problem`, for a pattern that is read as a path."""
    pattern = rule.pattern
    if _IS_URL.match(pattern):
        return "a URL is not a path: it matches nothing."
    if re.search(r"[*?].*/\.{0,2}/|[*?].*/\.{1,2}$", pattern):
        return "no path has '..', '.' or '//' after its start: it matches nothing."
    if "/**/" in pattern:
        return "'**' is '*' here: 'a/**/b' isn't 'a/b'."
    named = os.path.expanduser(os.path.expandvars(pattern))  # noqa: PTH111
    if named.startswith("~") and "/" in named:
        return f"there is no user {named[1:].partition('/')[0]!r} here: it means a name that begins with '~'."
    if not rule.allows and exactly(pattern) and not pattern.endswith("/") and os.path.isdir(named):  # noqa: PTH112
        return f"it is about the folder alone; what is in it is '{pattern}/*'."
    unset = re.search(r"\$(\w+|\{[^}]*\})", os.path.expandvars(pattern))
    return unset and f"{unset[0]} isn't set here: it matches nothing."


MOST_URL: Final = 8192
_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
_WEB: Final = frozenset({None, "http", "https", "ws", "wss"})  # what a pattern without a scheme allows
_URL: Final = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*)://)?(\[[^\]/?#@]*\]|[^/?#@:\[\]]*)(?::([0-9]*))?([/?][^#]*)?(?:#.*)?"
)

_STEPS: Final = re.compile(r"(?:^|/)\.{1,2}(?:$|[/;])|//")  # what servers may shorten before they look at a path
_NAME_ENDS: Final = re.compile(r"[?\0]")


def url_of(text: str) -> Url:
    r"""Parses a URL strictly; a missing scheme is left to the tool.

    Unreadable are spaces, control characters, `\`, a user name, no host or one that programs may read differently, or
    an invalid port.
    """
    refuse_if(len(text) > MOST_URL or "\\" in text or not text.isprintable() or " " in text, "no URL")
    found = _URL.fullmatch(text)
    if found is None:
        raise UnreadableError("no URL")
    scheme, host, port, path = found.groups()
    read = host_of(host)
    is_host = read.is_address or "." in read.name or read.name == "localhost"
    refuse_if(scheme is None and port is not None and not (port and is_host), "this may be a scheme, as in tel:110")
    scheme = scheme and scheme.lower()
    number = int(port[:6]) if port else _PORTS.get(scheme or "")
    refuse_if(number is not None and number > 65535, "no port")
    path = path or "/"
    return Url(scheme, read, number, path if path.startswith("/") else f"/{path}")


@frozen
class Url(Part):
    """URL, shown in its normal form."""

    scheme: str | None  # in lower case, or `None`
    host: Host  # its host
    port: int | None  # its own, or that of its scheme, or `None`
    path: str  # path and query, from the first `/`
    shown: str = field(default=attrs.Factory(lambda self: self.wider + self.path, takes_self=True), init=False)

    @property
    def literal(self) -> str | None:
        """Its normal form, if all servers read it alike."""
        return self.shown if self.is_certain else None

    @property
    def wider(self) -> str:
        """Its scheme, host and port."""
        port = "" if self.port in (None, _PORTS.get(self.scheme or "")) else f":{self.port}"
        return f"{self.scheme + '://' if self.scheme else ''}{self.host}{port}"

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Path and query in each form that a server may read; as written and unescaped first."""
        path, mark, query = self.path.partition("?")
        plain = unquote(unquote(path)).replace("\\", "/")
        return tuple(f"{form}{mark}{query}" for form in (path, plain, _shorten(plain)))

    @cached_property
    def is_certain(self) -> bool:
        """Whether all servers read the path alike: it has no `.`, `..` or `//`, not even escaped."""
        path, plain = (each.partition("?")[0] for each in self.paths[:2])
        return path.count("/") == plain.count("/") and not _STEPS.search(plain) and plain.isprintable()

    def match(self, rule: Rule) -> Match:
        """An allow rule must cover the URL; a deny or ask rule may only touch it."""
        pattern = url_pattern(rule.pattern)
        if pattern.covers(self):
            return Match.SURELY
        return Match.PERHAPS if not rule.allows and pattern.touches(self) else Match.NO


def _shorten(path: str) -> str:
    """A path without `.`, `..`, empty parts and parameters (`;...`)."""
    parts = "/".join(part.partition(";")[0] for part in path.split("/"))
    short = posixpath.normpath(re.sub(r"//+", "/", parts))
    return f"{short}/" if path.endswith("/") and short != "/" else short


@frozen
class UrlPattern:
    """URL pattern, `[scheme://]host[:port][/path]`; what is omitted may be anything, for `covers` a web scheme."""

    scheme: Wildcard | None
    names: Wildcard  # of the host's name, which includes subdomains, or of its address in the shortest form
    network: IPv4Network | IPv6Network | None  # of addresses, instead of `names`
    port: Wildcard | None
    path: Wildcard | None  # of path and query
    has_user: bool = False  # it names a user, which no URL that can be read has: it allows nothing

    def means(self, host: Host) -> bool:
        """Whether the host or one of its parent domains matches."""
        if self.network is not None:
            return host.is_address and ip_address(host.name) in self.network
        if self.names.is_everything or self.names.test(host.name):
            return True
        labels = [] if host.is_address else host.name.split(".")
        return any(self.names.test(".".join(labels[place:])) for place in range(1, len(labels)))

    def covers(self, url: Url) -> bool:
        """Whether the URL surely matches."""
        if self.has_user or (url.scheme not in _WEB if self.scheme is None else not url.scheme):
            return False
        if (self.port and url.port is None) or not (self._may_be(url) and self.means(url.host)):
            return False
        return self.path is None or (url.is_certain and all(map(self.path.matches, url.paths[:2])))

    def touches(self, url: Url) -> bool:
        """Whether the URL may match."""
        if not (self._may_be(url) and any(map(self.means, (url.host, *url.host.also)))):
            return False
        if self.path is None:
            return True
        # Servers answer alike without a query and what ends a name, and some of them in either case.
        bare = [_NAME_ENDS.split(path)[0] for path in url.paths]
        forms = (*url.paths, *bare, *(path.rstrip("/. ") for path in bare))
        pattern = wildcard(self.path.pattern.casefold())
        return any(pattern.matches(path.casefold()) for path in forms)

    def _may_be(self, url: Url) -> bool:
        """Whether scheme and port match, or aren't known."""
        pairs = ((self.scheme, url.scheme), (self.port, url.port))
        return all(pattern is None or value is None or pattern.test(str(value)) for pattern, value in pairs)


@lru_cache(1_024)
def url_pattern(pattern: str) -> UrlPattern:
    """Compiles a pattern; any text is one."""
    scheme, mark, rest = pattern.strip().partition("://")
    if not mark:
        scheme, rest = "", pattern.strip().removeprefix("//")
    kind = wildcard(scheme.lower()) if scheme else None
    if _NETWORK.fullmatch(rest):
        with suppress(ValueError):
            network = ip_network(rest.replace("[", "").replace("]", ""), strict=False)
            return UrlPattern(kind, wildcard("*"), network, None, None)
    start, slash, path = rest.partition("/")
    user, at, start = start.rpartition("@")
    bare = _IPV6.fullmatch(start.replace("*", "0").replace("?", "0").lower())
    port = None if bare else re.search(r":([0-9*?]+)$", start)
    names = _host_pattern((start[: port.start()] if port else start) or "*")
    paths = wildcard(f"/{path}") if slash else None
    return UrlPattern(kind, names, None, wildcard(port[1]) if port else None, paths, bool(user or at))
