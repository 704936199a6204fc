"""The plugin: its services and command."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pegboard import hookimpl
from pegboard_postgres.settings import database_of, read_settings

if TYPE_CHECKING:
    import click

    from pegboard_postgres.database import Database

_NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Plugin:
    """The plugin, with its settings.

    Args:
        settings: `[plugins.postgres]`, see `Settings`.

    Raises:
        ValueError: As `read_settings`.
    """

    def __init__(self, settings: Mapping[str, Any] = _NO_SETTINGS) -> None:
        self.settings = read_settings(settings)
        self._database: Database | None = None

    def _get_database(self) -> Database:  # no property: older releases of pluggy read all of a plugin's
        """The database; raises as `database_of` does."""
        if self._database is None:
            self._database = database_of(self.settings)
        return self._database

    @hookimpl
    def pegboard_register_services(self, register: Callable[..., None]) -> None:
        """Registers what several processes share, if there is an address; each is opened at its first use."""
        if not self.settings.url:
            return
        for kind, make in _services().items():
            register(kind, partial(self._open, make), scope="registry")

    def _open(self, make: Callable[[Database], Any]) -> Generator[Any]:
        """A service, whose end closes the connections."""
        database = self._get_database()
        try:
            yield make(database)
        finally:
            database.close()

    @hookimpl
    def pegboard_guards_calls(self) -> None:
        """Lets no call run if the plugin has settings and isn't loaded: it would run without locks."""

    @hookimpl
    def pegboard_diagnose(self, report: Callable[[str, str], None]) -> None:
        """Reports a database that can't be used."""
        from pegboard_postgres.command import problem_of

        if self.settings.url and (problem := problem_of(self._get_database)) is not None:
            report(*problem)

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry postgres`."""
        from pegboard_postgres.command import postgres_command

        group.add_command(postgres_command)


def _services() -> Mapping[Any, Callable[[Database], Any]]:
    """The services, by type what is made of the database; those of pegboard-guard where it is installed."""
    from pegboard import Artifacts, Memory, ResultTexts
    from pegboard.backends import LockBackend, OperationStore
    from pegboard_postgres.artifacts import PostgresArtifacts
    from pegboard_postgres.counters import PostgresCounters
    from pegboard_postgres.grants import PostgresGrants
    from pegboard_postgres.journal import PostgresJournal
    from pegboard_postgres.locks import PostgresLocks
    from pegboard_postgres.memory import PostgresMemory, PostgresTexts
    from pegboard_postgres.operations import PostgresOperations
    from pegboard_postgres.pending import PostgresPendingCalls

    made: dict[Any, Callable[[Database], Any]] = {
        Artifacts: PostgresArtifacts,
        LockBackend: PostgresLocks,
        Memory: PostgresMemory,
        OperationStore: PostgresOperations,
        PostgresGrants: PostgresGrants,
        PostgresPendingCalls: PostgresPendingCalls,
        ResultTexts: PostgresTexts,
    }
    with suppress(ImportError):
        from pegboard_guard import Counters, JournalSink

        made |= {Counters: PostgresCounters, JournalSink: PostgresJournal}
    return made
