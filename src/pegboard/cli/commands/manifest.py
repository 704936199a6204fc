"""`registry manifest`: what a package's plugins bring, written into the package, or held against its code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pegboard.cli.failure import complain
from pegboard.cli.manifests import ManifestFile, manifest_files
from pegboard.cli.options import board_options
from pegboard.cli.page import write
from pegboard.cli.progress import Status
from pegboard.errors import did_you_mean, suggest

if TYPE_CHECKING:
    from pegboard.plugins.discovery import FoundPlugin


@click.group("manifest")
@board_options()
def manifest_command() -> None:
    """Write or check manifests. A package that carries one has its tools listed without being imported."""


@manifest_command.command("write")
@click.argument("packages", metavar="[PACKAGE]...", nargs=-1)
@board_options()
def write_manifests(packages: tuple[str, ...]) -> int:
    """Write the manifests of packages.

    They have to be installed from their sources (pip install -e).

    PACKAGE is a distribution's or a plugin's name, or the folder of a pyproject.toml; by default this one.
    """
    for file in _files(packages or (".",)):
        if not all(plugin.editable for plugin in file.plugins):
            raise click.UsageError(
                f"{file.distribution} isn't installed from its sources: run 'pip install -e' on them first"
            )
        with Status() as status:
            status.show(f"loading {file.distribution}")
            count = file.write()
        write(f"{file.path}: {count} tool{'' if count == 1 else 's'}\n")
    return 0


@manifest_command.command("check")
@click.argument("packages", metavar="[PACKAGE]...", nargs=-1)
@board_options()
def check_manifests(packages: tuple[str, ...]) -> int:
    """Hold manifests against the code.

    Exits with 1 where one says something else, or isn't there.

    PACKAGE is as for 'write'.
    """
    code = 0
    for file in _files(packages or (".",)):
        with Status() as status:
            status.show(f"loading {file.distribution}")
            differences = file.differences()
        for difference in differences:
            complain(f"{file.path}: {difference}")
            code = 1
        if not differences:
            write(f"{file.path}: true\n")
    return code


def _files(packages: Sequence[str]) -> list[ManifestFile]:
    from pegboard.plugins.discovery import discover

    entries = discover().entries
    return [file for package in packages for file in manifest_files(_plugins_of(package, entries))]


def _plugins_of(package: str, entries: Sequence[FoundPlugin]) -> list[FoundPlugin]:
    """The plugins of a distribution, or of the one that brings a plugin of this name: they share a manifest.

    Raises:
        click.UsageError: It isn't installed, or has none.
    """
    from pegboard.plugins.discovery import normalised

    name = _name_in(Path(package)) if Path(package).is_dir() else package
    wanted = {normalised(name)}
    if all(normalised(entry.distribution) not in wanted for entry in entries):
        wanted = {normalised(entry.distribution) for entry in entries if entry.name == name}
    if not wanted:
        near = did_you_mean(suggest(name, [known for one in entries for known in (one.distribution, one.name)]))
        raise click.UsageError(f"no installed distribution {name!r} brings a plugin.{near or ' Is it installed?'}")
    return [entry for entry in entries if normalised(entry.distribution) in wanted]


def _name_in(folder: Path) -> str:
    """The distribution's name in a folder's pyproject.toml.

    Raises:
        click.UsageError: There is none.
    """
    import tomllib

    try:
        project: Any = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
        return str(project["name"])
    except (OSError, ValueError, KeyError, TypeError):
        raise click.UsageError(f"{folder / 'pyproject.toml'} names no project; name the distribution") from None
