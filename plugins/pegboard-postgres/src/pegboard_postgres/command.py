"""The command `registry postgres`: makes the tables, brings them up to date, and checks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import click

from pegboard import ToolError
from pegboard.cli import Options, open_session, registry_options, write
from pegboard.config import with_secrets
from pegboard.errors import ConfigError
from pegboard_postgres.journal import PostgresJournal
from pegboard_postgres.schema import VERSION, check_version
from pegboard_postgres.settings import database_of, read_settings

if TYPE_CHECKING:
    from pegboard_postgres.database import Database


T = TypeVar("T")
_MOST_CAUSE: Final = 300  # characters


@click.group("postgres")
def postgres_command() -> None:
    """Make, update and check the tables of pegboard-postgres."""


@postgres_command.command("migrate")
@registry_options()
@click.pass_obj
def migrate_command(options: Options) -> int:
    """Make the tables in the configured database, or bring them up to date.

    It may run in several processes at once, and while programs use the tables. Tables that are up to date are left.
    """
    database = _database_of(options)
    before, after = _explain_failure(database, database.migrate)
    what = "are up to date" if before == after else "were made" if before == 0 else f"were of version {before}"
    write(f"{database.address} (schema {database.schema}): the tables {what}; version {after}\n")
    return 0


@postgres_command.command("check")
@registry_options()
@click.pass_obj
def check_command(options: Options) -> int:
    """Check that the database can be used and that its tables are up to date; exits with 1 if not."""
    database = _database_of(options)
    if (problem := problem_of(lambda: database)) is not None:
        write(f"{database.address} (schema {database.schema}): {problem[0]} {problem[1]}\n")
        return 1
    write(f"{database.address} (schema {database.schema}): up to date; version {VERSION}\n")
    return 0


@postgres_command.command("journal")
@registry_options()
@click.pass_obj
def journal_command(options: Options) -> int:
    """Print the audit journal of all processes as JSON lines, which 'registry guard verify' checks."""
    database = _database_of(options)

    def write_lines() -> None:
        for line in PostgresJournal(database).lines():
            write(line)

    _explain_failure(database, write_lines)
    return 0


def problem_of(find: Callable[[], Database]) -> tuple[str, str] | None:
    """What is wrong with a database, and what to do, for `registry doctor`; `None` if it can be used."""
    try:
        database = find()
    except ToolError as error:
        return error.text, "Correct [plugins.postgres] url in pegboard.toml."
    try:
        check_version(database.version())
    except ToolError as error:
        if error.__cause__ is None:
            return error.text, error.hint or ""
        fix = f"Start the server, or correct the address: {database.address}."
        return _with_cause(error), fix
    finally:
        database.close()
    return None


def _explain_failure(database: Database, work: Callable[[], T]) -> T:
    """The result of work; its failure with the server's words, which are for operators."""
    try:
        return work()
    except ToolError as error:
        raise click.ClickException(f"{database.address}: {_with_cause(error)}") from error
    finally:
        database.close()


def _with_cause(error: ToolError) -> str:
    """An error with the server's words, or with what to do."""
    if error.__cause__ is None:
        return f"{error.text} {error.hint or ''}".rstrip()
    cause = " ".join(str(error.__cause__).split())[:_MOST_CAUSE]
    return f"{error.text.removesuffix(' Nothing was changed.')} ({cause})"


def _database_of(options: Options) -> Database:
    session, missing = open_session(options), list[str]()
    settings = with_secrets(session.config.settings("postgres", "pegboard-postgres"), missing, [])
    if missing:
        raise ConfigError(f"plugins.postgres: {missing[0]}", file="pegboard.toml")
    try:
        return database_of(read_settings(settings))
    except (ValueError, ToolError) as error:
        raise ConfigError(str(error), file="pegboard.toml") from None
