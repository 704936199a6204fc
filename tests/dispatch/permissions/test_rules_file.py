"""Rules files, and the linter for rules."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path

import pytest
from attrs import evolve

from pegboard import Origin, Permissions, Rule, Tool, ToolRegistry, ToolSpec, read_permissions
from pegboard.dispatch.permissions.rules_file import MOST_FILE, rule_problems
from pegboard.errors import ConfigError

SHELL = Tool(ToolSpec("shell", permission="bash", permission_arguments={"line": "command"}))

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
    """The lists first, stricter ones after milder ones; then the rules. By a string or a `Path`."""
    assert (
        read_permissions(written(TOML))
        == read_permissions(Path(written(TOML)))
        == Permissions(
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


GIT = 'permission = "bash"\npattern = "git *"\naction = "deny"\n'


def test_a_rule_may_have_a_reason_and_examples(written):
    examples = 'kind = "command"\nmatch = ["git log", "sudo git x"]\nnot_match = ["ls", "echo git"]\n'
    permissions = read_permissions(written(f"[[rule]]\n{GIT}{examples}reason = 'Use the tool git.'"))
    assert permissions == Permissions([Rule("bash", "git *", "deny", kind="command", reason="Use the tool git.")])
    assert permissions.decide(SHELL, {"line": "git log"}).reason == "a rule denies it: Use the tool git."
    allows = {"permission": "a", "pattern": "/a/*", "action": "allow", "kind": "path", "field": "path"}
    data = {"rules": [{**allows, "match": ["/a/b", "/a/../a/c"], "not_match": ["/a/../b"]}]}
    assert len(Permissions.from_json(data).rules.rules) == 1


def test_a_file_that_others_can_write_is_refused(written, monkeypatch):
    path = Path(written(""))
    path.chmod(0o660)
    read_permissions(path)  # a user's own group is the user's
    group = os.getegid()
    monkeypatch.setattr(os, "getegid", lambda: group + 1)
    with pytest.raises(ConfigError, match="other users can write it"):
        read_permissions(path)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('mdoe = "plan"', "mdoe: unknown key. Did you mean 'mode'?"),
        ("zzz = 1", "zzz: unknown key. There are mode, allow, ask, deny, forbid, rule, rules."),
        ('mode = "paln"', "mode: must be one of default, plan, accept_edits, bypass, never_ask, got 'paln'"),
        ("mode = 1", "mode: must be a string, got int"),
        ('mode = "Bypass"', "mode: must be one of"),
        ('Forbid = ["wipe"]', "Forbid: unknown key. Did you mean 'forbid'?"),
        ('include = ["others.toml"]', "include: unknown key."),
        ('[forbid]\nwipe = "*"', "forbid: must be an array, got dict"),
        ('forbid = [""]', "forbid[0]: expected"),
        ('forbid = ["wi\\u202epe"]', "forbid[0]: permission: 'wi\\u202epe' holds blanks or hidden characters"),
        ("[rule]\n" + GIT, "rule: must be an array, got dict"),
        ("[[rule]]\n" + GIT.replace("deny", "Deny"), "rule[0]: action: must be one of allow, ask, deny"),
        ("[[rule]]\n" + GIT + 'forbid = "false"', "rule[0]: forbid: must be a boolean, got str"),
        ("[[rule]]\n" + GIT + 'owner = ["a"]', "rule[0]: owner: must be a string, got list"),
        ("[[rule]]\n" + GIT + 'source = ["a"]', "rule[0]: source: must be a string, got list"),
        ("[[rule]]\n" + GIT + 'source = "a b"', "rule[0]: source: 'a b' isn't a distribution's name"),
        (
            "[[rule]]\n" + GIT.replace("deny", "allow") + 'source = "a"',
            "rule[0]: source: an allow rule can't have one, as a toolset could claim",
        ),
        ("forbid = [" + '"wipe", ' * 200_000 + "]", "can't be read: larger than"),
        ('allow = "bash"', "allow: must be an array, got str"),
        ("deny = [1]", "deny[0]: must be a string, got int"),
        ('ask = ["a", ": x"]', "ask[1]: expected 'permission: pattern' or 'permission', found ': x'"),
        ('ask = ["a:"]', "ask[0]: expected 'permission: pattern' or 'permission', found 'a:'"),
        ("rule = [1]", "rule[0]: must be an object, got int"),
        ("rule = 1", "rule: must be an array, got int"),
        ('[[rule]]\npermission = "a"\nacton = "ask"', "rule[0]: acton: unknown key. Did you mean 'action'?"),
        ("rule = [{}]\nrules = [{}]", "rules: write either 'rule' or 'rules'"),
        ('ask = ["a:\\u0000"]', "ask[0]: pattern holds a NUL character"),
        ("[[rule]]\n" + GIT + "match = [1]", "rule[0].match: must be a list of texts, got [1]"),
        ("[[rule]]\n" + GIT + 'match = "a"', "rule[0].match: must be a list of texts, got 'a'"),
        (
            "[[rule]]\n" + GIT + 'match = ["git log", "ls; git x"]',
            "rule[0].match: the rule deny bash: git * doesn't apply to 'ls; git x', read as text",
        ),
        (
            "[[rule]]\n" + GIT + 'kind = "command"\nnot_match = ["ls", "sudo git log"]',
            "rule[0].not_match: the rule deny bash: git * (argument as command) applies to 'sudo git log', read as",
        ),
        ("mode = ", "not TOML: "),
        (b"\xff", "not UTF-8"),
        ("a = " + "[" * 100_000, "nested too deep"),
        (" " * (MOST_FILE + 1), f"can't be read: larger than {MOST_FILE} bytes"),
    ],
)
def test_what_is_wrong_is_named(written, content, text):
    path = written(content)
    with pytest.raises(ConfigError, match=re.escape(f"{path}: {text}")) as caught:
        read_permissions(path)
    assert caught.value.file == path


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"mode": "plan", "mode": "bypass"}', "duplicate key"),
        ('{"forbid": ["wipe"], "forbid": []}', "duplicate key"),
        ("[]", "must be a table, got list"),
        ("{", "EOF while parsing"),
        ('{"forbid": null}', "forbid: null is not a value"),
    ],
)
def test_json_is_read_as_strictly(written, content, text):
    with pytest.raises(ConfigError, match=text):
        read_permissions(written(content, "rules.json"))


def test_a_missing_rules_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: can't be read: No such file"):
        read_permissions(str(tmp_path / "none.toml"))


FETCH = Tool(ToolSpec("fetch", permission_arguments={"url": "url"}))
DELETE = Tool(ToolSpec("Delete_all", input_schema={"type": "object", "properties": {}, "additionalProperties": False}))
READ = Tool(ToolSpec("read_file", permission_arguments={"path": "path"})).with_spec(name="look")
STRANGER = evolve(Tool(ToolSpec("edit")), origin=Origin(plugin="other", trusted=False))
KNOWN = [SHELL, FETCH, DELETE, READ, STRANGER, Tool(ToolSpec("write", permission="edit"))]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (Rule("delete_fiel", "*", "deny"), "is called 'delete_fiel'. Did you mean 'Delete_all'?"),
        (Rule("basch", "*", "deny", forbid=True), "and no permission that a tool declares, is called 'basch'. Did you"),
        (Rule("delete_*", "*", "deny"), "the tool 'Delete_all', whose name differs only in case or in look-alikes"),
        (Rule("De1ete-aII", "*", "ask"), "the tool 'Delete_all', whose name"),
        (Rule("Delete_all", "*", "deny", field="path"), "no tool that it names has an argument 'path'"),
        (Rule("bash", "mkdir*", "allow"), "'*' inside a word allows every word that begins with 'mkdir'"),
        (Rule("fs_read*", "*", "allow"), "'*' inside a word allows every word that begins with 'fs_read'"),
        (Rule("bash", "python3 *", "allow"), "'python3' can run anything, as its arguments say"),
        (Rule("bash", "/bin/python3.11 *", "allow"), "'/bin/python3.11' can run anything, as its arguments say"),
        (Rule("bash", "/bin/sh -c *", "allow"), "'/bin/sh' can run anything"),
        (Rule("bash", "sudo *", "allow"), "'sudo' can run anything"),
        (Rule("bash", "docker *", "allow"), "'docker' can run anything"),
        (Rule("bash", "docker compose exec web *", "allow"), "'docker' can run anything"),
        (Rule("bash", "uv run *", "allow"), "'uv' can run anything"),
        (Rule("bash", "git submodule *", "allow"), "'git' can run anything"),
        (Rule("bash", "find . -name *", "allow"), "'find' can run anything"),
        (Rule("bash", "sed -n *", "allow"), "'sed' can run anything"),
        (Rule("bash", "sort *", "allow"), "makes sort run a program or write a file: --compress-program, -o, --output"),
        (Rule("bash", "/bin/sort -u * a", "allow"), "it also allows what makes sort run"),
        (Rule("bash", "git log *", "allow"), "makes git run a program or write a file: --ext-diff"),
        (Rule("bash", "git *", "allow"), "makes git run a program or write a file: -c, --exec-path"),
        (Rule("bash", "tar -tf *", "allow"), "makes tar run a program or write a file: -I, -F, --to-command"),
        (Rule("bash", "socat *", "allow"), "makes socat run a program or write a file: EXEC:x. Add rules that ask"),
        (Rule("bash", "less *", "allow"), "makes less run a program or write a file: +x, -o"),
        (Rule("bash", "uniq *", "allow"), "makes uniq run a program or write a file: operand 2. Add rules that ask"),
        (Rule("edit", "*", "allow"), "it also allows the tool 'edit' of an origin that isn't trusted"),
        (Rule("look", "file:///etc/*", "deny"), "a URL is not a path: it matches nothing"),
        (Rule("read_file", "$NO_SUCH_NAME/*", "deny"), "$NO_SUCH_NAME isn't set here: it matches nothing"),
        (Rule("read_file", "src/*/../secret", "deny"), "no path has '..', '.' or '//' after its start"),
        (Rule("read_file", "*//secret", "deny"), "no path has '..', '.' or '//' after its start"),
        (Rule("read_file", "src/**/key", "deny"), "'a/**/b' isn't 'a/b'"),
        (Rule("read_file", "/usr", "deny", forbid=True), "it is about the folder alone; what is in it is '/usr/*'"),
        (Rule("read_file", "*", "deny", owner="files"), "no tool that it names comes from 'files'; they come from ''"),
        (Rule("read_file", "*", "deny", source="llm-x"), "no tool that it names has the source 'llm-x'."),
        (Rule("fetch", "ann@example.com", "allow"), "a URL with a user name is never allowed"),
        (Rule("fetch", "faß.de", "deny", forbid=True), "no host has the character 'ß'"),
        (Rule("fetch", "βόλος.com", "deny"), "no host has the character"),
        (Rule("fetch", "exa mple.com", "deny"), "no host has the character ' '"),
        (Rule("fetch", "10.0.0.0/99", "deny"), "there is no such network"),
        (Rule("fetch", "https://2001:db8::/200", "deny"), "there is no such network"),
        (Rule("fetch", "999.1.1.1", "deny"), "no host is called '999.1.1.1'"),
        (Rule("fetch", "a.example.0x1:80/x", "deny"), "no host is called 'a.example.0x1'"),
        (Rule("fetch", "a..b", "deny"), "no host is called 'a..b'"),
        (Rule("fetch", "data:x", "deny"), "no host is called 'data:x'"),
        (Rule("fetch", "http:///x", "deny"), "it names no host"),
        (Rule("fetch", "/latest", "deny"), "it names no host"),
        (Rule("read_file", "~nouser/x", "deny"), "there is no user 'nouser' here"),
        (Rule("*", "a%62c.com", "deny", kind="url"), "no host has the character '%'"),
    ],
)
def test_what_a_rule_seems_to_mean_and_does_not_is_reported(rule, problem, monkeypatch, caplog):
    monkeypatch.delenv("NO_SUCH_NAME", raising=False)
    permissions = Permissions([rule])
    found = rule_problems(permissions, KNOWN)
    assert any(problem in each for each in found), found
    registry = ToolRegistry()
    registry.register(*KNOWN)
    with caplog.at_level(logging.WARNING, "pegboard"):
        registry.permissions = permissions
        registry.permissions = permissions
    assert caplog.messages == list(found)


@pytest.mark.parametrize(
    "rule",
    [
        *(Rule("bash", "*", "deny"), Rule("shell", "git status *", "allow"), Rule("bash", "python3 -V", "allow")),
        *(
            Rule("*", "*.env", "deny", forbid=True),
            Rule("*_file", "a/../src/*/", "allow"),
            Rule("*", "rm x", "deny"),
            Rule("look", "$HOME/*", "deny"),
        ),
        *(
            Rule("fetch", each, "deny")
            for each in ("//a.org", "*", "https://*", "127.1", "10.*", "[::1]:80", "*.1", "2001:db8:*", "a.org/x")
        ),
        *(Rule("read_file", each, "deny") for each in ("~/x", "~root/x", "~x*")),
        *(Rule("fetch", "*.example.com", "allow"), Rule("fetch", "10.0.0.0/8", "deny"), Rule("fetch", "::1", "deny")),
        *(Rule("fetch", "https://münchen.de/*", "allow"), Rule("fetch", "ann@example.com", "deny")),
        *(Rule("bash", each, "allow") for each in ("ls *", "sort -- *", "sort -n a", "git commit *", "tar", "uniq ?")),
        *(Rule("bash", "rm*", "deny"), Rule("read_file", "*", "deny", field="path"), Rule("?ash", "ls *", "ask")),
    ],
)
def test_a_rule_that_means_what_it_seems_to_is_not_reported(rule):
    assert rule_problems(Permissions([rule]), KNOWN) == ()


def test_options_that_other_rules_ask_about_or_deny_are_not_reported():
    rules = [Rule("bash", "sort *", "allow"), *(Rule("bash", f"sort *-{each}*", "ask") for each in "oT")]
    (problem,) = rule_problems(Permissions(rules), KNOWN)
    assert problem.endswith("write a file: --compress-program, --temporary-directory. Add rules that ask about it.")
    assert rule_problems(Permissions([*rules, Rule("bash", "sort *--*", "deny")]), KNOWN) == ()


def test_a_pattern_for_all_tools_of_a_server_is_not_reported():
    tool = Tool.from_schema("srv__echo", {"type": "object"}, lambda arguments: "")
    assert rule_problems(Permissions([Rule("srv__*", "*", "allow")]), [tool]) == ()


def test_initial_rules_of_a_registry_are_checked_by_its_first_call(caplog):
    registry = ToolRegistry(permissions=Permissions([Rule("nothing", "*", "deny")]))
    registry.register(FETCH)
    with caplog.at_level(logging.WARNING, "pegboard"):
        registry.call_sync("fetch", {})
        registry.call_sync("fetch", {})
    assert len(caplog.messages) == 1
    assert rule_problems(registry.permissions, [FETCH], complete=False) == ()
