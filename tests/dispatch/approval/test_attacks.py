"""Attempts to run what no person has approved: by models, clients, other users, other tools, and by timing."""

from __future__ import annotations

import asyncio
import json

import pytest
from attrs import evolve

from pegboard import (
    Always,
    Injected,
    Limits,
    Once,
    Origin,
    PendingCalls,
    Permissions,
    ReadonlyContext,
    Reject,
    Reshape,
    Rule,
    StaticToolset,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolRegistry,
    tool,
)
from pegboard.approval import MemoryGrants, ask_later

ANN = ReadonlyContext(session="s", user="ann")
KEY = "a key of sixteen bytes or more"


def writer(name="write", origin=None, kind="path", **facts):
    """A tool that declares a path, and gives back what it was called with."""
    schema = {"type": "object", "properties": {"path": {}}}
    facts = {"description": "Writes.", "permission": "write", "permission_arguments": {"path": kind}, **facts}
    made = Tool.from_schema(name, schema, lambda arguments: f"{arguments}", **facts)
    return made if origin is None else evolve(made, origin=origin)


def registry_with(*tools, **options):
    registry = ToolRegistry(**options)
    registry.register(*tools)
    return registry


def call(registry, arguments, context=ANN, name="write", **options):
    return asyncio.run(registry.call(name, arguments, context, **options))


def suspended(registry, arguments, context=ANN):
    batch = registry.dispatch([ToolCall("write", arguments, "c1")], context=context, approver=ask_later)
    return asyncio.run(batch).pending


def resumed(registry, pending, answers, context=ANN):
    return asyncio.run(registry.resume(pending, answers, context=context))


@pytest.mark.parametrize(
    "answer",
    [
        True,
        1,
        "once",
        "yes",
        None,
        {"type": "once"},
        '{"answer": "once"}',
        ["once"],
        {"confirmed": True},
        {"answer": "Once"},
        {"answer": "once", "approved": True},
        {"answer": "once", "digest": "sha256:0"},
        {"answer": "always", "patterns": ["*"]},
        {"answer": "always", "patterns": []},
        {"answer": "always", "patterns": None, "permission": "*"},
        {"answer": "always", "seconds": -1},
        {"answer": "once", "answer ": "once"},
    ],
)
def test_no_forged_answer_runs_a_call_or_allows_anything(answer):
    registry = registry_with(writer())
    pending = suspended(registry, {"path": "/a"})
    (waiting,) = pending
    outcome = resumed(registry, pending, {waiting.id: answer})
    assert (outcome.results, outcome.pending, outcome.ignored) == ((), pending, (waiting.id,))
    assert call(registry, {"path": "/a"}).kind == "denied"


@pytest.mark.parametrize("by", ["call", "digest", "tool", "once", "case"])
def test_an_answer_names_its_call_by_the_id_that_cant_be_guessed(by):
    registry = registry_with(writer())
    pending = suspended(registry, {"path": "/a"})
    (waiting,) = pending
    name = {"call": waiting.call.id, "digest": waiting.digest, "tool": "write", "once": waiting.question_key}.get(
        by, waiting.id.upper()
    )
    assert resumed(registry, pending, {name: Once()}).results == ()


@pytest.mark.parametrize(
    ("kind", "allowed", "attempt"),
    [
        ("path", "/d/notes.txt", "/d/other.txt"),
        ("path", "/d/notes.txt", "/d/notes.txt/../../etc/passwd"),
        ("path", "/d/*", "/d/secret"),
        ("path", "notes.txt", "../notes.txt"),
        ("path", ["/a", "/b"], "/a"),
        ("path", ["/a", "/b"], ["/b", "/a"]),
        ("path", "/a", None),
        ("text", "*", "anything"),
        ("text", "a?", "ab"),
        ("text", "e\u0301", "\u00e9"),
        ("text", '["a"]', ["a"]),
        ("command", "git push", "git push --force"),
        ("command", "git push", "git push; rm -rf /"),
        ("command", "echo a > b", "echo a > /etc/passwd"),
        ("command", "rm *", "rm a"),
        *(
            ("command", "ls ?", "ls x"),
            ("command", "FOO=a ls", "FOO=b ls"),
            ("command", "f() { ls; }; f", "f() { rm; }; f"),
        ),
        *(("command", "echo x #", "echo x #\nrm y"), ("command", "cat <<A\nx\nA", "cat <<A\ny\nA")),
        *(("path", "$HOME/x", "~/x"), ("path", "/*", "/etc"), ("path", "d/", "d/b"), ("path", "?", "b")),
        *(
            ("url", "10.0.0.0/8", "10.1.1.1"),
            ("url", "https://*/x", "https://evil.example/x"),
            ("url", "*", "https://a"),
        ),
        *(("text", "", "b"), ("text", "a *", "a"), ("text", "a\u200b", "a"), ("text", 1, True)),
        ("command", "echo $HOME", "echo $HOME"),
        *(("command", "echo *", "echo a"), ("command", "echo a", "echo a b"), ("command", "echo a; echo b", "echo b")),
        *(("command", "echo a", "echo a > x"), ("command", "echo '*'", "echo *"), ("command", "ls", "./ls")),
        *(("command", "echo \\$HOME", "echo $HOME"), ("command", "echo a", "echo a; rm x"), ("text", "a", "a ")),
        *(("command", "sh <<A\ntrue\nA", "sh <<A\nrm x\nA"), ("command", "echo true | sh", "sh")),
        *(("path", "*", "abc.txt"), ("path", "a?c.txt", "abc.txt"), ("path", "a.txt", "a.txt ")),
        *(("command", "echo 'a  b'", "echo a  b"), ("command", "echo a && echo b", "echo a || echo b")),
        *(("command", "echo true | sh", "echo rm x | sh"), ("command", "cd a; rm x", "cd b; rm x"), ("text", "a", "A")),
        ("url", "https://example.com/a", "https://evil.example.com/a"),
        ("url", "https://example.com/a?b", "https://example.com/axb"),
        ("url", "https://example.com/a/../b", "https://example.com/a/../b"),
    ],
)
def test_always_is_not_valid_for_other_arguments(kind, allowed, attempt):
    registry = registry_with(writer(kind=kind))
    assert call(registry, {"path": allowed}, approver=lambda *_: Always()).kind is None
    assert call(registry, {} if attempt is None else {"path": attempt}).kind == "denied"


@pytest.mark.parametrize(
    "other",
    [
        ReadonlyContext(session="s", user="bob"),
        ReadonlyContext(session="s"),
        ReadonlyContext(user="ann"),
        ReadonlyContext(session="t", user="ann"),
        ReadonlyContext(session='ann", "s'),
        ReadonlyContext(),
        ReadonlyContext(session="s", user="ann", work_dir="/elsewhere"),
    ],
)
def test_always_is_not_valid_for_another_user_session_or_folder(other):
    registry = registry_with(writer())
    assert call(registry, {"path": "a"}, approver=lambda *_: Always()).kind is None
    assert (call(registry, {"path": "a"}).kind, call(registry, {"path": "a"}, other).kind) == (None, "denied")


@pytest.mark.parametrize("kind", ["command", "url", None])
def test_always_for_a_command_is_bound_to_its_folder_and_other_arguments(kind):
    facts = {} if kind else {"permission_arguments": {}}
    registry = registry_with(writer(kind=kind, **facts))
    here = evolve(ANN, work_dir="/d")
    assert call(registry, {"path": "https://a.org/b", "cwd": "/a"}, here, approver=lambda *_: Always()).kind is None
    assert call(registry, {"path": "https://a.org/b", "cwd": "/a"}, here).kind is None
    other = call(registry, {"path": "https://a.org/b", "cwd": "/a"}, evolve(here, work_dir="/e")).kind
    assert other == (None if kind == "url" else "denied")
    other = call(registry, {"path": "https://a.org/b", "cwd": "/b"}, here).kind
    assert other == (None if kind == "url" else "denied")


@pytest.mark.parametrize(("one", "other"), [("1", 1), (True, "true"), ('["a"]', [["a"]]), ({"a": "b"}, '{"a":"b"}')])
def test_always_for_a_text_is_not_for_other_json_types(one, other):
    registry = registry_with(writer(kind="text"))
    assert call(registry, {"path": one}, approver=lambda *_: Always()).kind is None
    assert (call(registry, {"path": one}).kind, call(registry, {"path": other}).kind) == (None, "denied")


RUNS_ELSEWHERE = writer().evolve(policy=evolve(writer().policy, executor="process"))
OTHERS = [
    writer(origin=Origin(plugin="evil")),
    writer(origin=Origin(toolset="evil")),
    writer(origin=Origin(plugin="evil", distribution="evil")),
    writer(title="Write"),
    writer(version="2"),
    writer(kind="text"),
    writer("remove").with_spec(name="write"),
    writer(permission="remove").with_spec(permission="write"),
    RUNS_ELSEWHERE,
]
"""Tools named `write` too, with another origin, executor, definition or former name."""


@pytest.mark.parametrize("other", OTHERS)
def test_a_later_answer_is_not_valid_for_another_tool_of_that_name(other):
    pending = suspended(registry_with(writer()), {"path": "/a"})
    answers = {each.id: Once() for each in pending}
    (result,) = resumed(registry_with(other), pending, answers).results
    assert (result.kind, "isn't what was approved any more" in result.text) == ("denied", True)


@pytest.mark.parametrize("other", [writer("write2"), *OTHERS])
def test_always_is_not_valid_for_another_tool_with_the_same_permission(other):
    grants = MemoryGrants()
    registry = registry_with(writer(), grants=grants)
    assert call(registry, {"path": "/a"}, approver=lambda *_: Always(["*"])).kind is None
    assert call(registry, {"path": "/b"}).kind is None
    assert call(registry_with(other, grants=grants), {"path": "/a"}, name=other.name).kind == "denied"


def test_always_does_not_follow_a_changed_link(tmp_path):
    (tmp_path / "harmless").touch()
    (tmp_path / "secret").touch()
    link = tmp_path / "link"
    link.symlink_to("harmless")
    registry = registry_with(writer())
    assert call(registry, {"path": str(link)}, approver=lambda *_: Always()).kind is None
    assert call(registry, {"path": f"{tmp_path}/x/../link"}).kind is None
    link.unlink()
    link.symlink_to("secret")
    assert call(registry, {"path": str(link)}).kind == "denied"


def test_a_tool_cant_widen_what_is_asked_for_its_model():
    """The model's wildcard is asked for; "always" allows that text only."""

    @tool
    async def fetch(host: str, context: ToolContext) -> str:
        """Asks for what the model names."""
        await context.ask("net", [host])
        return "fetched"

    registry = registry_with(fetch)
    assert call(registry, {"host": "*"}, name="fetch", approver=lambda *_: Always()).kind is None
    assert call(registry, {"host": "*"}, name="fetch").kind is None
    assert call(registry, {"host": "a.org"}, name="fetch").kind == "denied"


def test_a_change_while_a_person_is_asked_does_not_run():
    """The host's own mapping, the call's state, and the tool of that name."""
    given = {"path": "/a"}
    registry = registry_with(writer())

    async def approver(request, context):
        given["path"] = "/etc/passwd"
        request.arguments["path"] = "/etc/passwd"
        registry.unregister("write")
        registry.register(writer(title="Another tool"))
        return Once()

    assert call(registry, given, approver=approver).text == "{'path': '/a'}"


@pytest.mark.parametrize("rules", [[], [Rule("write", "*/secret", "deny", forbid=True)]])
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("work_dir", [None, lambda arguments, context: "."])
def test_a_link_changed_while_a_person_is_asked_is_denied(tmp_path, rules, later, work_dir):
    (tmp_path / "link").symlink_to("harmless")
    registry = registry_with(writer(work_dir=work_dir), permissions=Permissions(rules))
    given = {"path": str(tmp_path / "link")}

    def turn():
        (tmp_path / "link").unlink()
        (tmp_path / "link").symlink_to("secret")

    def approver(request, context):
        assert request.patterns == (str(tmp_path / "harmless"),)
        turn()
        return Once()

    if later:
        pending = suspended(registry, given)
        turn()
        (result,) = resumed(registry, pending, {each.id: Once() for each in pending}).results
    else:
        result = call(registry, given, approver=approver)
    assert result.kind == "denied"
    assert call(registry, given, approver=lambda *_: Once()).kind == ("denied" if rules else None)


WAITS = [
    *("for another call", "for its turn among its own", "in its batch", "in the registry"),
    *("to be tried again", "wrapped", "for a service"),
]


@pytest.mark.parametrize("waits", WAITS)
@pytest.mark.parametrize("action", ["deny", "ask"])
def test_a_link_changed_while_a_call_waits_is_denied(tmp_path, waits, action):
    link, ran = tmp_path / "link", []
    link.symlink_to("harmless")

    def turn():
        link.unlink()
        link.symlink_to("secret")

    class Disk:
        pass

    def open_disk():
        turn()
        return Disk()

    sharing = {WAITS[0]: {"concurrency": "exclusive"}, WAITS[1]: {"max_concurrency": 1}}.get(waits, {})

    @tool(permission_arguments={"path": "path"}, idempotent=True, retries=1, **sharing)
    async def put(path: str, disk: Injected[Disk]) -> str:
        ran.append(link.resolve().name)
        if path.endswith("first"):
            for _ in range(50):  # the other one is decided on now, or starts only afterwards
                await asyncio.sleep(0)
            turn()
        elif waits == "to be tried again":
            turn()
            raise ToolError("busy", retryable=True)
        return "ran"

    async def wrap(call_next):
        turn()
        return await call_next()

    rules = Permissions([Rule("put", "*/secret", action, forbid=action == "deny")])
    limits = Limits(max_concurrency=1 if waits == "in the registry" else None)
    registry = registry_with(put, permissions=rules, limits=limits)
    registry.provide(Disk, open_disk if waits == "for a service" else Disk())
    if waits == "wrapped":
        registry.add_callback("wrap_tool", wrap)
    calls = [ToolCall("put", {"path": str(tmp_path / "first")}, "1")] if waits in WAITS[:4] else []
    calls.append(ToolCall("put", {"path": str(link)}, "2"))
    options = {"max_concurrency": 1} if waits == "in its batch" else {}
    outcome = asyncio.run(registry.dispatch(calls, **options))
    assert outcome.results[-1].kind == "denied"
    assert set(ran) <= {"harmless"}


@pytest.mark.parametrize("option", ["destructive", "requires_confirmation"])
def test_functions_of_a_tool_are_called_right_before_it_runs(option):
    there, ran = [], []

    @tool(concurrency="exclusive")
    def put(name: str) -> None:
        """Puts a file there."""
        there.append(name)

    @tool(concurrency="exclusive", **{option: lambda arguments: arguments["name"] in there})
    def write(name: str) -> None:
        """Writes a file; one that is there is gone then."""
        ran.append(name)

    calls = [
        ToolCall("put", {"name": "a"}, "1"),
        ToolCall("write", {"name": "a"}, "2"),
        ToolCall("write", {"name": "b"}, "3"),
    ]
    outcome = asyncio.run(registry_with(put, write).dispatch(calls))
    assert ([each.kind for each in outcome.results], ran) == ([None, "denied", None], ["b"])


def reshaped(*reshapes, **options):
    """A registry whose tool `write` has arguments that the model doesn't choose."""
    schema = {"type": "object", "properties": {"path": {}, "text": {}, "mode": {}}}
    made = Tool.from_schema("write", schema, lambda arguments: f"{arguments}", description="Writes.", destructive=True)
    toolset = StaticToolset("files", [made])
    for each in reshapes:
        toolset = toolset.reshaped({"write": each})
    return registry_with(toolset, **options)


HIDDEN = Reshape(rename={"text": "path"}, hide={"path": "acme"}, default={"mode": "w"})
PRESETS = [
    ([HIDDEN], {"path": "x"}, {"path": "acme", "mode": "w"}),
    ([HIDDEN], {"path": "x", "mode": "a"}, {"path": "acme"}),
    ([HIDDEN, Reshape(hide={"path": "y"}, default={"mode": "a"})], {}, {"path": "acme", "text": "y", "mode": "a"}),
    (
        [Reshape(rename={"mode": "m"}), Reshape(rename={"m": "path", "path": "p"}, hide={"text": 1})],
        {"p": 2},
        {"text": 1},
    ),
]


@pytest.mark.parametrize(("reshapes", "arguments", "presets"), PRESETS)
def test_a_person_is_shown_what_the_model_doesnt_choose(reshapes, arguments, presets):
    seen = []
    registry = reshaped(*reshapes, approver=lambda request, context: seen.append(request) or Once())
    result = call(registry, arguments)
    (request,) = seen
    assert request.presets == request.to_json()["presets"] == presets
    (shown,) = (line for line in request.to_text().splitlines() if line.startswith("besides its arguments: "))
    assert json.loads(shown.partition(": ")[2]) == presets
    assert all(f"{name!r}: {value!r}" in result.text for name, value in presets.items())
    pending = suspended(reshaped(*reshapes), arguments)
    assert PendingCalls.loads(pending.dumps(key=KEY), key=KEY).calls[0].presets == presets


@pytest.mark.parametrize("now", [{"hide": {"path": "other"}}, {"hide": {"path": "acme"}, "default": {"mode": "a"}}, {}])
def test_no_approval_is_valid_once_presets_changed(now):
    before, arguments = Reshape(hide={"path": "acme"}), {"text": "x"}
    pending, grants = suspended(reshaped(before), arguments), MemoryGrants()
    assert resumed(reshaped(Reshape(**now)), pending, {each.id: Once() for each in pending}).results[0].kind == "denied"
    assert "acme" in resumed(reshaped(before), pending, {each.id: Once() for each in pending}).results[0].text
    call(reshaped(before, grants=grants, approver=lambda request, context: Always()), arguments)
    assert "acme" in call(reshaped(before, grants=grants), arguments).text
    assert call(reshaped(Reshape(**now), grants=grants), arguments).kind == "denied"


def test_a_rejection_by_another_user_with_the_same_session_id_rejects_nothing():
    registry, asked, both = registry_with(writer()), {}, asyncio.Event()

    async def approver(request, context):
        asked[request.user] = asyncio.get_running_loop().create_future()
        if len(asked) == 2:
            both.set()
        return await asked[request.user]

    async def main():
        names = ("ann", "bob")
        calls = [
            asyncio.create_task(registry.call("write", {"path": "/a"}, evolve(ANN, user=name), approver=approver))
            for name in names
        ]
        await both.wait()
        asked["bob"].set_result(Reject())
        assert (await calls[1]).kind == "rejected"
        assert not calls[0].done()
        asked["ann"].set_result(Once())
        assert (await calls[0]).kind is None

    asyncio.run(main())


def test_duplicate_request_ids_and_too_many_pending_calls_lose_no_result(monkeypatch):
    monkeypatch.setattr("pegboard.dispatch.batch.MOST_CALLS", 3)

    @tool
    async def wait(number: int, context: ToolContext) -> str:
        """Waits for an answer."""
        if context.confirmation is None:
            context.suspend("really?", request="the same")
        return f"{number} {context.confirmation.confirmed}"

    @tool
    def quick() -> str:
        """Answers."""
        return "quick"

    registry = registry_with(wait, quick)
    calls = [ToolCall("wait", {"number": number}, f"{number}") for number in range(4)]
    outcome = asyncio.run(registry.dispatch([*calls, ToolCall("quick", {}, "q")], context=ANN))
    kinds = ["confirmation_required"] * 3
    assert [each.kind for each in outcome.results] == [*kinds, "denied", None]
    assert len({each.id for each in outcome.pending}) == 3
    later = resumed(registry, outcome.pending, {each.id: Once() for each in outcome.pending})
    assert [each.text for each in later.results] == ["0 True", "1 True", "2 True"]
