"""`Keeping`: a cold list leaves its texts behind, so that the next one is warm."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from attrs import frozen

from pegboard.cli.group import OWN
from pegboard.cli.listing import listing_of
from pegboard.config.config import Config, load_config
from pegboard.plugins.cache import Stamps, write_snapshot
from pegboard.plugins.discovery import discover
from pegboard.plugins.snapshot import Environment, environment, own_version

if TYPE_CHECKING:
    from pegboard.cli.board import Board
    from pegboard.plugins.discovery import Discovery
    from pegboard.toolsets.resolve import ResolvedTools

QUARANTINE_SECONDS: Final = 3600
"""How long a listing holds that lacks a plugin: what made it fail may lie outside of all files."""


@frozen(eq=False)
class Keeping:
    """What the listing rests on, taken before the board was loaded.

    Attributes:
        place: The environment.
        config: What was configured then.
        stamps: The files and folders that it rests on.
        discovery: What was installed then.
    """

    place: Environment
    config: Config
    stamps: Stamps
    discovery: Discovery

    @classmethod
    def start(cls) -> Keeping | None:
        """Takes it; `None` where snapshots aren't kept."""
        place = environment()
        if place is None:
            return None
        stamps = Stamps.of_environment()
        config = load_config(project="search")
        stamps.add(*config.looked_at)
        discovery = discover()
        for found in discovery.entries:
            stamps.add_plugin(found)
        return cls(place, config, stamps, discovery)

    def keep(self, board: Board, offered: ResolvedTools, notices: Iterable[str]) -> bool:
        """Keeps what `list` has shown, and said on standard error; gives whether it could be kept.

        While a plugin is quarantined it holds for an hour.
        """
        if board.config != self.config:
            return False
        failed = any(plugin.status == "quarantined" for plugin in board.registry.plugins())
        until = int(time.time()) + QUARANTINE_SECONDS if failed else 0
        listing = listing_of(
            offered.tools,
            board.registry.problems(),
            version=own_version(),
            commands=_commands(board),
            notices=notices,
        )
        return write_snapshot(self.place, listing, self.stamps, until)


def _commands(board: Board) -> Iterator[tuple[str, str]]:
    from pegboard.cli.plugin_commands import command_owners

    yield from ((name, text) for name, (_, text) in OWN.items())
    yield from ((name, f"From plugin {found.name}.") for name, found in command_owners(board).items())
