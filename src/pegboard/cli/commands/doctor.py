"""`registry doctor`: everything that is wrong with the board, and what to do."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pegboard.cli.board import Board, open_board
from pegboard.cli.failure import remark
from pegboard.cli.finding import Finding
from pegboard.cli.group import OWN
from pegboard.cli.named import names_of_configuration
from pegboard.cli.options import Options, board_options
from pegboard.cli.page import write
from pegboard.cli.progress import Status
from pegboard.cli.render import findings_text, json_rows
from pegboard.cli.screen import stdout_screen
from pegboard.errors import ConfigError, ExpressionError, ManifestError

if TYPE_CHECKING:
    from pegboard.cli.manifests import ManifestFile
    from pegboard.plugins.discovery import FoundPlugin

_HAS_RIGHTS: Final = os.name == "posix"
_WHOLE: Final = ("listed", "loaded", "partial")


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@board_options()
@click.pass_obj
def doctor_command(options: Options, as_json: bool) -> int:
    """Look for what is wrong, and say what to do. Exits with 1 where something is.

    Plugins that failed, tools held back, manifests that aren't true, configuration that is wrong or not trusted,
    distributions that can't be read, a cache that others can write.
    """
    with Status() as status:
        status.show("looking")
        found = list(findings(options))
    if as_json:
        write(json_rows(finding.to_json() for finding in found))
    else:
        write(findings_text(found, stdout_screen()))
        remark(f"{len(found)} found" if found else "nothing is wrong")
    return 1 if found else 0


def findings(options: Options) -> Iterator[Finding]:
    """Everything that is found, each cause once; one broken part hides no other."""
    told: set[tuple[str, str]] = set()
    for finding in _all(options):
        if (finding.subject, finding.cause) not in told:
            told.add((finding.subject, finding.cause))
            yield finding


def _all(options: Options) -> Iterator[Finding]:
    yield from cache_findings()
    try:
        board = open_board(options, anyway=True)
    except (ConfigError, ExpressionError) as error:
        yield Finding("configuration", str(error))
        return
    if board.clash is not None:
        yield Finding("configuration: conflicts", str(board.clash), "Each tool that clashes is told of below.")
    yield from _of_configuration(board)
    yield from _of_problems(board)
    yield from _of_plugins(board)


def _of_configuration(board: Board) -> Iterator[Finding]:
    for ignored in board.config.ignored:
        fix = f"if you trust it: registry config trust {ignored.file}"
        yield Finding(f"{ignored.file}: {ignored.key}", "is ignored, as nobody has trusted this project's file", fix)
    try:
        offered = board.resolved()
    except (ConfigError, ExpressionError) as error:
        yield Finding("configuration: where", str(error))
    else:
        yield from (Finding("configuration: where", str(problem)) for problem in offered.problems)
    yield from names_of_configuration(board)


def _of_problems(board: Board) -> Iterator[Finding]:
    """What the board tells; what is so of several plugins of one distribution, once."""
    plugins: dict[tuple[str | None, str], list[str]] = {}
    for problem in board.registry.problems():
        named = plugins.setdefault((problem.distribution, problem.cause), [])
        if problem.plugin and problem.plugin not in named:
            named.append(problem.plugin)
    for (distribution, cause), named in plugins.items():
        source = distribution or "sys.path"
        kind = f"plugin{'s' if len(named) > 1 else ''} {', '.join(map(repr, named))}"
        yield Finding(f"{kind} ({source})" if named else f"distribution {source}", cause)


def _of_plugins(board: Board) -> Iterator[Finding]:
    """Manifests that aren't true, and commands that can't be had."""
    from pegboard.cli.plugin_commands import command_names

    well = {plugin.name for plugin in board.registry.plugins() if plugin.status in _WHOLE}
    entries = board.discovery.entries
    causes = [problem.cause for problem in board.registry.problems()]
    for finding in _of_manifests(entries, well):
        if not any(finding.subject in cause for cause in causes):  # the board names the file of a void manifest
            yield finding
    for found in entries:
        for name in command_names(found, board) if found.name in well else ():
            if name in OWN:
                cause = f"its command {name!r} can't be had: 'registry {name}' is pegboard's own"
                yield Finding(f"plugin {found.name!r} ({found.distribution})", cause, "Ask its author to rename it.")


def _of_manifests(entries: Iterable[FoundPlugin], well: Container[str]) -> Iterator[Finding]:
    """Those that are there, of distributions whose plugins all load; what fails to load is told elsewhere."""
    from itertools import groupby

    for _, of_one in groupby(entries, lambda found: found.distribution):
        plugins = list(of_one)
        for file in _manifests(plugins) if all(found.name in well for found in plugins) else ():
            for difference in file.differences():
                yield Finding(str(file.path), difference, "As its author: registry manifest write.")


def _manifests(plugins: Sequence[FoundPlugin]) -> Sequence[ManifestFile]:
    """The manifests that are there; none where the package is found by an import hook only."""
    from pegboard.cli.manifests import manifest_files

    try:
        return [file for file in manifest_files(plugins) if file.path.exists()]
    except ManifestError:
        return ()


def cache_findings() -> Iterator[Finding]:
    """What is wrong with the cache's folders; nothing where there are none yet."""
    from pegboard.plugins.cache import cache_folder

    folder = cache_folder()
    # Others may look into the folder itself; what pegboard keeps below it is the user's alone.
    for path, rights in ((folder, 0o022), (folder / "manifests", 0o077), (folder / "snapshots", 0o077)):
        try:
            facts = path.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            yield Finding(str(path), f"the cache can't be looked at: {error.strerror}")
            continue
        yield from _of_folder(path, facts, rights)


def _of_folder(path: Path, facts: os.stat_result, rights: int) -> Iterator[Finding]:
    fix = f"Put it right (chmod 700 {path}), or remove it: it is made anew."
    if not stat.S_ISDIR(facts.st_mode):
        yield Finding(str(path), "something that is no folder stands where the cache belongs", "Move it away.")
    elif not _HAS_RIGHTS:
        return
    elif facts.st_uid != os.geteuid():
        yield Finding(str(path), "the cache's folder is another user's, so nothing is kept", "Remove it.")
    elif facts.st_mode & rights:
        yield Finding(str(path), "others have rights on the cache", fix)
    elif not facts.st_mode & stat.S_IWUSR:
        yield Finding(str(path), "the cache can't be written, so every start is a cold one", fix)
