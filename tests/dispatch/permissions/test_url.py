from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.permissions.permissions import PermissionRules, Resource
from pegboard.dispatch.permissions.places import url_parts
from pegboard.dispatch.permissions.rule import Rule, Unreadable


def decide(action, pattern, url):
    return PermissionRules([Rule("fetch", pattern, action)]).decide("fetch", [Resource("url", url)]).action


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("example.com", "https://example.com"),
        ("example.com", "http://API.Example.com./x?y#z"),
        ("example.com", "example.com/x"),
        ("example.com", "https://example.com:8443/"),
        ("https://example.com", "https://example.com/x"),
        ("https://example.com", "HTTPS://example.com"),
        ("http*://example.com", "https://example.com"),
        ("example.com:443", "https://example.com"),
        ("example.com:80*", "http://example.com:8080"),
        ("example.com/docs/*", "https://example.com/docs/a?b"),
        ("example.com/", "https://example.com"),
        ("example.com/*", "https://example.com?q=1"),
        ("localhost:8000", "localhost:8000/x"),
        ("[::1]:80", "http://[::1]/"),
        ("*", "https://anything.example"),
        ("ftp://example.com", "ftp://example.com/a"),
        ("example.com/docs/*", "https://example.com/docs/a%20b"),
        ("https://*", "https://example.com"),
        ("https:///x", "https://example.com/x"),
    ],
)
def test_what_a_pattern_allows(pattern, url):
    assert decide("allow", pattern, url) == "allow"
    assert decide("deny", pattern, url) == "deny"


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("example.com", "https://notexample.com"),
        ("example.com", "https://example.com.evil.org"),
        ("example.com", "https://evil.org/example.com"),
        ("example.com", "https://evil.org?example.com"),
        ("example.com", "https://evil.org#@example.com"),
        ("http://example.com", "https://example.com"),
        ("example.com:80", "https://example.com"),
        ("example.com/docs/*", "https://example.com/admin"),
        ("example.com/docs", "https://example.com/docs/a"),
    ],
)
def test_what_a_pattern_does_not_mean(pattern, url):
    assert decide("allow", pattern, url) is None
    assert decide("deny", pattern, url) is None


@pytest.mark.parametrize(
    "url",
    [
        *("https://example.com@evil.org", "https://evil.org\\@example.com", "https://u:p@example.com"),
        *("http://2130706433", "http://0x7f.1", "http://exa%6dple.com", "http://\uff45xample.com", "http://a..b"),
        *(" https://example.com", "https://example.com\n", "https://exa\tmple.com", "https://example.com/\u202e"),
        *("https:example.com", "https:///example.com", "//example.com", "https://", "tel:110", "javascript:alert(1)"),
        *("https://example.com:99999", "https://example.com:80:80", "example.com:", "x" * 9000, "file:///etc/passwd"),
        *("https://example.com:" + "1" * 5000, "mailto:a@example.com", "https://[::1", "http://[fe80::1%25eth0]/"),
    ],
)
def test_what_programs_may_read_differently_is_denied_and_not_allowed(url):
    assert url_parts(url) == (Unreadable(url),)
    assert decide("deny", "nowhere.example", url) == "deny"
    assert decide("allow", "*", url) is None


@pytest.mark.parametrize("url", ["ftp://example.com", "gopher://example.com", "file://example.com/etc/passwd"])
def test_without_a_scheme_a_pattern_allows_only_the_web(url):
    assert decide("allow", "example.com", url) is None
    assert decide("deny", "example.com", url) == "deny"


@pytest.mark.parametrize(
    "path",
    [
        *("docs/../admin", "docs/%2e%2e/admin", "docs/..%2fadmin", "docs/%252e%252e/admin", "docs//../admin"),
        *("docs/..;/admin", "docs/./../admin", "docs/..\\admin".replace("\\", "%5c"), "docs/;a/../admin"),
    ],
)
def test_a_path_that_servers_may_shorten_is_denied_by_each_reading(path):
    url = f"https://example.com/{path}"
    assert decide("allow", "example.com/docs/*", url) is None
    assert decide("deny", "example.com/admin", url) == "deny"
    assert decide("deny", "example.com/docs/*", url) == "deny"
    assert decide("allow", "example.com", url) == "allow"


@pytest.mark.parametrize(
    "url", ["https://example.com//admin", "https://example.com/%61dmin", "https://example.com/x/%2e%2e/admin/"]
)
def test_a_denied_path_is_found_behind_escapes(url):
    assert decide("deny", "example.com/admin*", url) == "deny"


def test_an_escaped_path_is_allowed_only_where_both_its_forms_are():
    assert decide("allow", "example.com/a b", "https://example.com/a%20b") is None
    assert decide("deny", "example.com/a b", "https://example.com/a%20b") == "deny"


def test_what_isnt_said_is_denied_rather_than_allowed():
    assert decide("deny", "https://example.com", "example.com") == "deny"
    assert decide("allow", "https://example.com", "example.com") is None
    assert decide("deny", "example.com:443", "example.com") == "deny"
    assert decide("allow", "example.com:443", "example.com") is None


def test_what_always_would_allow_is_the_origin():
    (url,) = url_parts("HTTPS://api.Example.com:8443/x?y#z")
    assert (url.shown, url.always) == ("https://api.example.com:8443/x?y", "https://api.example.com:8443")
    assert decide("allow", url.always, url.shown) == "allow"


@given(st.text(":/?#[]@\\.%ab1 \n", max_size=20), st.sampled_from(["", "http://", "https://example.com"]))
def test_no_text_is_allowed_without_a_host_that_is_known(rest, start):
    """Whatever is read as allowed for example.com, the standard library's looser parser finds that host in it, too."""
    from urllib.parse import urlsplit

    url = start + rest
    if decide("allow", "example.com", url) == "allow":
        host = urlsplit(url if "://" in url else f"//{url}").hostname
        assert host.removesuffix(".").endswith("example.com")
