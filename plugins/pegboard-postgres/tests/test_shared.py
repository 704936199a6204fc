"""Long-running operations, counters and the journal, of two processes."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from pegboard import ToolError
from pegboard_postgres import DatabaseError, PostgresOperations


@pytest.fixture
def stores(database, opened):
    return PostgresOperations(database), PostgresOperations(opened())


# Operations


def test_another_process_finds_claims_and_completes_an_operation_once(stores):
    one, other = stores
    one.add("op_1", "first \0 \ud800", call_id="call 1", user=None, session="s")
    one.add("op_2", "second", call_id="o'hara\0", user=None, session=None)
    assert other.find() == ["first \0 \ud800", "second"]
    assert [other.find(name) for name in ("op_1", "call 1", "o'hara\0", "op_3", "")] == [
        ["first \0 \ud800"],
        ["first \0 \ud800"],
        ["second"],
        [],
        [],
    ]
    assert [other.claim("op_1", 60), one.claim("op_1", 60), one.claim("op_3", 60)] == [True, False, False]
    assert [other.finish("op_1", "done"), one.finish("op_1", "again"), one.finish("op_3", "x")] == [True, False, False]
    assert not one.claim("op_1", 60)
    assert one.find() == ["second"]
    assert [list(one.take("s")), list(other.take("s"))] == [["done"], []]


def test_a_claim_ends_with_its_time(stores):
    one, other = stores
    one.add("op", "data", call_id="c", user=None, session=None)
    assert [one.claim("op", 0), other.claim("op", 60), one.claim("op", 60)] == [True, True, False]


def test_completions_are_taken_by_session_and_call_in_their_order(stores):
    one, other = stores
    for number, session in enumerate((None, "None", "s", "s", "s")):
        one.add(f"op_{number}", "pending", call_id=f"c{number}", user=None, session=session)
    for number in (4, 3, 2, 1, 0):
        other.finish(f"op_{number}", f"done {number}")
    assert one.take("s", ["c3", "c1"]) == ["done 3"]
    assert other.take("s", []) == []
    assert other.take("s") == ["done 4", "done 2"]
    assert [one.take("None"), one.take(None), one.take(None)] == [["done 1"], ["done 0"], []]


def test_completions_are_taken_by_user(stores):
    one, other = stores
    for number, user in enumerate((None, "None", "ann")):
        one.add(f"op_{number}", "pending", call_id="c", user=user, session="s")
        other.finish(f"op_{number}", f"done {number}")
    assert other.take("s", None, ["ann", "bob"]) == ["done 2"]
    assert other.take("s", ["c"], [None]) == ["done 0"]
    assert other.take("s") == ["done 1"]


def test_each_completion_is_taken_by_one_of_many_who_ask_at_once(stores):
    for number in range(20):
        stores[0].add(f"op_{number}", "x", call_id="c", user=None, session="s")
        stores[0].finish(f"op_{number}", f"{number}")
    taken = []
    threads = [threading.Thread(target=lambda n=n: taken.extend(stores[n % 2].take("s"))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    taken.extend(stores[0].take("s"))  # what another transaction held back
    assert sorted(map(int, taken)) == list(range(20))


def test_an_operation_is_added_once(stores):
    stores[0].add("op", "data", call_id="c", user=None, session=None)
    with pytest.raises(DatabaseError):
        stores[1].add("op", "other", call_id="c", user=None, session=None)
    assert stores[1].find() == ["data"]


def test_operations_raise_where_the_server_is_gone(opened, tmp_path):
    with pytest.raises(ToolError, match="can't be reached"):
        PostgresOperations(opened(f"postgresql:///x?host={tmp_path}")).find()


# Counters


async def test_no_change_of_a_counter_is_lost(counters):
    def add(now, values):
        return {"a": values.get("a", 0) + 1, "b\0 o'hara": [*values.get("b\0 o'hara", []), now]}

    await asyncio.gather(*(counters[n % 2].update(["a", "b\0 o'hara"][:: 1 if n % 3 else -1], add) for n in range(40)))
    seen = {}

    def read(now, values):
        seen.update(values)
        return {"a": None}

    await counters[0].update(["a", "b\0 o'hara", "other"], read)
    assert seen["a"] == len(seen["b\0 o'hara"]) == 40
    assert seen.keys() == {"a", "b\0 o'hara"}
    seen.clear()
    await counters[1].update(["a", "b\0 o'hara"], read)
    assert seen.keys() == {"b\0 o'hara"}


async def test_a_change_that_raises_changes_nothing(counters):
    await counters[0].update(["a"], lambda _now, _values: {"a": 1})

    def fail(_now, values):
        raise KeyError(values["a"])

    with pytest.raises(KeyError, match="1"):
        await counters[1].update(["a"], fail)
    seen = []
    await counters[1].update(["a"], lambda _now, values: seen.append(values) or {})
    assert seen == [{"a": 1}]


async def test_a_damaged_counter_is_an_error(counters, database, server):
    await counters[0].update(["a"], lambda _now, _values: {"a": 1})
    await asyncio.to_thread(server.sql, f"UPDATE {database.schema}.counters SET value = '{{'")
    with pytest.raises(DatabaseError, match="is damaged"):
        await counters[0].update(["a"], lambda _now, _values: {})


@pytest.fixture
def counters(database, opened):
    from pegboard_postgres import PostgresCounters

    return PostgresCounters(database), PostgresCounters(opened())


# The journal


def test_the_records_of_two_processes_are_one_chain(database, opened, tmp_path):
    from pegboard_guard import verify
    from pegboard_postgres import PostgresJournal

    journals = PostgresJournal(database), PostgresJournal(opened())
    assert journals[0].key() == journals[1].key()
    assert len(journals[0].key()) == 32

    def write(number):
        for each in range(5):
            journals[number % 2].append([{"kind": "call", "tool": f"{number} {each} \0 \u20ac"}, {"kind": "call"}])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    lines = list(journals[0].lines())
    assert len(lines) == 41
    assert [json.loads(line)["n"] for line in lines] == list(range(1, 42))
    file = tmp_path / "journal"
    file.write_text("".join(lines))
    assert verify(file).ok
    file.write_text("".join([*lines[:20], *lines[21:]]))
    assert not verify(file).ok
