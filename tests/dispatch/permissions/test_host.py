from __future__ import annotations

import pytest

from pegboard.dispatch.permissions.places import HostError, HostPattern, host_of


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("münchen.de", "xn--mnchen-3ya.de"),
        ("a_b.example.com", "a_b.example.com"),
    ],
)
def test_a_host_has_one_name(text, name):
    assert host_of(text).name == name


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a..b", "-a.com", "a-.com", "exa%6dple.com", "a b", "a" * 64 + ".com", "a." * 130 + "com"),
        *("2130706433", "0x7f000001", "127.1", "0177.0.0.1", "1.2.3.4.5", "example.0x1"),
        *(
            "[::1",
            "[127.0.0.1]x",
            "[fe80::1%eth0]",
            "[zz]",
            "straße.de",
            "\uff45xample.com",
            "example\u3002com",
            "\u200d.com",
        ),
        *("b" * 100 + "ü.de",),
    ],
)
def test_a_host_that_programs_read_differently_is_none(text):
    with pytest.raises(HostError):
        host_of(text)


@pytest.mark.parametrize(
    ("pattern", "host", "is_meant"),
    [
        ("example.com", "example.com", True),
        ("example.com", "api.example.com", True),
        ("example.com", "a.b.example.com", True),
        ("example.com", "notexample.com", False),
        ("example.com", "example.com.evil.org", False),
        ("Example.com.", "api.example.com", True),
        ("*.example.com", "api.example.com", True),
        ("*.example.com", "example.com", False),
        ("api-?.example.com", "x.api-1.example.com", True),
        ("münchen.de", "www.xn--mnchen-3ya.de", True),
        ("*.münchen.de", "www.xn--mnchen-3ya.de", True),
        ("straße.*", "strasse.de", False),
        ("10.0.0.*", "10.0.0.7", True),
        ("0.0.7", "10.0.0.7", False),
        ("[::1]", "[::1]", True),
        ("*", "[::1]", True),
    ],
)
def test_a_name_means_its_subdomains(pattern, host, is_meant):
    assert HostPattern.of(pattern).matches(host_of(host)) is is_meant


def test_an_address_is_written_in_brackets_where_it_needs_them():
    assert [str(host_of(text)) for text in ("[::1]", "127.0.0.1")] == ["[::1]", "127.0.0.1"]
