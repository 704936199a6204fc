"""`Database`: connections to one PostgreSQL server, which threads, event loops and forked processes can share."""

from __future__ import annotations

import asyncio
import atexit
import math
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

from attrs import define, field

from pegboard.errors import at_least
from pegboard.threads import renew_after_fork
from pegboard_postgres.address import Address
from pegboard_postgres.background import BackgroundLoop
from pegboard_postgres.faults import DatabaseError, fault_of
from pegboard_postgres.schema import VERSION, check_version, migrate_tables, read_version

if TYPE_CHECKING:
    from typing import TypeAlias

    from psycopg import AsyncConnection

    Connection: TypeAlias = AsyncConnection[Any]

T = TypeVar("T")
_MOST_SCHEMA: Final = 40  # its name is a part of others, which have at most 63 bytes
_MIGRATION_SECONDS: Final = 600.0
_MARGIN: Final = 1.0  # seconds after the server's time limit, after which it is taken for dead
_SETTINGS: Final = (
    "SELECT set_config('search_path', %s, false), set_config('statement_timeout', %s, false), "
    "set_config('idle_in_transaction_session_timeout', %s, false), set_config('tcp_keepalives_idle', '10', false), "
    "set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false)"
)


def _check_schema(_database: Any, _attribute: Any, value: Any) -> None:
    if not isinstance(value, str) or not value.isidentifier() or not value.isascii() or len(value) > _MOST_SCHEMA:
        raise ValueError(f"schema must be 1 to {_MOST_SCHEMA} letters, digits or '_', and not begin with a digit")


@define(eq=False)
class Database:
    """A PostgreSQL database with pegboard's tables, in a schema of their own.

    Connections are made at use, kept, and made again once they are lost. Each piece of work ends within the time limit
    and a second, also if the server hangs.

    Attributes:
        address: Of the database; a text is its URL.
        schema: Of the tables.
        seconds: The time limit of each piece of work, for connecting, too.
        connections: How many are used at once, besides the one of `Session`.
        on_close: What ends the sessions of locks, in the loop of the connections.
    """

    address: Address = field(converter=lambda url: url if isinstance(url, Address) else Address(url))
    schema: str = field(default="pegboard", validator=_check_schema)
    seconds: float = field(default=5.0, validator=at_least(0.1))
    connections: int = field(default=10, validator=at_least(1))
    on_close: set[Callable[[], Awaitable[None]]] = field(factory=set[Any], init=False, repr=False)
    _loop: BackgroundLoop = field(factory=BackgroundLoop, init=False, repr=False)
    _idle: list[Connection] = field(factory=list[Any], init=False, repr=False)
    _free: asyncio.Semaphore | None = field(default=None, init=False, repr=False)
    _of_parent: list[Any] = field(factory=list[Any], init=False, repr=False)  # kept: a child must not close them

    def __attrs_post_init__(self) -> None:
        self.address.parts()
        renew_after_fork(self)

    def renew(self) -> None:
        """Forgets the connections of the parent, in a forked child."""
        self._of_parent.append((self._idle, self._free))
        self._idle, self._free, self.on_close = [], None, set()

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Runs work with a connection, on which each statement is committed; `connection.transaction()` joins some.

        Raises:
            DatabaseError: The server can't be reached, was lost, took too long, or refuses something.
            ToolError: The tables are missing, older or newer; or as `work` raises it.
        """
        return await asyncio.wrap_future(self.start(self.perform(work)))

    def run_now(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """`run` in a thread; it blocks."""
        return self.start(self.perform(work)).result()

    def start(self, work: Any) -> Any:
        """Starts a coroutine in the loop of the connections; returns its `concurrent.futures.Future`."""
        if not _open:
            atexit.unregister(_close_all)
            atexit.register(_close_all)
        _open.add(self)
        return self._loop.submit(work)

    def migrate(self) -> tuple[int, int]:
        """Makes the tables, or brings them up to date; returns their versions before and after.

        Raises:
            DatabaseError: As `run`, or the database's encoding isn't UTF-8.
            ToolError: The tables are newer than this package.
        """
        return self.start(self._migrate()).result()

    def version(self) -> int:
        """The version of the tables; 0 without any. Raises `DatabaseError` as `run` does."""

        async def read() -> int:
            connection = await self.connect(check=False)
            try:
                return await read_version(connection)
            finally:
                await connection.close()

        return self.start(self.guard(read())).result()

    def close(self) -> None:
        """Ends all locks and closes the connections; a later use makes new ones."""
        if self._loop.is_running:
            with suppress(Exception):  # the server is gone, or the program ends
                self._loop.submit(self._end()).result(3 * self.seconds)
            self._loop.stop()
        self._free = None
        _open.discard(self)

    # In the loop of the connections -----------------------------------------------------------------------------------

    async def connect(self, *, check: bool = True, seconds: float | None = None) -> Connection:
        """A new connection, with the time limit of its statements; `check`: only if the tables are there.

        Raises:
            psycopg.Error, OSError, TimeoutError: There is no connection.
            ToolError: The tables are missing, older or newer.
        """
        from psycopg import AsyncConnection

        given = self.address.parts()
        limits: dict[str, Any] = {"connect_timeout": max(2, math.ceil(self.seconds)), "keepalives_idle": 10}
        limits |= {"keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
        options = {name: value for name, value in limits.items() if name not in given}
        options |= {"application_name": given.get("application_name", "pegboard"), "client_encoding": "utf8"}
        limit = self.seconds if seconds is None else seconds
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self.seconds):
                connection = await AsyncConnection.connect(self.address.url, autocommit=True, **options)
                milliseconds = f"{limit * 1000:.0f}"
                await connection.execute(_SETTINGS, [f'"{self.schema}"', milliseconds, milliseconds])
                if check:
                    check_version(await read_version(connection))
        except BaseException:
            if connection is not None:
                await connection.close()
            raise
        return connection

    async def guard(self, opening: Awaitable[T]) -> T:
        """What something gives that connects; raises `DatabaseError` where there is no connection."""
        failures = _failures()
        try:
            return await opening
        except failures as error:
            raise fault_of(error, self.seconds, has_begun=False) from error

    async def perform(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """`run`, in this loop."""
        has_begun, failures = False, _failures()
        self._free = free = self._free or asyncio.Semaphore(self.connections)
        try:
            async with asyncio.timeout(self.seconds):
                await free.acquire()
            try:
                connection = await self._take()
                has_begun = True
                with cut_after(connection, self.seconds + _MARGIN):
                    try:
                        return await work(connection)
                    finally:
                        await self._give_back(connection)
            finally:
                free.release()
        except failures as error:
            raise fault_of(error, self.seconds, has_begun=has_begun) from error

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if is_alive(connection):
                return connection
            await connection.close()
        return await self.connect()

    async def _give_back(self, connection: Connection) -> None:
        from psycopg.pq import TransactionStatus

        if not connection.closed and connection.info.transaction_status is TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            await connection.close()

    async def _end(self) -> None:
        """Ends all locks, waits for the work that is under way, and closes the connections."""
        for end in list(self.on_close):
            await end()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=self.seconds)
        while self._idle:
            await self._idle.pop().close()

    async def _migrate(self) -> tuple[int, int]:
        has_begun, failures = False, _failures()
        try:
            connection = await self.connect(check=False, seconds=_MIGRATION_SECONDS)
            try:
                has_begun = True
                if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
                    what = f"its encoding is {encoding}, and UTF8 is needed"
                    raise DatabaseError(f"The shared database can't be used: {what}.", hint="Create another database.")
                return await migrate_tables(connection, self.schema, VERSION)
            finally:
                await connection.close()
        except failures as error:
            raise fault_of(error, _MIGRATION_SECONDS, has_begun=has_begun) from error


def _failures() -> tuple[type[Exception], ...]:
    """What a server, or the way to it, raises."""
    from psycopg import Error

    return Error, OSError, TimeoutError


@contextmanager
def _socket_of(connection: Connection) -> Generator[socket.socket]:
    borrowed = socket.socket(fileno=connection.fileno())
    try:
        yield borrowed
    finally:
        borrowed.detach()


def is_alive(connection: Connection) -> bool:
    """Whether nothing has arrived on a connection that isn't in use: the server sends something only as it ends it."""
    try:
        with _socket_of(connection) as found:
            found.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except Exception:  # noqa: BLE001  psycopg raises its own where the connection is closed
        return False
    return False


@contextmanager
def cut_after(connection: Connection, seconds: float) -> Generator[None]:
    """Cuts the connection if the block takes longer, so that psycopg, which waits without a limit, raises an error."""
    timer = asyncio.get_running_loop().call_later(seconds, _cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def _cut(connection: Connection) -> None:
    with suppress(Exception), _socket_of(connection) as found:
        found.shutdown(socket.SHUT_RDWR)


_open: Final[WeakSet[Database]] = WeakSet()


def _close_all() -> None:
    for database in list(_open):
        database.close()
