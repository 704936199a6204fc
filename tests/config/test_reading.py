"""One `pegboard.toml`: its bytes -> its checked values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from pegboard.config.reading import MAX_BYTES, parse_config, read_config
from pegboard.errors import ConfigError, ExpressionError
from pegboard.toolsets.expression import parse_predicate

CUSTOM = {"a": lambda tool, context: True, "x": lambda tool, context: True}


def parsed(text: str) -> dict:
    return parse_config(text.encode(), "pegboard.toml")


def test_all_keys():
    text = """
        block = ["a", "b"]
        enable = []
        conflicts = "shadow"
        where = 'read_only and (tag:x or name:"a(b")'
        rename.read_file = "cat"
        prefix.github = "gh_"
        [plugins.files]
        root = "/srv"
        limits = {lines = 3}
    """
    assert parsed(text) == {
        "block": ("a", "b"),
        "enable": (),
        "conflicts": "shadow",
        "where": 'read_only and (tag:x or name:"a(b")',
        "rename": {"read_file": "cat"},
        "prefix": {"github": "gh_"},
        "plugins": {"files": {"root": "/srv", "limits": {"lines": 3}}},
    }


def test_nothing_says_nothing():
    assert parsed("") == {}


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("blocks = []", "blocks", "unknown key. Did you mean 'block'?"),
        ("zzz = 1", "zzz", "unknown key. Known are block, enable, rename,"),
        ("block = 'a'", "block", "expected a list of plugin names, found str"),
        ("block = ['a', 3]", "block[1]", "expected a text, found int"),
        ("block = ['']", "block[0]", "empty"),
        ("enable = true", "enable", "expected a list of plugin names, found bool"),
        ("rename = 'a'", "rename", "expected a table, found str"),
        ("rename.a = 1", "rename.a", "expected a text, found int"),
        ("rename.a = 'not a name'", "rename.a", "'not a name' can't stand in a tool's name"),
        ("rename.a = 'c'\nrename.b = 'c'", "rename.b", "'a' is renamed to 'c' too"),
        ("prefix.p = '9'", "prefix.p", "'9' can't stand in a tool's name"),
        ("prefix.p = ''", "prefix.p", "empty"),
        ("conflicts = 'keeep'", "conflicts", "'keeep' is no way to settle conflicts. Did you mean 'keep'?"),
        ("conflicts = '?'", "conflicts", "Known are error, keep, replace, shadow, prefix."),
        ("where = 1", "where", "expected a text, found int"),
        ("where = ' '", "where", "empty"),
        ("where = 'a) or (b'", "where", "brackets or quotes don't match in 'a) or (b'"),
        ("where = '(a'", "where", "brackets or quotes don't match"),
        ("where = 'name:\"a'", "where", "brackets or quotes don't match"),
        ("plugins = 1", "plugins", "expected a table, found int"),
        ("plugins.files = 'x'", "plugins.files", "expected a table, found str"),
    ],
)
def test_what_is_wrong_is_named(text, key, words):
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    assert caught.value.file == "pegboard.toml"
    assert caught.value.key == key
    assert words in str(caught.value)


PIECES = ["(", ")", '"', "'", "\\", "a", " or ", "name:", "x"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_predicate_cannot_reach_out_of_its_brackets(text):
    """What is taken and parses in brackets parses to a member that stands by itself."""
    try:
        taken = parse_config(json.dumps(text).join(("where = ", "")).encode(), "f")["where"]
        alone = parse_predicate(taken, CUSTOM)
    except (ConfigError, ExpressionError):
        return
    assert parse_predicate(f"(read_only) and ({taken})", CUSTOM) == (parse_predicate("read_only") & alone)


@pytest.mark.parametrize(
    "text", [r'name:"x\" (" ) or ( name:"y\" ("', r"""name:"x\") or (name:"y" """, r"name:'x\') or (name:'y'"]
)
def test_a_quoted_quote_does_not_end_a_quote(text):
    """Each would turn `(read_only) and (...)` into an `or`."""
    with pytest.raises(ConfigError, match="brackets or quotes don't match"):
        parsed(f"where = {json.dumps(text)}")


def test_brackets_and_quotes_inside_quotes_do_not_count():
    assert parsed(r"""where = 'name:"a\"(" and tag:")"' """)["where"] == r'name:"a\"(" and tag:")"'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\n\na = = 1", "at line 3"),
        (b"\n# \xff", "not UTF-8 (at line 2)"),
        (b"a = " + b"[" * 50_000, "nested too deep"),
    ],
)
def test_what_is_no_toml_is_named(content, words):
    with pytest.raises(ConfigError) as caught:
        parse_config(content, "/etc/x.toml")
    assert str(caught.value).startswith("/etc/x.toml: ")
    assert words in str(caught.value)


def test_a_missing_file_is_none(tmp_path):
    (tmp_path / "file").touch()
    assert read_config(str(tmp_path / "no.toml")) is None
    assert read_config(str(tmp_path / "file/no.toml")) is None


def test_a_huge_file_is_refused(tmp_path):
    (tmp_path / "x.toml").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="can't be read: larger than 262144 bytes"):
        read_config(str(tmp_path / "x.toml"))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        read_config(str(tmp_path))
