"""The plugin's settings, and the database that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from attrs import field, frozen

from pegboard import ToolError
from pegboard.schema.converter import Allowed, read_table
from pegboard_postgres.database import Database

_UNSET: Final = 'set [plugins.postgres] url = { env = "DATABASE_URL" } in pegboard.toml'


@frozen
class Settings:
    """The plugin's settings.

    Attributes:
        url: The database's address: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`.
        schema: The schema of the tables.
        seconds: The time limit of each piece of work.
        connections: How many connections are used at once.
    """

    url: str = field(default="", repr=False)
    schema: str = "pegboard"
    seconds: Annotated[float, Allowed("a number from 0.1 to 60", lambda number: 0.1 <= number <= 60)] = 5.0
    connections: Annotated[int, Allowed("a whole number from 1 to 100", lambda number: 1 <= number <= 100)] = 10


def read_settings(settings: Mapping[str, Any]) -> Settings:
    """Reads `[plugins.postgres]`.

    Raises:
        ValueError: A setting is unknown or wrong, or there are some, but no address.
    """
    read = read_table(Settings, settings, "plugins.postgres")
    if settings and not read.url:
        raise ValueError(f"plugins.postgres.url is missing: {_UNSET}")
    return read


def database_of(settings: Settings) -> Database:
    """The database.

    Raises:
        ToolError: There is no address, or it isn't one.
    """
    if not settings.url:
        raise ToolError(f"The shared database can't be used: it has no address: {_UNSET}.")
    try:
        return Database(settings.url, settings.schema, settings.seconds, settings.connections)
    except ValueError as error:
        raise ToolError(f"The shared database can't be used: {error}.") from None
