"""Whatever is written as JSON is what `docs/reference/json.md` says, and its schemas leave nothing of it out."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import given

from json_page import SCHEMA, faults
from message_strategies import MESSAGES, RESPONSES
from pegboard import (
    REMOVED,
    Actions,
    Confirmation,
    Later,
    PendingCalls,
    ReadonlyContext,
    Reject,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolResult,
    ToolSpec,
    TurnOutcome,
    run_turn,
    stream_turn,
    tool,
)
from pegboard.errors import PendingError
from pegboard.execution import ExecutionRequest, ExecutionResponse, PermissionRequired
from pegboard.schema.converter import JsonRecord, json_name
from pegboard.testing import ScriptedModel
from pegboard.worker import ExecutorStatus, WorkerInfo
from pegboard_clients.listing import MCP


def records(cls: type = JsonRecord) -> Iterator[type]:
    for each in cls.__subclasses__():
        yield each
        yield from records(each)


def test_the_page_names_every_attribute_of_every_class_that_it_has():
    """Of those that are written by their attributes, and no others."""
    named = {each.__name__: each for each in records()}
    missing = []
    for name in SCHEMA["$defs"].keys() & named.keys() - {"CallEvent", "FileContent"}:
        cls = named[name]
        keys = {key for each in attrs.fields(cls) if (key := json_name(cls, each))}
        missing += [f"{name}.{key}" for key in keys - SCHEMA["$defs"][name]["properties"].keys()]
    assert sorted(missing) == ["RoundStarted.request", "TurnEnded.outcome"]


def test_every_class_with_json_of_its_own_is_on_the_page():
    """But for what only two parts of one program say to each other, bases, and parts of a spec."""
    public = {each.__name__ for each in records() if each.__module__.startswith("pegboard.")}
    inside = {"SayableRecord", "SignedRecord", "TextDelta", "ReasoningDelta", "CallDelta", "Grammar", "ToolAnnotations"}
    events = {name for name in public if re.match("Call(?!Part|Fault|Event|Delta)|Approval(Requested|Answered)", name)}
    hidden = {name for name in public if name.startswith("_")}
    assert public - inside - events - hidden <= SCHEMA["$defs"].keys()


@given(MESSAGES, RESPONSES)
def test_conversations(message, response):
    assert faults("Message", message.to_json()) == []
    assert faults("ModelResponse", response.to_json()) == []


@tool(requires_confirmation=True)
async def send(to: str, context: ToolContext) -> dict[str, str]:
    """Send it."""
    context.actions.escalate = False
    context.state["last"] = to
    context.report(1, 2, "half")
    return {"to": to}


class TestTurns:
    @pytest.fixture
    def registry(self):
        made = ToolRegistry()
        made.register(send, Tool(ToolSpec("there", input_schema={"type": "object"})))
        return made

    @pytest.mark.parametrize("answer", [None, Later(), Reject("no")])
    async def test_events_outcomes_and_pending_calls(self, registry, answer):
        async def approver(request, context):
            seen.append(request)
            return answer

        seen, events = [], []
        options = {} if answer is None else {"approver": approver}
        steps = [["Let me see.", ToolCall("send", {"to": "ann"}), ToolCall("nothing", {})], "Done."]
        model = ScriptedModel(steps)
        async for event in stream_turn(model, "Hi", registry, **options):
            events.append(event)
            assert faults("TurnEvent", event.to_json()) == []
        outcome = events[-1].outcome
        assert faults("TurnOutcome", json.loads(outcome.dumps("a key of sixteen bytes"))) == []
        assert faults("PendingCalls", outcome.pending.to_json()) == []
        assert [faults("ApprovalRequest", each.to_json()) for each in seen] == [[]] * len(seen)
        assert {event.type for event in events} >= {"round", "delta", "answer", "message", "end", "call_pending"}

    async def test_what_the_host_has_to_run(self, registry):
        with ScriptedModel([[ToolCall("there", {}, "c")]]) as model:
            outcome = await run_turn(model, "Hi", registry)
        assert [each.id for each in outcome.for_host] == ["c"]
        assert faults("TurnOutcome", outcome.to_json()) == []
        end = [each async for each in stream_turn(ScriptedModel([[ToolCall("there", {}, "c")]]), "Hi", registry)][-1]
        assert (end.to_json()["text"], [each["id"] for each in end.to_json()["forHost"]]) == ("", ["c"])

    async def test_results_of_a_batch(self, registry):
        outcome = await registry.dispatch([ToolCall("there", {}, "a"), ToolCall("send", {"to": 1}, "b")])
        assert faults("Outcome", outcome.to_json()) == []


def test_requests_and_responses_of_executors():
    """Every attribute is in one of them."""
    confirmation = Confirmation("Sure?", confirmed=True).to_data()
    texts = {each.name: "x" for each in attrs.fields(ReadonlyContext) if each.type == "str | None"}
    context = ReadonlyContext(**texts, state={"a": 1}, extra={"b": object(), "c": [2]})
    facts = {"confirmation": Confirmation.from_data(confirmation), "trace": {"traceparent": "e"}, "fencing_token": 3}
    called = ToolContext(context, "c1", "send", values={"d": 1}, depth=2, **facts)
    facts = {"timeout": 1.5, "memory_limit": 5, "expose_errors": True, "approvals": ("e",), "queue": "gpu"}
    facts |= {"key": "sha256:0", "attempt": 2, "digest": "sha256:1", "distribution": "mail==1.0"}
    request = ExecutionRequest.of_call("send", {"to": "ann"}, called, **facts).to_json()
    assert faults("ExecutionRequest", request) == []
    assert len(request) == len(SCHEMA["$defs"]["ExecutionRequest"]["properties"])
    everything = ToolResult(
        "a", [1], is_error=True, title="t", display="b", metadata={"d": 1}, detail="e", attachments="f", details=2
    )
    required = PermissionRequired("edit", ("a",), "why", {"diff": "x"}, "id")
    response = (
        ExecutionResponse.of_result(everything)
        .evolve(
            content=everything.content,
            permission_required=required,
            not_executed=True,
            actions=Actions({"a": 1}).to_json(),
            call_digest="sha256:0",
        )
        .to_json()
    )
    assert faults("ExecutionResponse", response) == []
    assert len(response) == len(SCHEMA["$defs"]["ExecutionResponse"]["properties"])
    emitted = []
    context = ExecutionRequest(tool="send").context(emitted.append)
    context.report(1, 2, "half")
    context.metadata("title", f=1)
    context.emit("text")
    context.emit({"any": 1})
    assert [(each["type"], faults("emitted", each)) for each in emitted] == [
        ("progress", []),
        ("display", []),
        ("partial", []),
        ("partial", []),
    ]


def test_other_records():
    answers = [Later(), Reject("no")]
    assert [faults("answer", each.to_json()) for each in answers] == [[], []]
    assert faults("Actions", Actions({"a": 1}, {"f": 2}, "boss", escalate=True, conflicts=("a",)).to_json()) == []
    confirmed = Confirmation("Sure?", payload=[1], patterns=["a"], earlier=(Confirmation("x"),), stored={"k": 1})
    assert faults("Confirmation", confirmed.to_data()) == []
    result = ToolResult("a", [1], is_error=True, display="b", metadata={"d": 1}, detail="e", attachments="f", details=2)
    assert faults("ToolResult", result.to_data()) == []
    spec = ToolSpec("a", title="A", input_schema={"type": "object"}, tags=["x"], examples=[{"a": 1}], version="1")
    assert faults("ToolSpec", spec.to_json()) == []


# What older versions have written -----------------------------------------------------------------------------------

KEPT = {
    "version": 1,
    "ended": "suspended",
    "messages": [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}],
    "response": {
        "message": {"role": "assistant", "parts": []},
        "finish_reason": "tool_calls",
        "usage": {"input_tokens": 3, "output_tokens": 2, "cached_tokens": 0, "cache_write_tokens": 0},
    },
    "usage": {"input_tokens": 3, "output_tokens": 2},
    "actions": {"state_delta": {"n": 1}, "state_removed": ["gone"]},
    "state": {"n": 1},
    "pending": {"version": 1, "calls": []},
    "for_host": [{"id": "h", "name": "there", "arguments": {}}],
    "began": 1,
    "rounds": 1,
    "calls": 2,
    "detail": None,
}


async def later(request, context):
    return Later()


def test_data_of_version_1_is_read(registry):
    """A pending call in the keys of that version, and the turn outcome that contains it."""
    registry.register(send)
    pending = asyncio.run(registry.dispatch([ToolCall("send", {"to": "ann"}, "s")], approver=later)).pending
    (call,) = pending.to_json()["calls"]
    old = {"specDigest": "spec_digest", "ownRules": "own_rules"}
    then = {"own_rules": False, "user": None, "presets": {}, **{old.get(key, key): each for key, each in call.items()}}
    read = TurnOutcome.loads(json.dumps({**KEPT, "pending": {"version": 1, "calls": [then]}}))
    assert read.pending == pending
    assert (read.usage.total_tokens, read.response.finish_reason, read.for_host[0].id) == (5, "tool_calls", "h")
    assert read.actions == Actions({"n": 1, "gone": REMOVED})
    assert TurnOutcome.from_json(read.to_json()) == read


@pytest.mark.parametrize("version", [0, 3, "2", None])
def test_data_of_another_version_is_refused(version):
    with pytest.raises(PendingError, match=f"version {version!r}; this pegboard knows version 2"):
        TurnOutcome.from_json({**KEPT, "version": version})
    with pytest.raises(PendingError, match=f"version {version!r}; this pegboard knows version 2"):
        PendingCalls.from_json({"version": version, "calls": []})


# What the command prints ----------------------------------------------------------------------------------------------


@pytest.fixture
def filled_registry(registry):
    registry.register(send, Tool(ToolSpec("search", kind="provider", provider_id="some.search")))
    registry.add("exporters", "mine", MCP)
    registry.add("executors", "far", Far())
    return registry


class Far:
    """Executor with a worker."""

    async def execute_tool(self, call):
        raise NotImplementedError

    async def status(self):
        worker = WorkerInfo(name="host-1", max_concurrency=4, running={"toolu_1": "send"})
        return ExecutorStatus(workers=(worker,), queues={"default": 3, "gpu": None})


@pytest.mark.parametrize(
    "argv",
    [
        ("list", "--json"),
        ("search", "send", "--json"),
        ("show", "send", "--json"),
        ("explain", "send", "--where", "read_only", "--json"),
        ("call", "send", "to=ann", "--yes", "--json"),
        ("call", "send", "--json"),
        ("export", "--to", "mine", "--json"),
        ("export", "--to", "mine", "--check", "--json"),
        ("export", "--list", "--json"),
        ("processors", "--json"),
        ("doctor", "--json"),
        ("worker", "--executor", "far", "--status", "--json"),
    ],
)
def test_what_a_command_prints(run, filled_registry, argv):
    options = [each for each in argv if each in {"--check", "--list", "--status", "--json"}]
    out = json.loads(run(*argv)[1])
    assert faults(f"registry {argv[0]} {' '.join(options)}", out) == []
    assert len(out) >= 1


def test_plugins_of_this_environment(run, site):
    out = json.loads(run("plugins", "--all", "--json")[1])
    assert faults("registry plugins --json", out) == []
    assert out["plugins"]


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (("dispatch", "calls.json", "--yes"), "registry dispatch, a line"),
        (("dispatch", "calls.json", "--no", "--events"), "registry dispatch --events, a line"),
    ],
)
def test_json_lines_of_dispatch(run, filled_registry, argv, name):
    calls = [{"id": "1", "name": "send", "arguments": {"to": "ann"}}, {"id": "2", "name": "no", "arguments": "{"}]
    Path("calls.json").write_text(json.dumps(calls))
    lines = [json.loads(line) for line in run(*argv)[1].splitlines()]
    assert [faults(name, each) for each in lines] == [[]] * len(lines)
    assert len(lines) >= 2
