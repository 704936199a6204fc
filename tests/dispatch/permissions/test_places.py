"""Paths, hosts and URLs as rules match them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pegboard import PermissionRules, Rule
from pegboard.dispatch.permissions import places as paths
from pegboard.dispatch.permissions.evaluation import Resource
from pegboard.dispatch.permissions.places import (
    PathPart,
    host_of,
    path_patterns,
    place_of,
    resolve,
    url_of,
    url_pattern,
)
from pegboard.dispatch.permissions.rule import Folders, Match, UnreadableError


@pytest.fixture
def top(tmp_path):
    """`work/` with a file, `secret/` next to it, and links from the one to the other."""
    top = Path(os.path.realpath(tmp_path))
    (top / "work" / "src").mkdir(parents=True)
    (top / "work" / "src" / "a.py").touch()
    (top / "secret").mkdir()
    (top / "secret" / "key").touch()
    (top / "work" / "out").symlink_to("../secret")
    (top / "work" / "round").symlink_to("about")
    (top / "work" / "about").symlink_to("round")
    return top


def decide(top, action, pattern, path):
    rules = PermissionRules([Rule("read", pattern, action)])
    return rules.decide("read", [Resource("path", path)], work_dir=str(top / "work")).action


def both(top, pattern, path):
    """The decisions of a deny rule and of an allow rule."""
    return decide(top, "deny", pattern, path), decide(top, "allow", pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path", "decided"),
    [
        *(("src/*", path, ("deny", "allow")) for path in ("src/a.py", "./src//a.py", "src/../src/a.py")),
        *(("src/*", path, ("deny", "allow")) for path in ("src/new/deep/b.py", "~x/../src/a.py")),
        # A path can also be denied as written.
        ("*.pem", "key.pem", ("deny", None)),
        ("round/*", "src/a.py", ("deny", None)),
        # What starts with a star starts anywhere; a resolved folder's star is none.
        ("*.py", "src/a.py", ("deny", "allow")),
        ("?work*", "src/a.py", (None, None)),
        ("star/*", "*/x", ("deny", "allow")),
        ("star/*", "src/x", (None, None)),
        ("/*", "src/a.py", ("deny", "allow")),
        ("s*", "src/a.py", ("deny", "allow")),
        # The tilde is the user's home; it may be a name.
        ("~/*", "../secret/key", ("deny", "allow")),
        ("../secret/*", "~/key", ("deny", "allow")),
        ("src/*", "~/a.py", ("deny", None)),
        ("~", "~", ("deny", "allow")),
        *((pattern, None, ("deny", None)) for pattern in ("/nowhere", "*")),
        *((pattern, "", ("deny", None)) for pattern in ("/nowhere", "*")),
    ],
)
def test_what_a_pattern_of_places_means(top, monkeypatch, pattern, path, decided):
    monkeypatch.setenv("HOME", str(top / "secret"))
    (top / "work" / "key.pem").symlink_to("src/a.py")
    (top / "work" / "*").mkdir()
    (top / "work" / "star").symlink_to("*")
    (top / "work" / "~").symlink_to("src")
    assert both(top, pattern, path) == decided


@pytest.mark.parametrize(
    "path",
    [
        "src",
        "src/../../secret/key",
        "../secret/key",
        "out/key",
        "src/../out/key",
        "/etc/passwd",
        "src/../out/../secret/key",
        "out/../work/src/a.py/../../../secret/key",
        "nosuch/../../secret/key",
        "~/src/a.py",
    ],
)
def test_a_path_outside_the_pattern_is_not_allowed(top, path):
    """By `..`, by links, by both, or because it doesn't exist."""
    assert decide(top, "allow", "src/*", path) is None
    assert decide(top, "allow", f"{top}/work/src/*", path) is None


@pytest.mark.parametrize("path", ["out/key", "../secret/key", "src/../../secret/key", "out/../secret/key", "out/new"])
@pytest.mark.parametrize("pattern", ["../secret/*", "out/*", "*/secret/*"])
def test_what_leads_to_a_denied_place_is_denied(top, path, pattern):
    assert decide(top, "deny", pattern, path) == "deny"


def test_both_readings_of_a_step_back_behind_a_link_count(top):
    """`out/..` is `top` for the system, and `work` for a program that shortens paths before it opens them."""
    assert place_of("out/../x", Folders([str(top / "work")])).real == (f"{top}/x", f"{top}/work/x")
    assert decide(top, "allow", "*/work/*", "out/../x") is None
    assert decide(top, "deny", "*/work/*", "out/../x") == "deny"
    assert decide(top, "deny", f"{top}/x", "out/../x") == "deny"


NO_PATHS = [
    "round/x",
    "a\0b",
    "~a\0b",
    "x" * 5000,
    "y" * 300,
    "\ud800",
    "~\ud800",
    "file:///etc/passwd",
    "https://a.com",
]


@pytest.mark.parametrize("path", NO_PATHS)
def test_an_unreadable_path_is_denied_and_not_allowed(top, path):
    with pytest.raises(UnreadableError):
        place_of(path, Folders([str(top / "work")]))
    assert decide(top, "deny", "../secret/*", path) == "deny"
    assert decide(top, "allow", "../secret/*", path) is None
    assert decide(top, "allow", "*", path) is None


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("$HOME/.ssh/*", "../secret/.ssh/key"),
        ("${HOME}/.ssh/*", "~/.ssh/key"),
        ("$PLACE/*", "src/a.py"),
        ("src/", "src/deep/b.py"),
        ("../secret/.ssh/*", "$HOME/.ssh/key"),
        ("src/*", "${PLACE}/a.py"),
    ],
)
def test_environment_variables_are_filled_in(top, monkeypatch, pattern, path):
    monkeypatch.setenv("HOME", str(top / "secret"))
    monkeypatch.setenv("PLACE", "src")
    assert decide(top, "deny", pattern, path) == "deny"
    assert decide(top, "allow", pattern, path) == (None if "$" in path else "allow")


@pytest.mark.parametrize(
    "name",
    [
        *("sec\u200bret", "secret\u202e", "se\ufe0fcret", "sec\u3164ret", "secret ", "\uff53ecret", "secret\udcff"),
        *("sec\u00adret", "\U000e0001secret"),
    ],
)
def test_a_name_that_looks_like_a_denied_one_is_denied(top, name):
    for pattern in ("secret", "secret/*", "*/secret*"):
        assert decide(top, "deny", pattern, f"{name}/x" if pattern.endswith("/*") else name) == "deny"
        assert decide(top, "allow", pattern, f"{name}/x" if pattern == "secret/*" else name) in (None, "allow")
    assert decide(top, "allow", "secret", name) is None


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("caf\u00e9", "cafe\u0301"),
        ("cafe\u0301", "caf\u00e9"),
        ("a\\u200bb", "a\u200bb"),
        ("a\\u{200b}b", "a\u200bb"),
        ("a b", "a\u00a0b"),
    ],
)
def test_a_name_is_denied_as_it_is_shown(top, pattern, name):
    assert decide(top, "deny", pattern, name) == "deny"
    assert decide(top, "allow", pattern, name) is None


def test_relative_paths_start_in_the_working_folder_by_default(top, monkeypatch):
    monkeypatch.chdir(top / "work")
    rules = PermissionRules([Rule("read", f"{top}/work/src/*", "allow")])
    assert rules.decide("read", [Resource("path", "src/a.py")]).action == "allow"


def test_where_the_system_ignores_case_both_cases_are_denied(top, monkeypatch):
    assert decide(top, "deny", "SRC/*", "src/a.py") is None
    monkeypatch.setattr(paths, "_FOLDS_CASE", True)
    monkeypatch.setattr(paths, "_compile", paths._compile.__wrapped__)
    assert decide(top, "deny", "SRC/*", "src/a.py") == "deny"
    assert decide(top, "deny", "SRC/A.PY", "src/a.py") == "deny"
    assert decide(top, "allow", "SRC/*", "src/a.py") is None


@pytest.mark.parametrize(
    ("real", "literal", "wider"),
    [
        (("/a/b/c",), "/a/b/c", "/a/b/*"),
        (("/a",), "/a", None),
        (("/a*/b",), "/a*/b", None),
        (("/a/b", "/c"), None, "/a/*"),
    ],
)
def test_a_path_offers_exactly_itself_and_its_folder(real, literal, wider):
    part = PathPart(real, (), Folders("/"))
    assert (part.literal, part.wider) == (literal, wider)


def test_a_path_that_is_denied_in_every_reading_is_surely_denied(top):
    place = place_of("src/a.py", Folders([str(top / "work")]))
    assert place.match(Rule("read", "src/*", "deny")) is Match.SURELY
    assert place.match(Rule("read", "other/*", "deny")) is Match.NO


def test_a_link_that_cant_be_read_is_unreadable(monkeypatch):
    def fail(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(paths.os, "readlink", fail)
    with pytest.raises(UnreadableError):
        resolve("/a")


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", "link", "up"]), max_size=7).map("/".join))
def test_paths_resolve_as_the_system_does(tmp_path_factory, path):
    """`os.path.realpath` returns the same for every path that it can resolve."""
    top = tmp_path_factory.getbasetemp() / "places"
    if not top.exists():
        (top / "a" / "b").mkdir(parents=True)
        (top / "link").symlink_to("a/b")
        (top / "a" / "up").symlink_to("..")
        (top / "a" / "b" / "link").symlink_to(top / "a")
    assert resolve(f"{top}/{path}") == os.path.realpath(f"{top}/{path}")


def test_a_pattern_without_a_wildcard_is_one_path():
    (pattern,) = path_patterns("a/../b", "/x")
    assert pattern.matches("/x/b")
    assert not pattern.matches("/x/b/c")


def test_what_an_allow_rule_means_does_not_follow_a_link_that_is_turned(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "link").symlink_to("one")
    rules = PermissionRules([Rule("read", "link/*", "allow")])
    assert rules.decide("read", [Resource("path", "one/a")], work_dir=str(tmp_path)).action == "allow"
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("/")
    assert rules.decide("read", [Resource("path", "/etc/passwd")], work_dir=str(tmp_path)).action is None


def test_a_rule_caches_its_pattern_for_256_folders_at_most():
    rule = Rule("read", "a/*", "allow")
    for number in range(300):
        assert place_of("a/b", Folders([f"/nowhere/{number}"])).match(rule) is Match.SURELY
    assert len(rule.compiled) == 256


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
def test_a_host_that_programs_read_differently_is_refused(text):
    with pytest.raises(UnreadableError):
        host_of(text)


@pytest.mark.parametrize(
    ("pattern", "host", "is_meant"),
    [
        *(("example.com", each, True) for each in ("example.com", "api.example.com", "a.b.example.com")),
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
        ("::1", "[::1]", True),
        ("2001:DB8:0::1", "[2001:db8::1]", True),
        ("2001:db8:*", "[2001:db8::1]", True),
        ("*", "[::1]", True),
        (".example.com", "api.example.com", True),
        (".example.com", "notexample.com", False),
        *((each, "127.0.0.1", True) for each in ("127.1", "0x7f000001", "2130706433")),
        ("999.1.1.1", "9.1.1.1", False),
    ],
)
def test_a_host_pattern_includes_subdomains(pattern, host, is_meant):
    assert url_pattern(pattern).means(host_of(host)) is is_meant


def test_an_address_is_written_in_brackets_where_it_needs_them():
    assert [str(host_of(text)) for text in ("[::1]", "127.0.0.1")] == ["[::1]", "127.0.0.1"]


def decide_url(action, pattern, url):
    return PermissionRules([Rule("fetch", pattern, action)]).decide("fetch", [Resource("url", url)]).action


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        *(("example.com", each) for each in ("https://example.com", "http://API.Example.com./x?y#z")),
        *(("example.com", each) for each in ("example.com/x", "https://example.com:8443/")),
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
        *((each, "https://example.com/x") for each in ("https:///x", "//example.com", " example.com ")),
        (".example.com:443/x", "https://api.example.com/x"),
        ("::1", "http://[::1]:8080/x"),
        ("2001:db8::1", "http://[2001:db8::1]/"),
        ("2001:db8:*", "http://[2001:db8::1]/"),
        ("[2001:db8::1]:443", "https://[2001:db8::1]/"),
        ("10.0.0.0/8", "http://10.1.2.3:8080/x"),
        ("http://10.0.0.7/8", "http://10.1.2.3"),
        ("2001:db8::/32", "http://[2001:db8:1::7]/"),
        ("[2001:db8::]/32", "http://[2001:db8:1::7]/"),
        ("10.0.0.0/8", "http://[::ffff:10.1.2.3]/"),
    ],
)
def test_what_a_pattern_allows(pattern, url):
    assert decide_url("allow", pattern, url) == "allow"
    assert decide_url("deny", pattern, url) == "deny"


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        *(("example.com", each) for each in ("https://notexample.com", "https://example.com.evil.org")),
        *(("example.com", each) for each in ("https://evil.org/example.com", "https://evil.org?example.com")),
        ("example.com", "https://evil.org#@example.com"),
        ("http://example.com", "https://example.com"),
        ("example.com:80", "https://example.com"),
        ("example.com/docs/*", "https://example.com/admin"),
        ("example.com/docs", "https://example.com/docs/a"),
        *(("10.0.0.0/8", each) for each in ("http://11.0.0.1", "http://example.com/8", "http://[2001:db8::1]/")),
        ("10.0.0.0/64", "http://10.0.0.0/8"),
        ("2001:db8::1", "http://[2001:db8::2]/"),
    ],
)
def test_what_a_pattern_does_not_mean(pattern, url):
    assert decide_url("allow", pattern, url) is None
    assert decide_url("deny", pattern, url) is None


@pytest.mark.parametrize(
    "url",
    [
        *("https://example.com@evil.org", "https://evil.org\\@example.com", "https://u:p@example.com"),
        *("http://2130706433", "http://0x7f.1", "http://exa%6dple.com", "http://\uff45xample.com", "http://a..b"),
        *(" https://example.com", "https://example.com\n", "https://exa\tmple.com", "https://example.com/\u202e"),
        *("https:example.com", "https:///example.com", "//example.com", "https://", "tel:110", "javascript:alert(1)"),
        *("https://example.com:99999", "https://example.com:80:80", "example.com:", "x" * 9000, "file:///etc/passwd"),
        *("https://example.com:" + "1" * 5000, "mailto:a@example.com", "https://[::1", "http://[fe80::1%25eth0]/"),
        "http://[::1%25eth0]",
    ],
)
def test_what_programs_may_read_differently_is_denied_and_not_allowed(url):
    with pytest.raises(UnreadableError):
        url_of(url)
    assert decide_url("deny", "nowhere.example", url) == "deny"
    assert decide_url("allow", "*", url) is None


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("user@example.com", "https://example.com"),
        ("user:word@example.com", "https://example.com"),
        ("169.254.169.254", "http://[::ffff:169.254.169.254]/"),
        ("169.254.169.254", "http://[64:ff9b::169.254.169.254]/"),
        ("169.254.169.254", "http://[64:ff9b:1::a9fe:a9fe]/"),
        ("169.254.169.254", "http://[64:ff9b:1:a9fe:a9:fe00::]/"),
        ("169.254.169.254", "http://[2002:a9fe:a9fe::1]/"),
        ("169.254.169.254", "http://[::a9fe:a9fe]/"),
        ("169.254.169.254", "http://[2001:db8::200:5efe:a9fe:a9fe]/"),
        ("169.254.0.0/16", "http://[64:ff9b::a9fe:a9fe]/"),
        ("8.8.8.8", "http://[2001:0:1:2::f7f7:f7f7]/"),
        *(("127.0.0.1", each) for each in ("http://localhost:8080", "http://x.localhost", "http://0.0.0.0/")),
        ("localhost", "http://127.0.0.2/"),
        ("localhost", "http://[::1]/"),
        ("::1", "http://localhost"),
    ],
)
def test_what_leads_to_the_same_host_is_denied_and_not_allowed(pattern, url):
    assert decide_url("deny", pattern, url) == "deny"
    if "::ffff:" not in url:
        assert decide_url("allow", pattern, url) is None


@pytest.mark.parametrize(
    ("pattern", "url", "denied", "allowed"),
    [
        # Without a scheme a pattern allows only the web.
        *(("example.com", f"{scheme}://example.com/x", "deny", None) for scheme in ("ftp", "gopher", "file")),
        # A denied path is found behind escapes; an escaped one is allowed only where both its forms are.
        *(("example.com/admin*", f"https://example.com/{way}", "deny", None) for way in ("/admin", "x/%2e%2e/admin/")),
        ("example.com/admin*", "https://example.com/%61dmin", "deny", None),
        ("example.com/a b", "https://example.com/a%20b", "deny", None),
        # What is omitted is denied rather than allowed.
        ("https://example.com", "example.com", "deny", None),
        ("example.com:443", "example.com", "deny", None),
    ],
)
def test_an_uncertain_url_is_denied_and_not_allowed(pattern, url, denied, allowed):
    assert (decide_url("deny", pattern, url), decide_url("allow", pattern, url)) == (denied, allowed)


@pytest.mark.parametrize(
    "path",
    [
        *("docs/../admin", "docs/%2e%2e/admin", "docs/..%2fadmin", "docs/%252e%252e/admin", "docs//../admin"),
        *("docs/..;/admin", "docs/./../admin", "docs/..\\admin".replace("\\", "%5c"), "docs/;a/../admin"),
    ],
)
def test_a_path_that_servers_may_shorten_is_denied_by_each_reading(path):
    url = f"https://example.com/{path}"
    assert decide_url("allow", "example.com/docs/*", url) is None
    assert decide_url("deny", "example.com/admin", url) == "deny"
    assert decide_url("deny", "example.com/docs/*", url) == "deny"
    assert decide_url("allow", "example.com", url) == "allow"


def test_a_url_offers_exactly_itself_and_its_origin():
    url = url_of("HTTPS://api.Example.com:8443/x?y#z")
    assert (url.literal, url.wider) == ("https://api.example.com:8443/x?y", "https://api.example.com:8443")
    assert decide_url("allow", url.wider, url.shown) == "allow"
    assert url_of("https://example.com/a/../b").literal is None


@given(st.text(":/?#[]@\\.%ab1 \n", max_size=20), st.sampled_from(["", "http://", "https://example.com"]))
def test_no_text_is_allowed_without_a_host_that_is_known(rest, start):
    """If a text is allowed for example.com, the standard library's looser parser finds that host in it, too."""
    from urllib.parse import urlsplit

    url = start + rest
    if decide_url("allow", "example.com", url) == "allow":
        host = urlsplit(url if "://" in url else f"//{url}").hostname
        assert host.removesuffix(".").endswith("example.com")
