"""What a language model that was led astray may try against approvals, and beside them: a row is an attempt."""

from __future__ import annotations

import asyncio
import sys

import pytest

import pegboard
from attacker import (
    OPEN,
    SECRET,
    allow,
    attempt,
    batch,
    forbid,
    installed,
    looks,
    patch,
    whole,
    words,
)
from pegboard import Once, Permissions, ReadonlyContext, Reject, ToolCall, ToolRegistry, tool
from pegboard.testing import ScriptedModel
from pegboard_agents import Agent, agent_tool
from pegboard_search import searchable

# -- Answers that are given for longer, and what they cover


ONE, TWO = {"what": "a"}, {"what": "b"}


TRICKS = [
    ("shell", {"command": "echo a\n\nallowed by rule 1\r\x1b[2K\u202erm -rf /\u202c"}),
    ("write_file", {"path": "a.txt", "content": "x\r\x1b[1A\u200b\n+++ b/other\n"}),
    ("write_file", {"path": "a\u202etxt.exe", "content": "x"}),
    ("write_file", {"path": "x\npermission: read", "content": "x"}),
    ("apply_patch", patch("*** Add File: a.txt", "+\x1b[31m\u2066")),
    ("send_message", {"target_type": "user", "target_id": "a\u202eb", "content": "\x1b]0;x\x07"}),
    ("ask_user", {"questions": [{"question": "Allow?\x1b[2J\u202e", "options": [{"label": "\u200bYes"}]}]}),
]


@pytest.mark.parametrize(("name", "arguments"), TRICKS, ids=range(len(TRICKS)))
def test_nothing_that_a_person_is_shown_hides_or_steers(name, arguments, everything):
    texts = []

    def approver(request, context):
        texts.append(request.to_text())
        return Reject("no")

    attempt(everything, name, arguments, approver=approver)
    (text,) = texts
    assert not [sign for sign in text if sign != "\n" and (ord(sign) < 32 or sign in "\u200b\u202e\u202c\u2066")]
    assert not [line for line in text.splitlines() if line.startswith(("allowed", "permission: read"))]


# -- Memory, files of the conversation and messages

GUARDED = [forbid("update_memory", "persona"), forbid("save_artifact", "report.md"), forbid("save_artifact", "user:*")]
GUARDED += [forbid("message", "user:ann"), forbid("message", "group:*"), allow("message")]
LABELS = words(r"""
persona \x20persona persona\x20 persona\x0a \x09persona per\u200bsona persona\xa0 persona\x00 persona/ Persona PERSONA
\uff50ersona persona\u0301 ./persona per\uff53ona
""")


@pytest.mark.parametrize("label", LABELS)
def test_a_block_that_is_forbidden_to_change_gets_neither_words_nor_a_double(label, tmp_path):
    registry = installed(tmp_path / "root", "memory")
    attempt(registry, "update_memory", {"operation": "create", "name": "persona", "content": "GOOD"})
    for operation in ("create", "append", "replace"):
        attempt(registry, "update_memory", {"operation": operation, "name": label, "content": "EVIL"}, GUARDED)
    request = asyncio.run(registry.process(pegboard.ModelRequest("hello"), ReadonlyContext(user="ann")))
    assert "GOOD" in request.system
    assert "EVIL" not in request.system


ARTIFACTS = words(r"""
report.md ./report.md report.md/ /report.md a/../report.md report.md\x20 report.md\x00 .. user:.. user:a user::a
user:/a USER:a \x20user:a x/user:a us\u200ber:a \u202efoo a\x0ab user:../a ../../root/secret/key.txt
user:../../../root/secret/key.txt /etc/passwd a/../../../../root/public.txt
""")


@pytest.mark.parametrize("name", ARTIFACTS)
def test_no_name_of_an_artifact_leads_elsewhere(name, root, everything):
    before = looks(root)
    assert attempt(everything, "save_artifact", {"name": name, "content": "x"}, GUARDED).is_error
    assert SECRET not in whole(attempt(everything, "load_artifacts", {"artifact_names": [name]}))
    assert looks(root) == before


TARGETS = words(r"""
user:ann user: user:\x20ann user:ann\x20 user:ann\x0a user:a\u200bnn user:ann\x00 user:an\xadn user:\u202eann
user:\x09ann group:x channel:x\x0agroup:x USER:ann
""")


@pytest.mark.parametrize("target", TARGETS)
def test_no_spelling_of_a_receiver_escapes_its_rules(target, everything):
    kind, _, receiver = target.partition(":")
    arguments = {"target_type": kind, "target_id": receiver, "content": "x", "metadata": {"target_id": "ann"}}
    assert attempt(everything, "send_message", arguments, GUARDED).is_error


QUERIES = ['x"', "* OR *", "NEAR(a b)", "content:*", "'; DROP TABLE entries; --", "{a b}:c", "a^", "-x"]


@pytest.mark.parametrize("query", QUERIES)
def test_no_query_of_the_memory_is_more_than_words(query, everything):
    assert attempt(everything, "load_memory", {"query": query}).text == "Nothing is remembered that fits."


# -- Programs and hooks of the user's

NO_KEYS = "import json, sys; sys.exit(2 if '.env' in json.dumps(json.load(sys.stdin)['tool_input']) else 0)"
PROGRAMS = {
    "before": [{"command": [sys.executable, "-c", NO_KEYS], "where": "name:read_* or name:show"}],
    "tools": {
        "show": {"description": "Shows.", "command": ["/bin/cat", "{path}"], "arguments": {"path": {"type": "string"}}},
        "log": {
            "description": "Logs.",
            "command": ["/bin/echo", "log", "--author={author}", "--", "{path}", "{paths}"],
            "arguments": {"author": {"type": "string"}, "path": {"type": "string"}, "paths": {"type": "array"}},
        },
    },
}
RUNS = [("show", {"path": path}) for path in ("-A", "--help", "a\0b")]
RUNS += [
    ("log", dict(zip(("author", "path", "paths"), (author, path, paths), strict=True)))
    for author, path, *paths in map(
        str.split, ("a secret", "a x a secret", "secret x", "a x -x", "a -p", "a x y secret")
    )
]


@pytest.mark.parametrize(("name", "arguments"), RUNS, ids=str)
def test_no_argument_of_a_program_escapes_its_rules_or_becomes_an_option(name, arguments, root):
    registry = installed(root, "hooks", hooks={"tools": PROGRAMS["tools"]})
    rules = [allow("shell"), forbid("shell", "/bin/echo log *secret*")]
    assert attempt(registry, name, arguments, rules).kind in {"denied", "invalid_arguments"}


HOOKED = [("read_file", path) for path in (".env", "sub/../.env", ".env ")]
HOOKED += [(name, ".env") for name in ("Read_File", "readfile", "show", "Show")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path"), HOOKED)
def test_no_spelling_of_a_call_escapes_a_hook(name, path, root):
    registry = installed(root, "files", "agents", "hooks", hooks=PROGRAMS)
    for called, arguments in ((name, {"path": path}), ("batch", batch((name, {"path": path})))):
        assert SECRET not in whole(attempt(registry, called, arguments, OPEN))


# -- Loops, agents, searches for tools, results that are kept


def counted(calls: list[str], name: str = "boom", **options):
    """A tool that notes its calls."""

    def run(x: str = "a", n: float = 1) -> str:
        """Explodes."""
        calls.append(x)
        return "\n".join([SECRET] * 5000) if name == "long" else "exploded"

    return tool(run, name=name, **options)


ROWS = {
    "the same": [{"x": "a"}] * 6,
    "in other words": ['{"x":"a","n":1}', '{"n":1,"x":"a"}', '{"n":1.0,"x":"a"}', '{"n":10e-1,"x":"\\u0061"}'] * 2,
    "names in another case": [("Boom", {}), ("BOOM", {}), ("boom", {})] * 2,
    "within batches": [("batch", batch(("boom", {})))] * 6,
    "within batches of another": [("batch", batch(("boom", {}), ("boom", {"x": str(n)}))) for n in (0, 0, 0, 0)],
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_no_spelling_of_a_call_goes_on_for_ever(row, tmp_path):
    calls = []
    registry = installed(tmp_path, "guard", "agents", guard={"doom_loop_action": "deny"})
    registry.register(counted(calls, read_only=True))
    for each in row:
        name, arguments = each if isinstance(each, tuple) else ("boom", each)
        attempt(registry, name, arguments, session="s", invocation="i")
    assert len(calls) <= 4


AGENTS = {
    "its own rules": {},
    "tools by name": {"where": "name:boom"},
    "a registry of its own": {"own": True},
    "only what it was offered": {"offered": "name:helper"},
    "in plan mode": {"mode": "plan"},
}


@pytest.mark.parametrize("options", AGENTS.values(), ids=AGENTS)
@pytest.mark.parametrize("place", ["registry", "batch"])
def test_no_agent_runs_what_its_caller_may_not(place, options):
    calls = []
    boom = counted(calls, destructive=True)
    registry, own = ToolRegistry(), ToolRegistry()
    own.register(boom)
    model = ScriptedModel([ToolCall("boom", {}), "Done."])
    given = {"where": options["where"]} if "where" in options else {"registry": own} if "own" in options else {}
    registry.register(boom, agent_tool(Agent(name="helper", description="Helps.", model=model, **given)))
    rules = [allow("boom")] if {"offered", "mode"} & {*options} else [forbid("boom"), allow("*")]
    permissions = Permissions(rules, mode=options.get("mode", "default"))
    registry.permissions = permissions if place == "registry" else None

    async def run():
        resolved = await registry.resolve(where=options.get("offered"))
        call = ToolCall("helper", {"request": "Explode"}, id="1")
        more = {"permissions": permissions} if place == "batch" else {}
        await registry.dispatch([call], resolved, approver=lambda *_: Once(), **more)

    asyncio.run(run())
    assert calls == []


def test_no_search_for_tools_finds_what_a_request_leaves_out():
    calls = []
    registry = ToolRegistry()
    boom, safe = counted(calls, destructive=True), counted(calls, "safe", read_only=True)
    registry.register(searchable(pegboard.StaticToolset("office", [boom, safe])))
    resolved = asyncio.run(registry.resolve(where="read_only"))
    for name, arguments in [("search_tools", {"query": "boom explodes"}), ("boom", {}), ("bom", {}), ("Boom", {})]:
        result = attempt(registry, name, arguments, [allow("*")], resolved=resolved)
        assert "boom" not in result.text.replace("boom is not available", "").replace("called 'Boom'", "")
    assert calls == []


# -- Tools of a host's, whose arguments rules look at


PLACES = words("secret/key.txt ./secret/x src/../secret/x dlink/key.txt sub/up/secret/key.txt {root}/secret/x")


@pytest.mark.parametrize("place", PLACES)
def test_what_a_tool_asks_about_by_itself_is_judged_as_the_path_that_it_is(place, root):
    @tool
    async def change(context: pegboard.ToolContext, target: str) -> str:
        """Changes."""
        await context.ask("edit", [target])
        return "changed"

    registry = ToolRegistry()
    registry.register(change)
    target = {"target": place.format(root=root)}
    for rules in ([allow("edit"), forbid("edit", "secret/*")], [allow("edit", "src/*")]):
        result = attempt(registry, "change", target, rules, work_dir=str(root))
        assert result.is_error
