from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pegboard.dispatch.permissions import places as paths
from pegboard.dispatch.permissions.permissions import PermissionRules, Resource
from pegboard.dispatch.permissions.places import (
    Place,
    UnresolvablePathError,
    path_parts,
    path_pattern,
    place_of,
    resolved,
)
from pegboard.dispatch.permissions.rule import Match, Rule, Unreadable


@pytest.fixture
def top(tmp_path):
    """`work/` with a file, `secret/` beside it, and links from the one to the other."""
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


@pytest.mark.parametrize("path", ["src/a.py", "./src//a.py", "src/../src/a.py", "src/new/deep/b.py", "~x/../src/a.py"])
def test_what_is_in_a_folder_is_allowed_by_its_pattern(top, path):
    assert decide(top, "allow", "src/*", path) == "allow"


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
def test_what_is_elsewhere_is_not_allowed_by_it(top, path):
    """By `..`, by links, by both, or because it never was there."""
    assert decide(top, "allow", "src/*", path) is None
    assert decide(top, "allow", f"{top}/work/src/*", path) is None


@pytest.mark.parametrize("path", ["out/key", "../secret/key", "src/../../secret/key", "out/../secret/key", "out/new"])
@pytest.mark.parametrize("pattern", ["../secret/*", "out/*", "*/secret/*"])
def test_what_leads_to_a_denied_place_is_denied(top, path, pattern):
    assert decide(top, "deny", pattern, path) == "deny"


def test_the_way_to_a_place_can_be_denied_too(top):
    (top / "work" / "key.pem").symlink_to("src/a.py")
    assert decide(top, "deny", "*.pem", "key.pem") == "deny"
    assert decide(top, "allow", "*.pem", "key.pem") is None


def test_both_readings_of_a_step_back_behind_a_link_count(top):
    """`out/..` is `top` to the system, and `work` to a program that shortens paths before it opens them."""
    assert place_of("out/../x", str(top / "work")).real == (f"{top}/x", f"{top}/work/x")
    assert decide(top, "allow", "*/work/*", "out/../x") is None
    assert decide(top, "deny", "*/work/*", "out/../x") == "deny"
    assert decide(top, "deny", f"{top}/x", "out/../x") == "deny"


@pytest.mark.parametrize(
    "path", ["round/x", "a\0b", "x" * 5000, "y" * 300, "\ud800", "file:///etc/passwd", "https://example.com"]
)
def test_a_path_that_leads_nowhere_is_denied_and_not_allowed(top, path):
    assert path_parts(path, str(top / "work")) == (Unreadable(path),)
    assert decide(top, "deny", "../secret/*", path) == "deny"
    assert decide(top, "allow", "../secret/*", path) is None
    assert decide(top, "allow", "*", path) is None


def test_a_pattern_that_leads_nowhere_denies_and_does_not_allow(top):
    assert decide(top, "deny", "round/*", "src/a.py") == "deny"
    assert decide(top, "allow", "round/*", "src/a.py") is None


def test_the_tilde_is_the_users_home(top, monkeypatch):
    monkeypatch.setenv("HOME", str(top / "secret"))
    assert decide(top, "deny", "~/*", "../secret/key") == "deny"
    assert decide(top, "deny", f"{top}/secret/*", "~/key") == "deny"
    assert decide(top, "allow", "~", "~") == "allow"


def test_a_missing_path_is_denied_and_not_allowed(top):
    for path in (None, ""):
        assert decide(top, "deny", "/nowhere", path) == "deny"
        assert decide(top, "allow", "*", path) is None


def test_a_pattern_that_starts_with_a_star_starts_anywhere(top):
    assert decide(top, "allow", "*.py", "src/a.py") == "allow"
    assert decide(top, "allow", "?work*", "src/a.py") is None


def test_a_pattern_of_the_root_means_all_places(top):
    assert decide(top, "allow", "/*", "src/a.py") == "allow"
    assert decide(top, "allow", "s*", "src/a.py") == "allow"


def test_a_star_in_a_folders_name_is_no_wildcard_once_it_is_resolved(top):
    (top / "work" / "*").mkdir()
    (top / "work" / "star").symlink_to("*")
    assert decide(top, "allow", "star/*", "*/x") == "allow"
    assert decide(top, "allow", "star/*", "src/x") is None


def test_relative_paths_start_in_the_processs_folder_where_no_other_is_named(top, monkeypatch):
    monkeypatch.chdir(top / "work")
    rules = PermissionRules([Rule("read", f"{top}/work/src/*", "allow")])
    assert rules.decide("read", [Resource("path", "src/a.py")]).action == "allow"


def test_a_system_that_takes_one_case_for_the_other_is_denied_both(top, monkeypatch):
    assert decide(top, "deny", "SRC/*", "src/a.py") is None
    monkeypatch.setattr(paths, "_FOLDS_CASE", True)
    assert decide(top, "deny", "SRC/*", "src/a.py") == "deny"
    assert decide(top, "deny", "SRC/A.PY", "src/a.py") == "deny"
    assert decide(top, "allow", "SRC/*", "src/a.py") is None


def test_what_always_would_allow_is_the_folder():
    assert Place(("/a/b/c",), "/a/b/c", "/").always == "/a/b/*"
    assert Place(("/a",), "/a", "/").always == "/a"
    assert Place(("/a*/b",), "/a*/b", "/").always is None


def test_a_place_that_is_denied_in_every_reading_is_surely_denied(top):
    (place,) = path_parts("src/a.py", str(top / "work"))
    assert place.match(Rule("read", "src/*", "deny")) is Match.SURELY
    assert place.match(Rule("read", "other/*", "deny")) is Match.NO


def test_an_unreadable_link_leads_nowhere(monkeypatch):
    def fail(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(paths.os, "readlink", fail)
    with pytest.raises(UnresolvablePathError):
        resolved("/a")


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", "link", "up"]), max_size=7).map("/".join))
def test_places_are_where_the_system_finds_them(tmp_path_factory, path):
    """`os.path.realpath` says the same of every path that it can follow."""
    top = tmp_path_factory.getbasetemp() / "places"
    if not top.exists():
        (top / "a" / "b").mkdir(parents=True)
        (top / "link").symlink_to("a/b")
        (top / "a" / "up").symlink_to("..")
        (top / "a" / "b" / "link").symlink_to(top / "a")
    assert resolved(f"{top}/{path}") == os.path.realpath(f"{top}/{path}")


def test_a_pattern_without_a_wildcard_is_one_place():
    pattern = path_pattern("a/../b", "/x")
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


def test_a_rule_keeps_its_pattern_for_only_so_many_folders():
    rule = Rule("read", "a/*", "allow")
    for number in range(300):
        assert place_of("a/b", f"/nowhere/{number}").match(rule) is Match.SURELY
    assert len(rule.compiled) == 256
