"""Attacks of a misled model on approvals, memory, hooks and stored results; each row is one attempt."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import pegboard
from attacker import (
    KEY,
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
from pegboard_search import searchable

# -- Answers and their scope


def askers() -> ToolRegistry:
    """A registry of tools that do nothing, and ask for paths, commands and names."""
    registry = ToolRegistry()
    kinds = {"edit": "path", "other": "path", "shell": "command", "text": "text"}
    for name, kind in kinds.items():
        permission = "edit" if name == "other" else name

        def run(what: str, and_what: str = ".") -> str:
            """Does nothing."""
            return "done"

        looked_at = {"what": kind} | ({"and_what": kind} if kind == "path" else {})
        registry.register(tool(run, name=name, permission=permission, permission_arguments=looked_at))
    return registry


ONE, TWO = {"what": "a"}, {"what": "b"}
TWICE = {
    "the same id": [ToolCall("edit", ONE, id="1"), ToolCall("edit", TWO, id="1")],
    "the same call": [ToolCall("edit", ONE, id="1"), ToolCall("edit", ONE, id="1")],
    "no ids": [ToolCall("edit", ONE), ToolCall("edit", ONE)],
    "two ids": [ToolCall("edit", ONE, id="1"), ToolCall("edit", ONE, id="2")],
}


@pytest.mark.parametrize("calls", TWICE.values(), ids=TWICE)
@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_one_answer_runs_one_call_and_counts_once(calls, later):
    registry = askers()
    context = ReadonlyContext(session="monday", user="ann", message="m1")
    answers = iter([Once(), *[Reject("no more")] * 9])

    async def run():
        if not later:
            return (await registry.dispatch(calls, context=context, approver=lambda *_: next(answers))).results
        pending = (await registry.dispatch(calls, context=context, approver=pegboard.approval.ask_later)).pending
        one = {pending.calls[0].id: Once()}
        outcomes = [await registry.resume(each, one, context=context) for each in (pending, pending)]
        outcomes.append(await registry.resume(pegboard.PendingCalls.loads(pending.dumps()), one, context=context))
        return [result for outcome in outcomes for result in outcome.results]

    results = asyncio.run(run())
    assert [result.text for result in results if not result.is_error] == ["done"]
    another = attempt(registry, "edit", {"what": "a"}, session="monday", user="ann")
    assert another.kind == "denied"


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
def test_no_approval_request_shows_hidden_or_control_characters(name, arguments, everything):
    texts = []

    def approver(request, context):
        texts.append(request.to_text())
        return Reject("no")

    attempt(everything, name, arguments, approver=approver)
    (text,) = texts
    assert not [sign for sign in text if sign != "\n" and (ord(sign) < 32 or sign in "\u200b\u202e\u202c\u2066")]
    assert not [line for line in text.splitlines() if line.startswith(("allowed", "permission: read"))]


# -- Memory, artifacts and messages

GUARDED = [forbid("update_memory", "persona"), forbid("save_artifact", "report.md"), forbid("save_artifact", "user:*")]
GUARDED += [forbid("message", "user:ann"), forbid("message", "group:*"), allow("message")]
LABELS = words(r"""
persona \x20persona persona\x20 persona\x0a \x09persona per\u200bsona persona\xa0 persona\x00 persona/ Persona PERSONA
\uff50ersona persona\u0301 ./persona per\uff53ona
""")


@pytest.mark.parametrize("label", LABELS)
def test_a_forbidden_block_of_memory_gets_neither_text_nor_a_lookalike(label, tmp_path):
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
    assert attempt(everything, "load_memory", {"query": query}).structured_content == {"memories": []}


# -- The user's programs and hooks

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


# -- Loops, agents, searches for tools, stored results


def counted(calls: list[str], name: str = "boom", **options):
    """A tool that records its calls."""

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
def test_no_spelling_of_a_call_escapes_the_loop_detection(row, tmp_path):
    calls = []
    registry = installed(tmp_path, "guard", "agents", guard={"doom_loop_action": "deny"})
    registry.register(counted(calls, read_only=True))
    for each in row:
        name, arguments = each if isinstance(each, tuple) else ("boom", each)
        attempt(registry, name, arguments, session="s", invocation="i")
    assert len(calls) <= 4


def test_no_search_finds_a_tool_that_the_request_leaves_out():
    calls = []
    registry = ToolRegistry()
    boom, safe = counted(calls, destructive=True), counted(calls, "safe", read_only=True)
    registry.register(searchable(pegboard.StaticToolset("office", [boom, safe])))
    resolved = asyncio.run(registry.resolve(where="read_only"))
    for name, arguments in [("search_tools", {"query": "boom explodes"}), ("boom", {}), ("bom", {}), ("Boom", {})]:
        result = attempt(registry, name, arguments, [allow("*")], resolved=resolved)
        assert "boom" not in result.text.replace("boom is not available", "").replace("called 'Boom'", "")
    assert calls == []


@pytest.mark.parametrize("place", [{"session": "two"}, {"session": None}, {"session": "two", "user": "bob"}], ids=str)
@pytest.mark.parametrize("spelling", ["{}", "../{}", " {}", "./{}"])
def test_no_session_reads_the_stored_results_of_another(place, spelling):
    registry = ToolRegistry()
    registry.register(counted([], "long", read_only=True), pegboard.read_result_tool(registry.results))
    first = attempt(registry, "long", {}, session="one")
    known = first.text.rpartition('id="')[2].partition('"')[0]
    read = {"id": spelling.format(known), "line": 3000}
    assert SECRET in attempt(registry, "read_result", read | {"id": known}, session="one").text
    assert attempt(registry, "read_result", read, **place).is_error


CUT_OFF = pegboard.Message("assistant", [pegboard.messages.CallPart(ToolCall("boom", {}, id="1"))])
CUT_OFF = pegboard.ModelResponse(CUT_OFF, "length")
ANSWERS = {
    "forbidden": (ToolCall("boom", {}), [forbid("boom"), allow("*")], {}),
    "in another case": (ToolCall("Boom", {}), [allow("boom")], {}),
    "with a typo": (ToolCall("bom", {}), [allow("boom")], {}),
    "not asked for": (ToolCall("boom", {}), [allow("boom")], {"where": "read_only"}),
    "not active": (ToolCall("boom", {}), [allow("boom")], {"active": ["safe"]}),
    "half an argument": (ToolCall("boom", '{"x": "a"'), [allow("boom")], {}),
    "as if it had run": (ToolCall("boom", {}, provider_executed=True), [allow("boom")], {}),
    "without an approver": (ToolCall("boom", {}), [], {}),
    "by an approver that fails": (ToolCall("boom", {}), [], {"approver": lambda *_: 1 / 0}),
    "in an answer that was cut off": (CUT_OFF, [allow("boom")], {}),
}


@pytest.mark.parametrize(("step", "rules", "options"), ANSWERS.values(), ids=ANSWERS)
def test_no_answer_of_a_model_runs_a_denied_tool(step, rules, options):
    calls = []
    registry = ToolRegistry()
    registry.permissions = Permissions(rules)
    registry.register(counted(calls, destructive=True), counted(calls, "safe", read_only=True))
    asyncio.run(pegboard.run_turn(ScriptedModel([step, "Well."]), "Go", registry, **options))
    assert calls == []


# -- Tools of the host with arguments for rules


PLACES = words("secret/key.txt ./secret/x src/../secret/x dlink/key.txt sub/up/secret/key.txt {root}/secret/x")


@pytest.mark.parametrize("place", PLACES)
def test_a_path_that_a_tool_asks_about_is_checked_resolved(place, root):
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


SHAPES = {
    "list": (list[str], [KEY]),
    "list of lists": (list[list[str]], [["x", KEY]]),
    "keys": (dict[str, str], {KEY: "x"}),
    "values": (dict[str, str], {"x": KEY}),
    "either": (str | list[str], ["x", KEY]),
    "anything": (object, [{"x": [KEY]}]),
    "path": (Path, KEY),
    "maybe": (str | None, KEY),
}


@pytest.mark.parametrize(("shape", "value"), SHAPES.values(), ids=SHAPES)
def test_no_shape_of_an_argument_hides_a_path(shape, value, root):
    def peek(path) -> str:
        """Peeks."""
        return SECRET

    peek.__annotations__["path"] = shape
    registry = ToolRegistry()
    base = pegboard.StaticToolset("s", [tool(peek, permission="read", permission_arguments={"path": "path"})])
    reshape = {"look": pegboard.Reshape(rename={"path": "file"})}
    registry.register(pegboard.wrap(base).renamed({"peek": "look"}).reshaped(reshape))
    by_name, by_field = forbid("read", "secret/*"), forbid("peek", KEY, field="path")
    for rules in ([allow("*"), by_name], [allow("*"), by_field], [allow("read", "x")]):
        assert attempt(registry, "look", {"file": value}, rules, work_dir=str(root)).kind == "denied"
