"""What a person is asked."""

from __future__ import annotations

import json

from dispatch.approval.samples import a_request, a_tool
from pegboard.tools.tool import Preview


class Unwritable:
    def __repr__(self):
        raise RuntimeError


def test_ids_are_never_the_same():
    ids = {a_request().id for _ in range(100)}
    assert len(ids) == 100
    assert {len(name) for name in ids} == {40}


def test_nobody_can_change_the_arguments():
    request = a_request(arguments={"paths": ["a"]})
    request.arguments["paths"].append("b")
    assert request.arguments == {"paths": ["a"]}
    assert request.arguments_text == '{"paths":["a"]}'


def test_a_person_reads_it_in_lines():
    request = a_request(tool=a_tool(title="Delete a file"), reason="it is destructive", hint="Shall I?")
    assert request.with_preview(Preview("deletes a.txt", "1 file")).to_text().splitlines() == [
        "Delete a file: Shall I?",
        "permission: delete",
        "for: a.txt",
        "always allows: a.txt",
        "asked because it is destructive",
        "deletes a.txt",
        "1 file",
    ]


def test_without_a_preview_the_arguments_are_shown():
    request = a_request(arguments={"path": "ä\u202e"}, patterns=(), always=())
    assert request.to_text().splitlines() == ["delete", "permission: delete", "{", '  "path": "ä\\u{202e}"', "}"]


def test_nothing_hidden_is_shown():
    """Whatever the model or the tool wrote; and nobody makes a line of their own in the head."""
    request = a_request(patterns=("a\u202eb\npermission: none",), hint="\x1b[2J", always=("\u200b",))
    text = request.to_text()
    assert not {"\u202e", "\x1b", "\u200b"} & set(text)
    assert "for: a\\u{202e}b\\u{a}permission: none" in text.splitlines()


def test_long_texts_are_cut_and_say_so():
    text = a_request(arguments={"path": "a" * 60_000}, patterns=("b" * 3_000,)).to_text()
    assert "more characters are not shown" in text
    assert len(text) < 55_000


def test_json_has_all_facts():
    request = a_request(
        tool=a_tool(title="Delete", description="Deletes."),
        reason="why",
        subject="question",
        hint="Shall I?",
        payload={"n": 1},
        metadata={"diff": "x", "handle": Unwritable(), "path": {1}},
        user="ann",
        session="s",
        preview=Preview("sum", "det"),
    )
    data = json.loads(json.dumps(request.to_json()))
    assert data.pop("tool") == {
        "name": "delete",
        "title": "Delete",
        "description": "Deletes.",
        "origin": "the host",
        "digest": request.tool.spec.digest,
    }
    assert data == {
        "id": request.id,
        "call": {"id": "call-1", "name": "delete", "arguments": {"path": "a.txt"}},
        "permission": "delete",
        "patterns": ["a.txt"],
        "always": ["a.txt"],
        "reason": "why",
        "subject": "question",
        "hint": "Shall I?",
        "payload": {"n": 1},
        "preview": {"summary": "sum", "details": "det"},
        "metadata": {"diff": "x", "handle": "a Unwritable", "path": "{1}"},
        "user": "ann",
        "session": "s",
        "digest": request.digest,
    }


def test_json_without_tool_and_preview():
    from attrs import evolve

    data = evolve(a_request(), tool=None).to_json()
    assert (data["tool"], data["preview"]) == (None, None)
