"""Hosts: the one way to write a host's name, and whether a pattern means it."""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from pegboard.dispatch.permissions.wildcard import Wildcard, wildcard

_MOST_HOST: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""The last label of what browsers read as an IPv4 address, also written as 127.1, 2130706433 or 0x7f000001."""


class HostError(ValueError):
    """No host, or one that programs don't read alike."""


@frozen
class Host:
    """A host.

    Attributes:
        name: In lower case, without its last dot, ASCII (`xn--...`); of an address its shortest form.
        is_address: Whether it is an IP address, which has no subdomains.
    """

    name: str
    is_address: bool = False

    def __str__(self) -> str:
        return f"[{self.name}]" if ":" in self.name else self.name


def host_of(text: str) -> Host:
    """Reads a host.

    Args:
        text: A name, an IPv4 address, or an IPv6 address in brackets.

    Raises:
        HostError: It isn't one that all programs read alike: escapes, other spellings of an IPv4 address, letters
            that are changed on their way to ASCII.
    """
    if text.startswith("[") and text.endswith("]"):
        return _address(text[1:-1])
    name = ascii_name(text.lower().removesuffix("."))
    labels = name.split(".")
    if len(name) > _MOST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise HostError("no host")
    return _address(name) if _NUMBER.fullmatch(labels[-1]) else Host(name)


def ascii_name(name: str) -> str:
    """A lower-case name as DNS has it; letters that stand for others there are refused.

    Raises:
        HostError: It has no such form, or says something else in it (`ß` is `ss` to some programs).
    """
    if name.isascii():
        return name
    try:
        encoded = name.encode("idna").decode()
        same = encoded.encode().decode("idna") == name
    except UnicodeError:
        raise HostError("no host") from None
    if not same:
        raise HostError("no host")
    return encoded


def _address(text: str) -> Host:
    import ipaddress

    try:
        address = ipaddress.IPv6Address(text) if ":" in text else ipaddress.IPv4Address(text)
    except ValueError:
        raise HostError("no address") from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise HostError("no address")
        address = address.ipv4_mapped or address
    return Host(str(address), is_address=True)


@frozen
class HostPattern:
    """A pattern of hosts: a name means its subdomains, too.

    Attributes:
        names: The names.
    """

    names: Wildcard

    @classmethod
    def of(cls, pattern: str) -> HostPattern:
        """A pattern as it is written; one that is no host means none, save by `*`."""
        try:
            return cls(wildcard(host_of(pattern).name))
        except HostError:
            labels = pattern.lower().removesuffix(".").split(".")
            return cls(wildcard(".".join(map(_written, labels))))

    def matches(self, host: Host) -> bool:
        """Whether the host, or one that it is a subdomain of, is meant."""
        if host.is_address:
            return self.names.matches(host.name)
        labels = host.name.split(".")
        return any(self.names.matches(".".join(labels[place:])) for place in range(len(labels)))


def _written(label: str) -> str:
    try:
        return ascii_name(label)
    except HostError:
        return label


__all__ = ["Host", "HostError", "HostPattern", "host_of"]
