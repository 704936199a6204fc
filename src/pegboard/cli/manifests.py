"""What the manifests of installed plugins say, beside what their code says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from pegboard.errors import ManifestError
from pegboard.plugins.manifest import find_manifest, manifest_path, manifest_text, read_manifest_file, write_manifest
from pegboard.plugins.probe import probe
from pegboard.typing import JsonObject

if TYPE_CHECKING:
    from pegboard.plugins.discovery import FoundPlugin
    from pegboard.plugins.manifest import PluginManifest


@frozen
class ManifestFile:
    """One manifest file, there or not, and the plugins of one distribution that it is for.

    Attributes:
        path: The file.
        plugins: At least one.
    """

    path: Path
    plugins: tuple[FoundPlugin, ...]

    @property
    def distribution(self) -> str:
        """Whose it is."""
        return self.plugins[0].distribution

    def made(self) -> list[PluginManifest]:
        """What the plugins' code says now, loaded in a child process.

        Raises:
            ManifestError: A plugin failed.
        """
        manifests: list[PluginManifest] = []
        for probed in probe(self.plugins, {}):
            if probed.manifest is None:
                raise ManifestError(f"plugin {probed.found.name!r} failed to load: {probed.cause}")
            manifests.append(probed.manifest)
        return manifests

    def write(self) -> int:
        """Writes it from the code; gives how many tools it lists.

        Raises:
            ManifestError: A plugin failed or isn't whole, or the file can't be written.
        """
        manifests = self.made()
        write_manifest(self.path, manifests)
        return sum(len(manifest.tools) for manifest in manifests)

    def differences(self) -> list[str]:
        """What the file says otherwise than the code, a sentence each; empty where it is true."""
        try:
            expected: JsonObject = json.loads(manifest_text(self.made()))
            found = read_manifest_file(self.path)
        except ManifestError as error:
            return [str(error)]
        return list(_differences(expected, found))


def manifest_files(plugins: Iterable[FoundPlugin]) -> list[ManifestFile]:
    """The manifest files of these plugins, where they are or would be.

    Raises:
        ManifestError: A plugin's package can't be found.
    """
    by_place: dict[tuple[str, Path], list[FoundPlugin]] = {}
    for found in plugins:
        path = find_manifest(found) or manifest_path(found)
        by_place.setdefault((found.distribution, path), []).append(found)
    return [ManifestFile(path, tuple(of_file)) for (_, path), of_file in by_place.items()]


def _differences(expected: JsonObject, found: JsonObject) -> Iterator[str]:
    for fact in ("distribution", "version"):
        if expected[fact] != found.get(fact):
            yield f"it is for {fact} {found.get(fact)!r}, and {expected[fact]!r} is installed"
    now, then = _object(expected["plugins"]), _object(found.get("plugins"))
    for name in sorted({*now, *then}):
        if name not in then:
            yield f"plugin {name!r} is not in it"
        elif name not in now:
            yield f"plugin {name!r} is in it, and the package has none of that name"
        elif now[name] != then[name]:
            yield f"plugin {name!r}: {_changes(_by_name(now[name]), _by_name(then[name]))}"


def _changes(now: JsonObject, then: JsonObject) -> str:
    told = (
        ("changed", [name for name in now if name in then and now[name] != then[name]]),
        ("not in it", [name for name in now if name not in then]),
        ("gone from the code", [name for name in then if name not in now]),
    )
    sentences = [f"{', '.join(map(repr, sorted(names)))} {what}" for what, names in told if names]
    return f"tools: {'; '.join(sentences)}" if sentences else "what it brings besides tools has changed"


def _by_name(plugin: Any) -> JsonObject:
    listed: Any = _object(plugin).get("tools")
    tools: list[Any] = listed if isinstance(listed, list) else []  # pyright: ignore[reportUnknownVariableType]
    return {str(_object(tool).get("name")): tool for tool in tools}


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]
