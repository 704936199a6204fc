"""Commands that plugins bring: their names are known from manifests, their code is imported when one is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pegboard.cli.group import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pegboard.cli.board import Board
    from pegboard.plugins.discovery import FoundPlugin
    from pegboard.plugins.manifest import PluginManifest

HOOK = "pegboard_register_commands"
_CLICKS_OWN = (click.ClickException, click.exceptions.Exit, click.Abort)


def plugin_command_lines(context: click.Context) -> Iterator[tuple[str, str]]:
    """Name and short help of each command that a plugin brings, for the help; imports no plugin.

    Read from the listing snapshot where it holds, so that the help starts fast.
    """
    from pegboard.plugins.snapshot import environment, open_snapshot

    place = environment()
    snapshot = None if place is None else open_snapshot(place)
    if snapshot is None:
        yield from _asked(context)
        return
    try:
        lines = snapshot.section(b"commands").decode().splitlines()
    finally:
        snapshot.close()
    for line in lines:
        name, _, text = line.partition("\t")
        if name not in OWN:
            yield name, text


def _asked(context: click.Context) -> Iterator[tuple[str, str]]:
    from pegboard.cli.board import open_board
    from pegboard.cli.options import Options
    from pegboard.errors import PegboardError

    try:
        board = open_board(context.ensure_object(Options))
    except PegboardError:  # the help is for those whose configuration is broken, too
        return
    for name, found in command_owners(board).items():
        yield name, f"From plugin {found.name}."


def command_owners(board: Board) -> Mapping[str, FoundPlugin]:
    """Which plugin brings which command; of two of one name the earlier in load order, and none of ours."""
    bringing = {plugin.name for plugin in board.registry.plugins() if HOOK in plugin.hooks}
    if not bringing:
        return {}
    from pegboard.tools.visible import visible

    owners: dict[str, FoundPlugin] = {}
    for found in board.discovery.entries:
        if found.name in bringing:
            for name in command_names(found, board):
                # A name that doesn't show as it is could pass for another.
                if name not in OWN and visible(name) == name:
                    owners.setdefault(name, found)
    return owners


def command_names(found: FoundPlugin, board: Board) -> tuple[str, ...]:
    """The names of a plugin's commands, from its manifest or the cache."""
    manifest = known_manifest(found, board)
    return () if manifest is None else manifest.commands


def known_manifest(found: FoundPlugin, board: Board) -> PluginManifest | None:
    """What a plugin brings, by its manifest or the cache; `None` where neither knows."""
    from pegboard.errors import ManifestError
    from pegboard.plugins.cache import CachedManifests
    from pegboard.plugins.manifest import read_manifest

    settings = board.config.settings(found.name)
    try:
        manifest = None if settings else read_manifest(found)
    except ManifestError:
        manifest = None
    return manifest or CachedManifests().get(found, settings)


def plugin_command(context: click.Context, name: str) -> click.Command | None:
    """The command of this name that a plugin brings, its plugin imported; `None` where none does.

    Raises:
        PluginError: The plugin, or its hook, failed.
    """
    from pegboard.cli.board import open_board
    from pegboard.cli.options import Options

    board = open_board(context.ensure_object(Options))
    found = command_owners(board).get(name)
    if found is None:
        return None
    command = brought_commands(found, board.config.settings(found.name)).get(name)
    return None if command is None else _named(command, name, found)


def _named(command: click.Command, name: str, found: FoundPlugin) -> click.Command:
    """The command; whatever it raises when it runs names the plugin and it."""
    for method in ("make_context", "invoke"):
        setattr(command, method, _telling(getattr(command, method), name, found))
    return command


def _telling(method: Callable[..., Any], name: str, found: FoundPlugin) -> Callable[..., Any]:
    from pegboard.errors import PegboardError, PluginError, cause_of

    passed = (*_CLICKS_OWN, EOFError, BrokenPipeError, PegboardError)  # told, or meant, as everywhere else

    def telling(*arguments: Any, **keywords: Any) -> Any:
        try:
            return method(*arguments, **keywords)
        except passed:
            raise
        except Exception as error:
            cause = f"its command {name!r} failed: {cause_of(error)}"
            raise PluginError(found.name, cause, distribution=found.distribution) from error

    return telling


def brought_commands(found: FoundPlugin, settings: Mapping[str, Any]) -> Mapping[str, click.Command]:
    """The commands that a plugin adds, by name; it adds them to a group of its own.

    Raises:
        PluginError: The plugin, or its hook, failed.
    """
    from pegboard.cli.aside import aside
    from pegboard.errors import PluginError, cause_of
    from pegboard.plugins.loaded import gather, imported

    group = click.Group()
    try:
        with aside():
            loaded = gather(found.name, imported(found.module, found.attribute), settings)
            hook = loaded.implementations[HOOK]
            hook.function(*(group for _ in hook.argnames))
    except (KeyboardInterrupt, click.exceptions.Exit, click.Abort):
        raise
    except BaseException as error:
        raise PluginError(found.name, cause_of(error), distribution=found.distribution) from error
    return group.commands
