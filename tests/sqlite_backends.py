"""Backends in one SQLite file, for several registries and processes; simple rather than fast."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from contextlib import closing, contextmanager

SCHEMA = """
create table if not exists holders(id integer, name text, most integer, pid integer);
create table if not exists tokens(id integer primary key autoincrement);
create table if not exists operations(id text primary key, call_id text, user text, session text, data text, done text,
    claimed real default 0);
"""


class Database:
    """A file with the tables of all backends."""

    def __init__(self, path):
        self.path = path
        with self.changed() as rows:
            rows.executescript(SCHEMA)

    @contextmanager
    def changed(self):
        """A transaction that excludes all others."""
        with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as rows:
            rows.execute("begin immediate")
            try:
                yield rows
            except BaseException:
                rows.execute("rollback")
                raise
            if rows.in_transaction:
                rows.execute("commit")


class Held:
    def __init__(self, database, token, lost):
        self.database, self.token, self.lost = database, token, lost

    def release(self):
        with self.database.changed() as rows:
            rows.execute("delete from holders where id = ?", [self.token])


class SqliteLocks(Database):
    """A `LockBackend`; the locks of processes that are gone are free.

    Attributes:
        asked: The claims of each `acquire`, with the tokens that don't count.
        held: What it has given.
        tried: Called after each try that had to wait.
    """

    def __init__(self, path):
        super().__init__(path)
        self.asked, self.held, self.tried = [], [], lambda: None

    async def acquire(self, claims, *, within=(), lost):
        own = [each.token for each in within]
        self.asked.append(([(each.name, each.most) for each in claims], own))
        while (token := self._try(claims, own)) is None:
            self.tried()
            await asyncio.sleep(0.002)
        self.held.append(Held(self, token, lost))
        return self.held[-1]

    def _try(self, claims, own):
        with self.changed() as rows:
            for (pid,) in rows.execute("select distinct pid from holders").fetchall():
                if not is_alive(pid):
                    rows.execute("delete from holders where pid = ?", [pid])
            for claim in claims:
                held = rows.execute("select id, most from holders where name = ?", [claim.name]).fetchall()
                mosts = [most for id_, most in held if id_ not in own]
                least = min((each for each in (*mosts, claim.most) if each is not None), default=None)
                if least is not None and len(mosts) >= least:
                    return None
            token = rows.execute("insert into tokens default values").lastrowid
            for claim in claims:
                rows.execute("insert into holders values (?, ?, ?, ?)", [token, claim.name, claim.most, os.getpid()])
            return token


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class SqliteOperations(Database):
    """An `OperationStore`."""

    def add(self, name, data, *, call_id, user, session):
        with self.changed() as rows:
            rows.execute(
                "insert into operations(id, call_id, user, session, data) values (?, ?, ?, ?, ?)",
                [name, call_id, user, session, data],
            )

    def find(self, name=None):
        with self.changed() as rows:
            found = rows.execute(
                "select data from operations where done is null and (? is null or ? in (id, call_id)) order by rowid",
                [name, name],
            )
            return [data for (data,) in found]

    def claim(self, name, seconds):
        now = time.time()
        with self.changed() as rows:
            sql = "update operations set claimed = ? where id = ? and done is null and claimed < ?"
            return rows.execute(sql, [now + seconds, name, now]).rowcount == 1

    def finish(self, name, data):
        with self.changed() as rows:
            sql = "update operations set done = ? where id = ? and done is null"
            return rows.execute(sql, [data, name]).rowcount == 1

    def take(self, session, calls=None, users=None):
        with self.changed() as rows:
            found = rows.execute(
                "select id, call_id, user, done from operations where done is not null and session is ?", [session]
            ).fetchall()
            mine = [
                (id_, done)
                for id_, call, user, done in found
                if (calls is None or call in calls) and (users is None or user in users)
            ]
            rows.executemany("delete from operations where id = ?", [[id_] for id_, _ in mine])
            return [done for _, done in mine]
