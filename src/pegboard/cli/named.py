"""Names in configuration that nothing has: plugins, and tools that are to be renamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pegboard.cli.finding import Finding
from pegboard.errors import suggest

if TYPE_CHECKING:
    from pegboard.cli.board import Board


def names_of_configuration(board: Board) -> Iterator[Finding]:
    """Those that look like a slip.

    One file may serve several environments: a plugin's name is told of only where one that is here is close to it.
    """
    config = board.config
    plugins = {plugin.name for plugin in board.registry.plugins()}
    of_plugins: tuple[tuple[str, Iterable[str]], ...] = (
        ("block", config.block),
        ("enable", config.enable or ()),
        ("prefix", config.prefix),
        ("plugins", config.plugins),
    )
    for key, named in of_plugins:
        for name in named:
            near = () if name in plugins else suggest(name, plugins)
            if near:
                yield _finding(key, f"no plugin is called {name!r}", near)
    if config.rename:
        yield from _of_rename(board, plugins)


def _of_rename(board: Board, plugins: set[str]) -> Iterator[Finding]:
    """`"plugin:tool"` and `"tool"`, the latter as `prefix` has made it; told of only where all tools are known."""
    tools = _own_names(board)
    on_board = [plugin.name for plugin in board.registry.plugins() if plugin.status not in ("blocked", "disabled")]
    all_known = all(name in tools for name in on_board)
    prefix = board.config.prefix
    plain = {prefix.get(plugin, "") + name for plugin, names in tools.items() for name in names}
    for key in board.config.rename:
        plugin, colon, name = key.rpartition(":")
        if not colon:
            if key not in plain and all_known:
                yield _finding("rename", f"no tool is called {key!r}", suggest(key, plain))
        elif plugin not in plugins:
            near = [f"{other}:{name}" for other in suggest(plugin, plugins)]
            if near:
                yield _finding("rename", f"no plugin is called {plugin!r} ({key!r})", near)
        elif plugin in tools and name not in tools[plugin]:
            near = [f"{plugin}:{other}" for other in suggest(name, tools[plugin])]
            yield _finding("rename", f"plugin {plugin!r} brings no tool {name!r} ({key!r})", near)


def _own_names(board: Board) -> dict[str, set[str]]:
    """The tools' own names, by plugin: those whose manifest or cache is known."""
    from pegboard.cli.plugin_commands import known_manifest

    known = ((found.name, known_manifest(found, board)) for found in board.discovery.entries)
    return {name: {spec.name for spec in manifest.tools} for name, manifest in known if manifest is not None}


def _finding(key: str, cause: str, near: Iterable[str]) -> Finding:
    first = next(iter(near), None)
    return Finding(f"configuration: {key}", cause, f"Is {first!r} meant?" if first else "Mend it, or leave it out.")


__all__ = ["names_of_configuration"]
