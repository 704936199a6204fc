"""Requests, answers and previews."""

from __future__ import annotations

import asyncio
import json
import re
import threading

import pytest
from hypothesis import given, strategies as st

from dispatch.approval.samples import a_request, a_tool
from pegboard import Always, Later, Once, Origin, Preview, Reject
from pegboard.approval import PendingCall, answer_from_json, preview_of
from pegboard.dispatch.approval.request import escape_preview
from pegboard.errors import PendingError
from pegboard.json import json_text
from pegboard.tools import EMPTY_CONTEXT
from strategies import json_values

OBJECTS = st.dictionaries(st.text(max_size=4), json_values(), max_size=3)

PATTERNS = st.none() | st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=3)
SECONDS = st.none() | st.floats(0.001, 1e6)
ANSWERS = (
    st.builds(Once, json_values())
    | st.builds(Always, PATTERNS, SECONDS)
    | st.builds(Reject, st.none() | st.text(max_size=20))
    | st.just(Later())
)


@given(ANSWERS)
def test_an_answer_survives_json(answer):
    assert answer_from_json(answer.to_json()) == answer


def test_an_answer_writes_only_what_is_set():
    assert Once().to_json() == {"answer": "once"}
    assert Always("git *", 60).to_json() == {"answer": "always", "patterns": ["git *"], "seconds": 60}
    assert Reject("why", rejected_with="delete").to_json() == {"answer": "reject", "feedback": "why"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "an answer is an object"),
        ([], "an answer is an object"),
        ({}, "unknown answer None; expected one of once, always, reject, later"),
        ({"answer": "yes"}, "unknown answer 'yes'"),
        ({"answer": ["once"]}, "unknown answer"),
        ({"answer": "once", "patterns": ["*"]}, "patterns: unknown key"),
        ({"answer": "reject", "rejected_with": "x"}, "rejected_with: unknown key"),
        ({"answer": "later", 3: 4}, "3: unknown key"),
        ({"answer": "always", "patterns": "*"}, "patterns: must be an array"),
        ({"answer": "always", "patterns": []}, "patterns must be 1 to 200 texts"),
        ({"answer": "always", "patterns": ["a"] * 201}, "patterns must be 1 to 200 texts"),
        ({"answer": "always", "patterns": [""]}, "of 1 to 4,096 characters"),
        ({"answer": "always", "patterns": [1]}, "patterns[0]: must be a string"),
        ({"answer": "always", "patterns": ["a" * 4097]}, "of 1 to 4,096 characters"),
        ({"answer": "always", "patterns": 7}, "not an answer"),
        ({"answer": "always", "seconds": 0}, "seconds must be more than 0 and at most a year, got 0"),
        ({"answer": "always", "seconds": True}, "seconds: must be a number"),
        ({"answer": "always", "seconds": "60"}, "seconds: must be a number"),
        ({"answer": "always", "seconds": float("inf")}, "seconds must be more than 0"),
        ({"answer": "always", "seconds": float("nan")}, "seconds must be more than 0"),
        ({"answer": "reject", "feedback": 1}, "feedback: must be a string"),
        ({"answer": "reject", "feedback": "a" * 20_001}, "feedback must be a string of at most 20,000"),
        ({"answer": "once", "payload": object()}, "a payload must be JSON"),
    ],
)
def test_an_invalid_answer_is_refused_with_a_reason(data, reason):
    with pytest.raises(PendingError, match=re.escape(reason)):
        answer_from_json(data)


@pytest.mark.parametrize("seconds", [True, "60", 0, float("nan"), 31_622_401, 10**400], ids=lambda each: str(each)[:9])
def test_wrong_facts_of_an_answer_are_refused(seconds):
    with pytest.raises(ValueError, match="seconds must be more than 0 and at most a year"):
        Always(seconds=seconds)
    with pytest.raises(ValueError, match="feedback must be a string of at most 20,000 characters, got 1"):
        Reject(1)


class Unwritable:
    def __repr__(self):
        raise RuntimeError


def test_ids_are_never_the_same():
    ids = {a_request().id for _ in range(100)}
    assert len(ids) == 100
    assert {len(name) for name in ids} == {40}


def test_the_arguments_of_a_request_cant_be_changed():
    request = a_request(arguments={"paths": ["a"]})
    request.arguments["paths"].append("b")
    assert request.arguments == {"paths": ["a"]}
    assert request.arguments_text == '{"paths":["a"]}'


def test_the_text_of_a_request_has_one_fact_a_line():
    """The preview is shown along with the arguments, never instead of them."""
    facts = {"reason": "it is destructive", "hint": "Shall I?", "patterns": ("a.txt", "b"), "wider": ("*.txt",)}
    request = a_request(tool=a_tool(title="Delete a file"), metadata={"n": 1}, payload=[2], **facts)
    assert request.evolve(preview=Preview("deletes a.txt", "1 file")).to_text().splitlines() == [
        "Delete a file (delete): Shall I?",
        "permission: delete",
        "for: a.txt",
        "for: b",
        "asked because it is destructive",
        "always allows: exactly this",
        "more would be allowed by: *.txt",
        "  {",
        '    "path": "a.txt"',
        "  }",
        "  [",
        "    2",
        "  ]",
        "  deletes a.txt",
        "  1 file",
        "  {",
        '    "n": 1',
        "  }",
    ]


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({}, None),
        ({"origin": Origin(plugin="evil", distribution="evil", version="1")}, "brought by plugin 'evil' (evil 1)"),
        ({"origin": Origin(toolset="mcp\u202e")}, "brought by the host, toolset 'mcp\\u202e'"),
        ({"former_names": ("wipe", "remove")}, "brought by the host as wipe"),
    ],
)
def test_a_person_reads_the_tools_origin_and_own_name(facts, line):
    shown = a_request(tool=a_tool(**facts)).to_text().splitlines()[1:2]
    assert shown == [line or "permission: delete"]


CLOSED = {"type": "object", "properties": {"path": {}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("declared", "facts", "allows"),
    [
        ({}, {}, "exactly this"),
        ({"path": "command"}, {}, "exactly this"),
        ({"path": "path"}, {"input_schema": CLOSED}, "exactly this"),
        ({"path": "path"}, {}, "this path, whatever the other arguments"),
        ({"a": "url", "b": "text"}, {"input_schema": CLOSED}, "this a and b, whatever the other arguments"),
        ({"path": "path"}, {"subject": "permission"}, "exactly this, in any call"),
    ],
)
def test_a_person_reads_how_much_always_allows(declared, facts, allows):
    spec = {"permission_arguments": declared, "input_schema": facts.pop("input_schema", {"type": "object"})}
    request = a_request(tool=a_tool().with_spec(**spec), **facts)
    assert f"always allows: {allows}" in request.to_text().splitlines()


@pytest.mark.parametrize(
    ("always", "allows"),
    [
        ('{"arguments":{"path":"a"},"in":["/"]}', "exactly this"),
        ('{"":["a"]}', "the same, whatever the other arguments"),
    ],
)
def test_what_always_allows_is_shown_without_the_tool_too(always, allows):
    pending = PendingCall.of(a_request(always=(always,)), "", created=0.0)
    assert f"always allows: {allows}" in pending.to_text().splitlines()


def test_a_title_that_is_escaped_at_its_definition_is_not_escaped_again():
    """One of a toolset, say; the arguments are shown so that no two look alike."""
    tool = a_tool(title="Delete \\u{202e}")
    text = a_request(tool=tool, arguments={"path": "\\u{202e}"}).to_text()
    assert text.startswith("Delete \\u{202e} (delete)\n")
    assert '"\\\\u{5c}u{202e}"' in text


def test_hidden_characters_are_escaped_in_the_text():
    """In texts of the model and the tool; and no text adds a line to the head."""
    facts = {"patterns": ("a\u202eb\npermission: none",), "hint": "\x1b[2J", "wider": ("\u200b",)}
    text = a_request(arguments={"path": "ä\u202e"}, **facts).to_text()
    assert not {"\u202e", "\x1b", "\u200b"} & set(text)
    assert {"for: a\\u{202e}b\\u{a}permission: none", '    "path": "ä\\u{202e}"'} <= set(text.splitlines())
    shown = a_request(preview=Preview("s", "permission: none")).to_text().splitlines()
    assert [line for line in shown if line.startswith("permission")] == ["permission: delete"]


@pytest.mark.parametrize("where", ["arguments", "patterns", "hint", "reason", "payload", "metadata", "wider"])
def test_nothing_that_a_person_approves_is_cut(where):
    """At any length, and with any preview."""
    end = "the end of it"
    long = "a" * 200_000 + end
    facts = {"arguments": {"path": long}, "patterns": (long,), "metadata": {"x": long}, "wider": (long,)}
    request = a_request(**{where: facts.get(where, long)})
    assert end in request.evolve(preview=Preview("short")).to_text()


@given(OBJECTS, OBJECTS)
def test_two_calls_that_differ_look_different(one, other):
    texts = [a_request(arguments=arguments).to_text() for arguments in (one, other)]
    assert (texts[0] == texts[1]) is (json_text(one) == json_text(other))


def test_json_has_the_tool_and_text_of_what_is_no_json():
    metadata = {"diff": "x", "handle": Unwritable(), "path": {1}, "long": {"a" * 3_000}}
    request = a_request(tool=a_tool(title="Delete"), metadata=metadata)
    data = json.loads(json.dumps(request.to_json()))
    assert (data["tool"]["title"], data["tool"]["digest"]) == ("Delete", request.tool.spec.digest)
    assert data["call"]["arguments"] == {"path": "a.txt"}
    assert data["metadata"] == {"diff": "x", "handle": "a Unwritable", "path": "{1}", "long": "a set"}


def test_json_without_tool_and_preview():
    from attrs import evolve

    data = evolve(a_request(), tool=None).to_json()
    assert not {"tool", "preview"} & data.keys()


def previewed(preview, arguments='{"path": "a"}', **options):
    return asyncio.run(preview_of(a_tool(preview=preview), arguments, EMPTY_CONTEXT, **options))


def test_a_tool_without_a_preview_has_none():
    assert previewed(None) is None


def test_a_preview_runs_in_a_thread_with_a_copy_of_the_arguments():
    seen = []

    def preview(arguments):
        seen.append(threading.current_thread() is threading.main_thread())
        arguments["path"] += "!"
        return Preview(f"deletes {arguments['path']}", "for good")

    assert previewed(preview) == Preview("deletes a!", "for good")
    assert seen == [False]


@pytest.mark.parametrize(
    "fault", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()]
)
def test_a_preview_that_raises_is_dropped_and_logged(fault, logged):
    def preview(arguments):
        raise fault

    assert previewed(preview) is None
    assert [who for who, _ in logged()] == ["preview of delete"]


def test_a_hanging_preview_is_abandoned(logged):
    free = threading.Event()
    assert previewed(lambda arguments: free.wait(30), seconds=0.02) is None
    assert isinstance(logged()[0][1], TimeoutError)
    free.set()


async def test_waiting_for_a_preview_can_be_cancelled():
    started, free = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def preview(arguments):
        loop.call_soon_threadsafe(started.set)
        free.wait(30)

    task = asyncio.create_task(preview_of(a_tool(preview=preview), "{}", EMPTY_CONTEXT))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    free.set()


@pytest.mark.parametrize(
    "nonsense", [1, b"x", ["a"], Preview(1), Preview("a", None), Preview("a" * 1_001), Preview("a", "b" * 50_001)]
)
def test_an_invalid_or_too_long_preview_is_dropped(nonsense, logged):
    with pytest.raises((TypeError, ValueError), match="a preview"):
        escape_preview(nonsense)
    assert previewed(lambda arguments: nonsense) is None
    assert [who for who, _ in logged()] == ["preview of delete"]


def test_hidden_characters_are_written_out():
    """In both parts; the summary is one line."""
    shown = escape_preview(Preview("a\u202eb\nc", "d\u200be\nf\x1b"))
    assert shown == Preview("a\\u{202e}b\\u{a}c", "d\\u{200b}e\nf\\u{1b}")
    assert escape_preview("only a \u2067text") == Preview("only a \\u{2067}text")
    assert escape_preview(None) is None
