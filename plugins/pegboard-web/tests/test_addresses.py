"""Which URLs and addresses a page may come from."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given, strategies as st

from pegboard import ToolError
from pegboard_web.addresses import is_allowed, is_global, parse_url, resolve


@pytest.mark.parametrize(
    "text",
    [
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.16.0.1"),
        *(
            "192.0.0.1",
            "192.0.0.9",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "168.63.129.16",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
        ),
        *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1"),
        *("64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::8.8.8.8", "64:ff9b:1:ffff::1"),
        *("2002:7f00:1::", "2002:808:808::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001::1"),
        *("100::1", "2001:db8::1", "3fff::1", "5f00::1", "fc00::1", "fd12::1", "fe80::1", "fec0::1", "ff02::1"),
        *("fe80::1%1", "2606:4700::1%1"),
    ],
)
def test_what_not_everybody_reaches_isnt_global(text):
    assert not is_global(ip_address(text))


@pytest.mark.parametrize("text", ["8.8.8.8", "93.184.215.14", "2606:4700::1", "2a00:1450::1", "64:ff9b::8.8.8.8"])
def test_public_addresses_are_global(text):
    assert is_global(ip_address(text))


_EMBEDDINGS = (
    IPv6Address,
    lambda address: IPv6Address(0xFFFF << 32 | address),
    lambda address: IPv6Address((0x64FF9B << 96) | address),
    lambda address: IPv6Address((0x64FF9B0001 << 80) | address),
    lambda address: IPv6Address((0x2002 << 112) | (address << 80)),
    lambda address: IPv6Address((0x20010000 << 96) | (address ^ 0xFFFFFFFF)),
)


@given(st.ip_addresses(v=4).filter(lambda address: not is_global(address)), st.sampled_from(_EMBEDDINGS))
def test_no_embedding_makes_an_address_global(address, embed):
    """An IPv4 address that isn't global isn't in any form of IPv6 either."""
    assert not is_global(embed(int(address)))


@given(st.ip_addresses())
def test_it_is_never_wider_than_pythons_own(address):
    """NAT64's prefix apart, which older Pythons know as global in all cases."""
    assert not is_global(address) or address.is_global


def test_networks_of_the_settings_are_allowed():
    networks = [ip_network("127.0.0.0/8"), ip_network("fd00::/8")]
    assert is_allowed("127.0.0.1", networks)
    assert is_allowed("fd00::1", networks)
    assert not is_allowed("::ffff:127.0.0.1", networks)
    assert not is_allowed("10.0.0.1", networks)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("https://Example.COM/a?b#c", "https://example.com/a?b"),
        ("http://example.com:8080", "http://example.com:8080"),
        ("https://[2606:4700::1]/", "https://[2606:4700::1]/"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("http://8.8.8.8/?q=a@b", "http://8.8.8.8/?q=a@b"),
        ("http://example.com?mail=a@b.c", "http://example.com?mail=a@b.c"),
    ],
)
def test_urls_that_can_be_fetched(text, wanted):
    assert str(parse_url(text)) == wanted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *[(text, "only http:// and https:// can") for text in ("ftp://example.com/", "file:///etc/passwd", "x:y", "a")],
        *[(text, "user name or password") for text in ("http://a@b/", "http://a:b@example.com/", "http://@b/")],
        *[(text, "isn't a URL") for text in ("http://exa mple.com", "http://a\\b/", "http://a\n/", "http://[::1")],
        *[
            (text, "isn't a URL")
            for text in (
                "http://\uff11\uff12\uff17.0.0.1/",
                "http://a:b/",
                "http://0177.0.0.1/",
                "https://" + "a" * 9_000,
            )
        ],
        *[(text, "isn't a valid host") for text in ("http://", "http:///x", "http://a..b/", "http://*/", "http://-a/")],
        *[(text, "unusual way") for text in ("http://127.1/", "http://2130706433/", "http://0x7f000001/")],
        *[(text, "unusual way") for text in ("http://127.0.0.1./", "http://1.2.3.0x4/")],
        *[(text, "a zone in it") for text in ("http://[fe80::1%25eth0]/", "http://[2606:4700::1%251]/")],
        *[(text, "no valid port") for text in ("http://example.com:0/", "http://example.com:99999/")],
    ],
)
def test_urls_that_cant_be_fetched(text, reason):
    with pytest.raises(ToolError, match=reason):
        parse_url(text)


def test_a_refused_url_is_shown_short_and_without_hidden_characters():
    with pytest.raises(ToolError) as raised:
        parse_url("http://a\u202eb/" + "x" * 2_000)
    assert "\\u{202e}" in raised.value.text
    assert len(raised.value.text) < 700


def test_all_addresses_of_a_host_are_checked(monkeypatch):
    """One that isn't allowed is enough to refuse the host, whatever comes first."""
    places = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, 80)) for text in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
    with pytest.raises(ToolError, match="isn't reachable from the whole internet") as raised:
        asyncio.run(resolve("example.com", 80, []))
    assert "10.0.0.1" not in raised.value.text, "the model learns no addresses of this network"
    assert "10.0.0.1" in str(raised.value.__cause__)
    assert asyncio.run(resolve("example.com", 80, [ip_network("10.0.0.0/8")])) == ["8.8.8.8", "10.0.0.1"]


@pytest.mark.parametrize(("number", "retryable"), [(socket.EAI_AGAIN, True), (socket.EAI_NONAME, False)])
def test_a_host_without_an_address(monkeypatch, number, retryable):
    def fail(*_, **__):
        raise socket.gaierror(number, "no")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(ToolError, match="There is no host") as raised:
        asyncio.run(resolve("nowhere.example", 443, []))
    assert raised.value.retryable is retryable


def test_the_name_of_this_machine_is_no_way_around():
    with pytest.raises(ToolError, match="'localhost' can't be fetched"):
        asyncio.run(resolve("localhost", 80, []))
    assert str(IPv4Address("127.0.0.1")) in asyncio.run(
        resolve("localhost", 80, [*map(ip_network, ("127.0.0.0/8", "::1"))])
    )
