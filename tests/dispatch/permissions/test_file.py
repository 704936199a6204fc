from __future__ import annotations

import json
import re

import pytest

from pegboard.dispatch.permissions.permissions import MOST_FILE, Permissions, read_permissions
from pegboard.dispatch.permissions.rule import Rule
from pegboard.errors import ConfigError

TOML = """
mode = "accept_edits"
forbid = ["bash: rm -rf *"]
deny = ["fetch"]
ask = ["edit: ~/*"]
allow = ["bash: git *", "fetch:https://example.com"]

[[rule]]
permission = "mail"
pattern = "*@example.com"
action = "allow"
field = "to"
kind = "text"

[[rule]]
permission = "mail"
forbid = true
"""


@pytest.fixture
def written(tmp_path):
    def written(content, name="rules.toml"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return written


def test_a_file_of_rules_is_read(written):
    """The lists first, the stricter behind the milder; then the rules."""
    assert read_permissions(written(TOML)) == Permissions(
        [
            Rule("bash", "git *", "allow"),
            Rule("fetch", "https://example.com", "allow"),
            Rule("edit", "~/*", "ask"),
            Rule("fetch", "*", "deny"),
            Rule("bash", "rm -rf *", "deny", forbid=True),
            Rule("mail", "*@example.com", "allow", field="to", kind="text"),
            Rule("mail", "*", "deny", forbid=True),
        ],
        "accept_edits",
    )


def test_json_says_the_same(written):
    permissions = read_permissions(written(TOML))
    assert read_permissions(written(json.dumps(permissions.to_json()), "rules.JSON")) == permissions
    short = {"allow": ["bash"], "rule": [{"permission": "a", "action": "ask"}]}
    assert read_permissions(written(json.dumps(short), "rules.json")) == Permissions(
        [Rule("bash", "*", "allow"), Rule("a", "*", "ask")]
    )


def test_an_empty_file_says_nothing(written):
    assert read_permissions(written("")) == Permissions()


@pytest.mark.parametrize(
    ("content", "key", "said"),
    [
        ('mdoe = "plan"', "mdoe", "unknown key. Did you mean 'mode'?"),
        ("zzz = 1", "zzz", "unknown key. There are mode, allow, ask, deny, forbid, rule, rules."),
        ('mode = "paln"', "mode", "there is no mode 'paln'. Did you mean 'plan'?"),
        ("mode = 1", "mode", "expected a text, found int"),
        ('allow = "bash"', "allow", "expected a list, found str"),
        ("deny = [1]", "deny[0]", "expected a text such as 'bash: git *', found int"),
        ('ask = ["a", ": x"]', "ask[1]", "expected 'permission: pattern' or 'permission', found ': x'"),
        ('ask = ["a:"]', "ask[0]", "expected 'permission: pattern' or 'permission', found 'a:'"),
        ("rule = [1]", "rule[0]", "expected a table, found int"),
        ("rule = 1", "rule", "expected a list, found int"),
        ('[[rule]]\npermission = "a"\nacton = "ask"', "rule[0]", "acton: unknown key. Did you mean 'action'?"),
        ("rule = []\nrules = []", "rules", "write either 'rule' or 'rules'"),
        ("mode = ", "", "not TOML: "),
        (b"\xff", "", "not UTF-8"),
        ("a = " + "[" * 100_000, "", "nested too deep"),
        (" " * (MOST_FILE + 1), "", f"larger than {MOST_FILE} bytes"),
    ],
)
def test_what_is_wrong_is_named(written, content, key, said):
    path = written(content)
    with pytest.raises(ConfigError, match=re.escape(f"{path}: {key + ': ' if key else ''}{said}")) as caught:
        read_permissions(path)
    assert (caught.value.file, caught.value.key) == (path, key)


@pytest.mark.parametrize(
    ("content", "said"),
    [('{"mode": "plan", "mode": "bypass"}', "not JSON"), ("[]", "expected a table, found list"), ("{", "not JSON")],
)
def test_json_is_read_as_strictly(written, content, said):
    with pytest.raises(ConfigError, match=said):
        read_permissions(written(content, "rules.json"))


def test_a_file_that_isnt_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: can't be read: No such file"):
        read_permissions(str(tmp_path / "none.toml"))


def test_data_that_says_what_cant_be_is_refused():
    with pytest.raises(ValueError, match="mode: there is no mode"):
        Permissions.from_json({"mode": "x"})
