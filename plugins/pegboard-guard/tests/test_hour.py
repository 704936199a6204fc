"""Attempts on the journal, and of one user on what counts for another."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

import pegboard
from pegboard import Config, ReadonlyContext, ToolRegistry, register_plugin, tool
from pegboard_guard import CallLimits, ComesAfter, Journal, Limit, OrderRules, verify


@tool(read_only=True)
def act() -> str:
    """Acts."""
    return "acted"


def registry_of(*tools) -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(*tools)
    return registry


# Another user's count, order and results.


NAMELESS = [ReadonlyContext, lambda user: ReadonlyContext(user=user, session="s", invocation="t", message="m")]


@pytest.mark.parametrize("context", NAMELESS)
@pytest.mark.parametrize("within", ["session", "turn"])
def test_what_one_user_has_done_is_no_step_of_another_users_order(context, within):
    registry = registry_of(act, look)
    register_plugin(registry, OrderRules(ComesAfter("look", "act", within)), "order")
    registry.call_sync("act", {}, context(user="ann"))
    assert registry.call_sync("look", {}, context(user="bob")).kind == "denied"


@pytest.mark.parametrize("context", NAMELESS)
def test_one_users_calls_use_up_no_limit_of_another(context):
    registry = registry_of(act)
    register_plugin(registry, CallLimits(Limit(1, per="session")), "limits")
    registry.call_sync("act", {}, context(user="ann"))
    assert registry.call_sync("act", {}, context(user="bob")).kind is None
    assert registry.call_sync("act", {}, context(user="ann")).kind == "denied"


@tool(read_only=True)
def look() -> str:
    """Looks."""
    return "looked"


@tool(read_only=True)
def much() -> str:
    """Says much."""
    return "\n".join(f"line {number}" for number in range(5000))


@pytest.mark.slow
@pytest.mark.parametrize("context", NAMELESS)
def test_a_kept_result_is_read_by_its_own_user(tmp_path, context):
    settings = {"memory": {"folder": str(tmp_path / "memory")}}
    registry = pegboard.load(config=Config(enable=("memory",)), settings=settings)
    registry.register(much)
    text = registry.call_sync("much", {}, context(user="ann")).text
    (kept,) = re.findall(r'id="(\w+)"', text)
    assert registry.call_sync("read_result", {"id": kept, "line": 3}, context(user="ann")).kind is None
    assert registry.call_sync("read_result", {"id": kept, "line": 3}, context(user="bob")).is_error


# The journal.


@pytest.fixture
def journal(tmp_path) -> Path:
    """A journal of three calls."""
    file = tmp_path / "journal.jsonl"
    write_calls(file, 3)
    return file


def write_calls(file: Path, count: int, **context: str) -> None:
    registry = registry_of(act)
    register_plugin(registry, Journal(file), "journal")

    async def run() -> None:
        for number in range(count):
            result = await registry.call("act", {}, ReadonlyContext(**context), call_id=f"c{number}")
            assert result.kind is None, "a journal disturbs no call"
        await registry.aclose()

    asyncio.run(run())


CHANGED_JOURNALS = {
    "a record less": lambda lines: [*lines[:2], lines[3]],
    "the first less": lambda lines: lines[1:],
    "two swapped": lambda lines: [lines[0], lines[2], lines[1], lines[3]],
    "a record twice": lambda lines: [*lines, lines[-1]],
    "a record of nobody's": lambda lines: [*lines, b'{"n":5}\n'],
    "another outcome": lambda lines: [line.replace(b'"ok"', b'"no"') for line in lines],
    "a blank more": lambda lines: [line.replace(b'"ok"', b' "ok"') for line in lines],
    "a key twice": lambda lines: [line.replace(b'"outcome"', b'"outcome":"x","outcome"') for line in lines],
    "other line ends": lambda lines: [line.replace(b"\n", b"\r\n") for line in lines],
    "an empty line": lambda lines: [*lines, b"\n"],
    "zeros behind": lambda lines: [*lines, b"\0" * 100],
    "too deep": lambda lines: [*lines, b"[" * 100_000 + b"\n"],
    "a long line": lambda lines: [*lines, b"a" * 3_000_000],
    "cut": lambda lines: [*lines[:3], lines[3][:-20]],
    "nothing": lambda lines: [],
}


@pytest.mark.parametrize("change", CHANGED_JOURNALS.values(), ids=CHANGED_JOURNALS)
def test_a_change_of_a_journal_is_found(journal, change):
    journal.write_bytes(b"".join(change(journal.read_bytes().splitlines(keepends=True))))
    assert verify(journal).broken


def test_records_that_miss_at_the_end_are_found_by_a_head_and_by_no_forged_one(journal):
    head = verify(journal).head
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    assert not verify(journal, head=head).has_head
    assert not verify(journal, head="").has_head
    assert not verify(journal, head="0" * 64).has_head, "what stands before the first record is no record"


@pytest.mark.parametrize("text", ['a\n{"n":1}', "\u2028", "\x1b[2J", '","outcome":"ok', "\x00", "x" * 100_000])
def test_no_text_of_a_call_makes_a_record_of_its_own(journal, text):
    write_calls(journal, 1, user=text, session=text)
    report = verify(journal)
    assert (report.broken, report.records) == (None, 5)
    assert len(journal.read_bytes().split(b"\n")) == 6


def test_a_journal_is_never_written_into_another_file_and_a_pipe_keeps_nobody_waiting(tmp_path):
    notes = tmp_path / "notes"
    notes.write_text("mine\n")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(notes)
    for file in (notes, link, pipe, tmp_path):
        write_calls(file, 1)
    assert notes.read_text() == "mine\n"
    with pytest.raises(OSError, match="ordinary file"):
        verify(pipe)
