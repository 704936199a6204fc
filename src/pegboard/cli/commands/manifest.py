"""`registry new` and `manifest`: commands for authors of plugins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pegboard.cli.options import registry_options
from pegboard.cli.output import Status, complain, write
from pegboard.config import normalised
from pegboard.errors import ManifestError, did_you_mean, suggest
from pegboard.json import count_text
from pegboard.plugins.discovery import FoundPlugin, discover
from pegboard.plugins.manifest import find_manifest, manifest_in, manifest_path, read_manifest_file, write_manifest
from pegboard.plugins.probe import probe_plugins
from pegboard.plugins.side_effects import side_effect_problem

if TYPE_CHECKING:
    from pegboard.plugins.manifest import PluginManifest

TEMPLATE: Final = Path(__file__).parents[1] / "template"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_MOST: Final = 40
_OURS: Final = (
    "adapters agents anthropic bedrock chat clients commands files google guard hooks llm lock mcp memory nats "
    "ollama openai openapi otel postgres processes search shell skills temporal torture web"
)
FIRST_PARTY: Final = frozenset(f"pegboard-{name}" for name in _OURS.split())


def package_names(name: str) -> dict[str, str]:
    """Names for a new package's template, from a plugin's name, with or without `pegboard-`."""
    plugin = name.replace("_", "-").removeprefix("pegboard-")
    if not _NAME.fullmatch(plugin) or len(plugin) > _MOST:
        rule = f"use a-z, 0-9 and '-', a letter first, at most {_MOST} characters"
        raise click.UsageError(f"{name!r} isn't valid as a plugin's name: {rule}")
    module = f"pegboard_{plugin.replace('-', '_')}"
    return {
        "plugin": plugin,
        "distribution": f"pegboard-{plugin}",
        "module": module,
        "title": plugin.replace("-", " ").capitalize(),
        "tool": f"{module.removeprefix('pegboard_')}_count_words",
    }


def package_files(names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Relative path and text of each file of a new package."""
    for path in sorted(TEMPLATE.rglob("*.txt")):
        text = path.read_text(encoding="utf-8")
        for key, name in names.items():
            text = text.replace(f"{{{{{key}}}}}", name)
        below = path.relative_to(TEMPLATE).as_posix().removesuffix(".txt")
        yield below.replace("/package/", f"/{names['module']}/"), text


@click.command("new")
@click.argument("name")
@click.option(
    "--path",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Parent of the package's folder; by default the current folder.",
)
def new_command(name: str, path: Path) -> int:
    """Create a new plugin package.

    The package is minimal: a tool, a test and a README. NAME is the plugin's name; the package is called pegboard-NAME.
    """
    names = package_names(name)
    installed = {normalised(each) for found in discover().entries for each in (found.distribution, found.name)}
    if not {names["distribution"], names["plugin"]}.isdisjoint(FIRST_PARTY | installed):
        raise click.UsageError(f"{names['distribution']} is another package's name; choose another")
    folder = path / names["distribution"]
    if folder.exists():
        raise click.UsageError(f"{folder} already exists; choose another name or --path")
    for below, text in package_files(names):
        file = folder / below
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        write(f"{file}\n")
    steps = f"pip install -e '{folder}[test]'", f"pytest {folder}", f"registry list --plugin {names['plugin']}"
    write("\n  ".join(("\nNext:", *steps)) + "\n")
    return 0


def current_manifests(plugins: Sequence[FoundPlugin]) -> list[PluginManifest]:
    """Manifests made from the plugins' code, which is loaded in a child process; a `ManifestError` if one fails."""
    manifests: list[PluginManifest] = []
    for found, manifest in probe_plugins(plugins, {}):
        if manifest.failure is not None:
            raise ManifestError(f"plugin {found.name!r} failed to load: {manifest.failure}")
        manifests.append(manifest)
    return manifests


def manifest_differences(
    path: Path, plugins: Sequence[FoundPlugin], notes: list[str], loaded: Mapping[FoundPlugin, PluginManifest] = {}
) -> list[str]:
    """Differences between a manifest file and the plugins' code, a sentence each.

    The notes get the side effects of loading the code, a sentence each. Unless all plugins are among those that
    `probe_together` has loaded, their code is loaded here.
    """
    try:
        file = read_manifest_file(path)
        listed = [(found, manifest_in(file, found)) for found in plugins]
        current = [loaded[found] for found in plugins] if loaded.keys() >= {*plugins} else current_manifests(plugins)
    except ManifestError as error:
        return [str(error)]
    notes += [f"plugin {one.plugin!r}: {side_effect_problem(note)}" for one in current for note in one.notes]
    extra = sorted({*file["plugins"]} - {found.name for found in plugins})
    differences = [f"plugin {name!r} is listed, but the package has no such plugin" for name in extra]
    for (found, old), new in zip(listed, current, strict=True):
        if old is None:
            differences.append(f"plugin {found.name!r} is missing")
        elif changes := new.differences(old):
            differences.append(f"plugin {found.name!r}: {', '.join(changes)}")
    return differences


def manifest_files(plugins: Iterable[FoundPlugin]) -> list[tuple[Path, list[FoundPlugin]]]:
    """Existing or future manifest files of these plugins, each with those of one distribution that it describes."""
    by_file: dict[tuple[str, Path], list[FoundPlugin]] = {}
    for found in plugins:
        path = find_manifest(found) or manifest_path(found)
        by_file.setdefault((found.distribution, path), []).append(found)
    return [(path, of_file) for (_, path), of_file in by_file.items()]


@click.group("manifest")
@registry_options()
def manifest_command() -> None:
    """Write or check manifests. Tools of a package with a manifest are listed without importing it."""


@manifest_command.command("write")
@click.argument("packages", metavar="[PACKAGE]...", nargs=-1)
@registry_options()
def write_manifests(packages: tuple[str, ...]) -> int:
    """Write the manifests of packages.

    They have to be installed in editable mode (pip install -e).

    PACKAGE is a distribution's or a plugin's name, or the folder of a pyproject.toml; by default the current one.
    """
    for path, plugins in _files(packages):
        distribution = plugins[0].distribution
        if not all(plugin.editable for plugin in plugins):
            advice = "run 'pip install -e' on its sources first"
            raise click.UsageError(f"{distribution} isn't installed in editable mode: {advice}")
        with Status() as status:
            status.show(f"loading {distribution}")
            manifests = current_manifests(plugins)
            write_manifest(path, manifests)
        write(f"{path}: {count_text(sum(len(manifest.tools) for manifest in manifests), 'tool')}\n")
    return 0


@manifest_command.command("check")
@click.argument("packages", metavar="[PACKAGE]...", nargs=-1)
@registry_options()
def check_manifests(packages: tuple[str, ...]) -> int:
    """Compare manifests with the code.

    Exits with 1 if one differs or is missing. PACKAGE is as for 'write'.
    """
    code = 0
    for path, plugins in _files(packages):
        with Status() as status:
            status.show(f"loading {plugins[0].distribution}")
            differences = manifest_differences(path, plugins, [])
        for difference in differences:
            complain(f"{path}: {difference}")
            code = 1
        if not differences:
            write(f"{path}: up to date\n")
    return code


def _files(packages: Sequence[str]) -> list[tuple[Path, list[FoundPlugin]]]:
    entries = discover().entries
    return [file for package in packages or (".",) for file in manifest_files(plugins_of(package, entries))]


def plugins_of(package: str, entries: Sequence[FoundPlugin]) -> list[FoundPlugin]:
    """The plugins of a distribution, given by its name, the name of one of its plugins, or its source folder.

    A name counts as a folder if it is written as a path, or the folder has a pyproject.toml.

    Raises:
        click.UsageError: It isn't installed, or has no plugins.
    """
    name, folder = package, Path(package)
    if folder.is_dir() and (folder.name != package or (folder / "pyproject.toml").is_file()):
        name = _name_in(folder / "pyproject.toml")
    wanted = {normalised(name)} & {normalised(entry.distribution) for entry in entries}
    wanted = wanted or {normalised(entry.distribution) for entry in entries if entry.name == name}
    if not wanted:
        near = did_you_mean(suggest(name, [known for one in entries for known in (one.distribution, one.name)]))
        raise click.UsageError(f"no installed distribution {name!r} brings a plugin.{near or ' Is it installed?'}")
    return [entry for entry in entries if normalised(entry.distribution) in wanted]


def _name_in(file: Path) -> str:
    """The distribution's name in a pyproject.toml; a usage error if it has none."""
    import tomllib

    try:
        return str(tomllib.loads(file.read_text(encoding="utf-8"))["project"]["name"])
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}; name the distribution") from None
    except (ValueError, KeyError, TypeError):
        raise click.UsageError(f"{file} has no project name: name the distribution") from None
