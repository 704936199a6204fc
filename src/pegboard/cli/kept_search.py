"""The kept search index: one SQLite file an environment, in the user's cache, beside the listing snapshots.

It is put in place at once and never changed there, so readers need no locks, and of two writers one wins. What it was
made of is noted in it: the digest of the tools, and the stamp of the listing snapshot that shows the same tools. The
warm command reads it, so what stands at the top here loads nothing that a bare Python hasn't loaded.
"""

# pathlib costs more than everything else that is done here:
# ruff: noqa: PTH118, PTH120
from __future__ import annotations

import os

from pegboard.config.files import open_private
from pegboard.plugins.snapshot import stamp_of

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from pegboard.plugins.snapshot import Environment
    from pegboard.toolsets.resolve import ResolvedTools
    from pegboard.toolsets.search import Found, ToolIndex

FOLDER = "search"
MOST_BYTES = 128 * 1024 * 1024
_MOST_FILES = 24
_CATALOGUE, _SNAPSHOT = "catalogue", "snapshot"


def index_file(place: Environment) -> str:
    """Where the index of an environment is."""
    snapshots, name = os.path.split(place.path)
    return os.path.join(os.path.dirname(snapshots), FOLDER, name)


def kept_names(place: Environment, text: str, limit: int) -> list[str] | None:
    """The names that a question finds among the tools of the environment's snapshot, best first.

    Returns:
        `None` where no index is kept for this snapshot, or none that can be read.
    """
    import sqlite3

    from pegboard.toolsets import search_table as table

    path = index_file(place)
    try:
        os.close(open_private(path))
        connection = sqlite3.connect(_address(path), uri=True)
    except (OSError, sqlite3.Error):
        return None
    try:
        if not table.is_of_this_format(connection) or table.facts(connection).get(_SNAPSHOT) != _stamp(place):
            return None
        return [name for name, _ in table.best(connection, text, limit)]
    except sqlite3.Error:
        return None
    finally:
        connection.close()


def search_kept(place: Environment, offered: ResolvedTools, text: str, limit: int) -> tuple[Found, ...]:
    """What a question finds among these tools, by the kept index, which is brought up to date and kept again."""
    index, known = _loaded(index_file(place))
    facts = {_CATALOGUE: offered.digest, _SNAPSHOT: _stamp(place)}
    if index.update(tool.spec for tool in offered) or known != facts:
        _keep(index_file(place), index.dump(facts))
    return index.search(text, limit=limit)


def _address(path: str) -> str:
    """A file for SQLite, only to be read, and never changed while it is."""
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{escaped}?mode=ro&immutable=1"


def _stamp(place: Environment) -> str:
    """What changes when the environment's snapshot does."""
    return stamp_of(os.fsencode(place.path)).decode()


def _loaded(path: str) -> tuple[ToolIndex, dict[str, str]]:
    """The kept index and what is noted of it; a new one where there is none, or it can't be used."""
    from pegboard.config.files import read_private
    from pegboard.toolsets.search import ToolIndex

    try:
        index = ToolIndex(saved=read_private(path, MOST_BYTES))
    except (OSError, ValueError):
        return ToolIndex(), {}
    return index, dict(index.facts)


def _keep(path: str, data: bytes) -> None:
    """Keeps an index; where that can't be, the next search makes it anew."""
    from pathlib import Path

    from pegboard.config.files import write_private
    from pegboard.plugins.cache import prune

    if len(data) > MOST_BYTES:
        return
    try:
        write_private(path, data)
    except OSError:
        return
    prune(Path(path).parent, most=_MOST_FILES)


__all__ = ["FOLDER", "index_file", "kept_names", "search_kept"]
