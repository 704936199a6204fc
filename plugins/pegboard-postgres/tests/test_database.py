"""The database: its address, its tables, and servers that are gone, slow, restarted or full."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback

import pytest

from pegboard import Memory, TextContent, ToolContext, ToolError, ToolRegistry, tool
from pegboard_postgres import Database, DatabaseError, PostgresArtifacts, PostgresMemory
from pegboard_postgres.schema import MIGRATIONS, VERSION, migrate_tables
from postgres_server import PASSWORD


async def ping(connection):
    return (await (await connection.execute("SELECT 1")).fetchone())[0]


# The address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hunter2",
        "postgresql://ann:hunter2/x@db/tools",
        "postgresql://ann:hunter2@x@db/tools",
        "postgresql://ann:hunter2%zz@db/tools",
        "postgresql://ann:hunter2@db:port/tools",
        "mysql://ann:hunter2@db/tools",
        "host=db password='hunter2",
        "host=db hunter2=x",
        "\0hunter2",
    ],
)
def test_an_address_that_is_none_is_refused_without_showing_a_part_of_it(url):
    with pytest.raises(ValueError, match=r"^url must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE") as caught:
        Database(url)
    text = "".join(traceback.format_exception(caught.value))
    assert "hunter2" not in text.replace(repr(url), "")
    assert caught.value.__suppress_context__


@pytest.mark.slow
def test_no_text_shows_the_password(opened, server, caplog):
    caplog.set_level(logging.DEBUG)
    wrong = server.url.replace(PASSWORD, "another-secret")
    for url in (
        wrong,
        f"postgresql://ann:{PASSWORD}@nowhere.invalid:5432/tools",
        server.url.replace("/postgres", "/no"),
    ):
        database = opened(url)
        with pytest.raises(DatabaseError, match=r"can't be reached\. Nothing was changed\.") as caught:
            database.run_now(ping)
        shown = "".join(traceback.format_exception(caught.value)) + repr(database) + str(database.address) + caplog.text
        assert PASSWORD not in shown
        assert "another-secret" not in shown


@pytest.mark.parametrize("schema", ["", "a b", 'a"b', "1a", "a" * 41, "\u00e4", 7])
def test_a_schema_is_a_plain_name(schema):
    with pytest.raises(ValueError, match="schema must be 1 to 40 letters"):
        Database("postgresql://db/tools", schema)


# The tables


def test_without_tables_the_error_names_the_command(empty):
    with pytest.raises(ToolError, match="has no tables yet") as caught:
        empty.run_now(ping)
    assert caught.value.hint == "Run: registry postgres migrate"
    assert empty.migrate() == (0, VERSION)
    assert empty.run_now(ping) == 1
    assert empty.migrate() == (VERSION, VERSION)


def test_older_tables_are_refused_until_they_are_migrated_and_keep_their_content(empty, opened):
    async def make_old():
        connection = await empty.connect(check=False)
        await migrate_tables(connection, empty.schema, 1)
        await connection.close()

    empty.start(make_old()).result()
    with pytest.raises(ToolError, match=f"of version 1, and version {VERSION} is needed"):
        empty.run_now(ping)

    async def add(connection):
        await connection.execute("INSERT INTO entries (owner, session, text, facts) VALUES ('a', 'b', 'c', '{}')")

    async def write():
        connection = await empty.connect(check=False)
        await add(connection)
        await connection.close()

    empty.start(write()).result()
    assert empty.migrate() == (1, VERSION)

    async def count(connection):
        return (await (await connection.execute("SELECT count(*) FROM entries")).fetchone())[0]

    assert opened().run_now(count) == 1


def test_newer_tables_are_refused(database, opened, server):
    server.sql(f"INSERT INTO {database.schema}.version VALUES ({VERSION + 1})")
    other = opened()
    for work in (lambda: other.run_now(ping), other.migrate):
        with pytest.raises(ToolError, match="written by a newer pegboard-postgres"):
            work()


def test_processes_that_migrate_at_once_take_turns(empty, opened):
    databases = [empty, *(opened() for _ in range(5))]
    found = []
    threads = [threading.Thread(target=lambda each=each: found.append(each.migrate())) for each in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == [(0, VERSION)] + [(VERSION, VERSION)] * 5


def test_a_migration_that_fails_changes_nothing(empty, monkeypatch):
    broken = (MIGRATIONS[0], "CREATE TABLE more (a integer); SELECT 1 / 0")
    monkeypatch.setattr("pegboard_postgres.schema.MIGRATIONS", broken)
    with pytest.raises(DatabaseError):
        empty.migrate()
    assert empty.version() == 0


def test_a_database_of_another_encoding_is_refused(server, opened):
    server.sql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(DatabaseError, match="its encoding is LATIN1, and UTF8 is needed"):
        opened(server.url.replace("/postgres?", "/latin?")).migrate()


# Servers


@pytest.mark.slow
def test_a_server_that_was_restarted_is_used_again(database, server):
    assert database.run_now(ping) == 1
    server.kill()
    with pytest.raises(DatabaseError, match=r"can't be reached\. Nothing was changed\.") as caught:
        database.run_now(ping)
    assert caught.value.retryable
    server.start()
    assert database.run_now(ping) == 1


async def test_work_that_a_crash_interrupts_is_an_error_that_says_what_is_not_known(database, server):
    started = asyncio.Event()

    async def work(connection):
        started.set()
        await connection.execute("SELECT pg_sleep(60)")

    task = asyncio.create_task(database.run(work))
    while not await asyncio.to_thread(server.sql, "SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'"):
        pass
    server.kill()
    server.start()
    with pytest.raises(DatabaseError, match=r"was lost|is being stopped") as caught:
        await task
    assert caught.value.retryable
    assert await database.run(ping) == 1


def test_a_statement_that_takes_too_long_ends_at_the_limit(database, opened):
    async def sleep(connection):
        await connection.execute("SELECT pg_sleep(60)")

    slow = opened(seconds=0.5)
    with pytest.raises(DatabaseError, match=r"took longer than 0.5 s\. Nothing was changed\."):
        slow.run_now(sleep)
    assert database.run_now(ping) == 1


@pytest.mark.slow
def test_a_server_that_hangs_is_given_up(database, opened):
    impatient = opened(seconds=0.5)

    async def pid_of(connection):
        return connection.info.backend_pid

    pid = impatient.run_now(pid_of)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(DatabaseError, match=r"was lost\. If something was to be changed, it isn't known"):
            impatient.run_now(ping)
        assert impatient.run_now(ping) == 1  # by another connection
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_value_that_the_database_refuses_is_an_error_and_leaves_the_connection(database):
    async def divide(connection):
        await connection.execute("SELECT 1 / 0")

    async def leave_a_transaction(connection):
        await connection.execute("BEGIN")

    with pytest.raises(DatabaseError, match="can't store this value") as caught:
        database.run_now(divide)
    assert not caught.value.retryable
    database.run_now(leave_a_transaction)
    assert database.run_now(ping) == 1


async def test_no_more_connections_are_used_than_allowed(database, opened):
    small = opened(connections=2)

    async def count(connection):
        found = await connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counted'")
        return (await found.fetchone())[0]

    async def name(connection):
        await connection.execute("SET application_name = 'counted'")

    await asyncio.gather(*(small.run(name) for _ in range(20)))
    assert max(await asyncio.gather(*(small.run(count) for _ in range(20)))) <= 2


async def test_a_cancelled_search_ends_in_the_server_too(database, server):
    async def work(connection):
        await connection.execute("SELECT pg_sleep(61)")

    task = asyncio.create_task(database.run(work))
    query = "SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(61)' AND state = 'active'"
    while not await asyncio.to_thread(server.sql, query):
        pass
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while await asyncio.to_thread(server.sql, query):
        pass
    assert await database.run(ping) == 1


def test_it_serves_several_event_loops_and_threads(database):
    memory = PostgresMemory(database)
    threads = [threading.Thread(target=lambda n=n: asyncio.run(memory.add(f"plum {n}"))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(asyncio.run(memory.search("plum"))) == 6


def test_a_closed_database_opens_again(database):
    database.close()
    assert database.run_now(ping) == 1


def test_a_forked_child_has_connections_of_its_own(database):
    """In a process of its own, as pytest has threads."""
    program = f"""
import asyncio, os
from pegboard_postgres import Database, PostgresMemory
database = Database({database.address.url!r}, {database.schema!r}, seconds=30.0)
memory = PostgresMemory(database)
asyncio.run(memory.add("plum before"))
child = os.fork()
asyncio.run(memory.add("plum of both"))
found = asyncio.run(memory.search("plum"))
if child == 0:
    database.close()
    os._exit(0)
os.waitpid(child, 0)
print(len(asyncio.run(memory.search("plum"))))
"""
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program]  # it has threads, too
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("3\n", "")


@pytest.mark.slow
def test_a_program_that_does_not_close_it_ends(database):
    program = f"""
import asyncio
from pegboard_postgres import Database, PostgresMemory
memory = PostgresMemory(Database({database.address.url!r}, {database.schema!r}, seconds=30.0))
asyncio.run(memory.add("plum"))
"""
    command = [sys.executable, "-X", "dev", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# In calls


async def test_a_call_whose_store_is_gone_fails_and_others_go_on(opened, tmp_path):
    @tool
    async def remember(context: ToolContext) -> str:
        """Remember."""
        await context.memory.add("plum")
        return "ok"

    @tool
    async def greet() -> str:
        """Greet."""
        return "hello"

    registry = ToolRegistry()
    registry.register(remember, greet)
    registry.provide(Memory, PostgresMemory(opened(f"postgresql:///x?host={tmp_path}")))
    lost, greeted = await asyncio.gather(registry.call("remember", {}), registry.call("greet", {}))
    assert lost.text.startswith("The shared database can't be reached. Nothing was changed.")
    assert greeted.text == "hello"


@pytest.mark.slow
async def test_values_of_any_size_are_stored_or_refused(database):
    artifacts = PostgresArtifacts(database)
    await artifacts.save("a", TextContent("x" * (20 << 20)))
    assert len((await artifacts.load("a")).text) == 20 << 20
