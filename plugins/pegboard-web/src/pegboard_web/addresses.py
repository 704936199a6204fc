"""Which URLs and addresses a page may come from."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

import httpx2

from pegboard import ToolError
from pegboard.errors import PegboardError
from pegboard.threads import run_in_thread
from pegboard_web.foreign import short
from pegboard_web.settings import Network

_MOST_URL: Final = 8_192
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""The last label of what programs read as an IPv4 address, also spelled 127.1, 2130706433 or 0x7f000001."""

_UNICAST: Final = IPv6Network("2000::/3")  # all that is global in IPv6, with those of older Pythons left out
_NOT_GLOBAL: Final = (  # older Pythons call these global, and all do Azure's and two addresses of the next
    IPv4Network("192.0.0.0/24"),  # protocols
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("168.63.129.16/32"),  # the host of each machine in Azure's cloud, which gives it its secrets
    IPv6Network("2001::/23"),  # protocols, Teredo among them, which embeds an IPv4 address
    IPv6Network("2002::/16"),  # 6to4, which embeds one, too
    IPv6Network("3fff::/20"),  # documentation
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""An IPv4 address as hosts without IPv4 reach it; as global as that address (RFC 6052)."""


class AddressError(PegboardError):
    """Why a host is refused, for the operator."""


def parse_url(text: str) -> httpx2.URL:
    """A URL that may be fetched as far as its text shows, without its fragment.

    Raises:
        ToolError: It isn't one of http or https, has credentials in it, or a host that programs read differently.
    """
    no_url = ToolError(f"{short(text)!r} isn't a URL. Send one like https://example.com/page.")
    if len(text) > _MOST_URL or not text.isprintable() or " " in text or "\\" in text:
        raise no_url
    try:
        url = httpx2.URL(text)
        port = url.port
    except (httpx2.InvalidURL, ValueError):
        raise no_url from None
    if url.scheme not in ("http", "https"):
        raise ToolError(f"{short(text)!r} can't be fetched: only http:// and https:// can.")
    if url.userinfo or "@" in re.split("[/?#]", text.partition("//")[2], maxsplit=1)[0]:
        raise ToolError("A URL with a user name or password in it can't be fetched. Send it without.")
    if port is not None and not 0 < port < 65_536:
        raise ToolError(f"{short(text)!r} has no valid port.")
    _check_host(url.raw_host.decode("ascii"))
    return url.copy_with(fragment=None)


def _check_host(host: str) -> None:
    if ":" in host:
        if "%" in host:
            raise ToolError(f"[{host}] has a zone in it, which means something on this machine only.")
        IPv6Address(host)  # as httpx2 has checked
        return
    labels = host.removesuffix(".").split(".")
    if len(host) > 254 or not all(map(_LABEL.fullmatch, labels)):
        raise ToolError(f"{short(host)!r} isn't a valid host. Send a URL like https://example.com/page.")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            IPv4Address(host)
        except ValueError:
            raise ToolError(f"{short(host)!r} is an unusual way to write an address. Write it as 192.0.2.1.") from None


def is_global(address: IPv4Address | IPv6Address) -> bool:
    """Whether everybody reaches the same host by an address; stricter than Python's own `is_global`.

    IPv4 addresses that are mapped into IPv6 and those that tunnels embed aren't, whatever they embed.
    """
    if address in _NAT64:
        return is_global(IPv4Address(int(address) & 0xFFFFFFFF))
    if isinstance(address, IPv6Address) and (address.scope_id is not None or address not in _UNICAST):
        return False
    return address.is_global and not address.is_multicast and not any(address in each for each in _NOT_GLOBAL)


def is_allowed(text: str, allowed: Sequence[Network]) -> bool:
    """Whether a page may come from an address: if it is global, or in one of these networks."""
    address = ip_address(text)
    return is_global(address) or any(address in network for network in allowed)


async def resolve(host: str, port: int, allowed: Sequence[Network]) -> list[str]:
    """The addresses of a host, each of them checked.

    Args:
        host: A name in ASCII, or an address.
        port: The port.
        allowed: Networks whose addresses are allowed although they aren't global.

    Raises:
        ToolError: It has none, or one of them isn't allowed.
    """
    find = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = await run_in_thread(find)
    except (OSError, UnicodeError) as error:
        again = getattr(error, "errno", None) == socket.EAI_AGAIN
        text = f"There is no host {short(host)!r}, as far as this machine can find out. Check the name."
        raise ToolError(text, retryable=again) from error
    addresses = list(dict.fromkeys(str(place[4][0]) for place in found))
    refused = [address for address in addresses if not is_allowed(address, allowed)]
    if refused:
        text = f"{short(host)!r} can't be fetched: its address isn't reachable from the whole internet."
        cause = f"{host} has the address {refused[0]}; plugins.web.allow can allow it"
        raise ToolError(f"{text} Continue without it, or tell the user.") from AddressError(cause)
    return addresses
