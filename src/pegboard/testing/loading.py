"""Whether a plugin loads whole, and says the same each time it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pegboard.errors import cause_of
from pegboard.plugins.loaded import LoadedPlugin, gather, manifest_of
from pegboard.plugins.manager import LOAD_SECONDS, within
from pegboard.plugins.manifest import PluginManifest, read_manifest
from pegboard.testing.notebook import Notebook
from pegboard.testing.subject import Subject

if TYPE_CHECKING:
    from pegboard.plugins.discovery import FoundPlugin

_NAMES = ("hooks", "toolsets", "predicates", "processors", "exporters", "executors", "models", "commands")


def check_loading(subject: Subject, settings: Mapping[str, Any], notebook: Notebook) -> LoadedPlugin | None:
    """Asks the plugin for all that it brings, as a board does.

    Args:
        subject: The plugin.
        settings: Its settings.
        notebook: Gets the findings.

    Returns:
        What it brought, or `None` where it failed as a whole.
    """
    try:
        loaded = within(LOAD_SECONDS, gather, subject.name, subject.thing, settings)
        said = within(LOAD_SECONDS, manifest_of, loaded, None, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        notebook.finding(f"it doesn't load: {cause_of(error)}")
        return None
    for fault in loaded.faults:
        notebook.finding(f"it loads in part only: {fault}")
    if not loaded.implementations:
        notebook.finding(
            "it brings nothing: no hook implementation was found; "
            "mark a function pegboard_register_tools(register) with @hookimpl"
        )
    elif not loaded.faults:
        _check_again(subject, settings, said, notebook)
    return loaded


def _check_again(subject: Subject, settings: Mapping[str, Any], said: PluginManifest, notebook: Notebook) -> None:
    """Asks a second time, as a second registry in the same process would."""
    try:
        again = manifest_of(gather(subject.name, subject.thing, settings), None, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        notebook.finding(f"it loads once only: a second registry in the same process gets {cause_of(error)}")
        return
    for difference in differences(said, again):
        notebook.finding(
            f"it isn't the same each time it loads: {difference}; what it registers must not depend on what was "
            "registered before, on the clock or on chance"
        )


def check_manifest(subject: Subject, settings: Mapping[str, Any], notebook: Notebook) -> None:
    """Holds the manifest in the plugin's package, if there is one, and a fresh process's answer against the code.

    Args:
        subject: The plugin, which has loaded whole.
        settings: Its settings.
        notebook: Gets the findings.
    """
    found = subject.found
    if found is None:
        return
    _check_fresh(found, subject, settings, notebook)
    try:
        manifest = read_manifest(found)
        if manifest is None:
            return
        said = manifest_of(gather(subject.name, subject.thing, {}), found.distribution, found.version)
    except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
        notebook.finding(f"its manifest can't be held against its code, which is loaded without settings: {error}")
        return
    for difference in differences(manifest, said):
        notebook.finding(f"its manifest isn't what its code says: {difference}; run 'registry manifest write'")


def _check_fresh(found: FoundPlugin, subject: Subject, settings: Mapping[str, Any], notebook: Notebook) -> None:
    """Asks a new process: sets and hashes come out in another order there."""
    from pegboard.plugins.probe import probe

    said = manifest_of(gather(subject.name, subject.thing, settings), found.distribution, found.version)
    for probed in probe([found], {found.name: settings}):
        if probed.manifest is None:
            notebook.finding(f"it doesn't load in a process of its own: {probed.cause}")
            continue
        for difference in differences(said, probed.manifest):
            notebook.finding(
                f"another process is told something else: {difference}; "
                "sort what comes from sets, and leave out times, ids and paths"
            )


def differences(one: PluginManifest, other: PluginManifest) -> list[str]:
    """In what two manifests differ, a few words each; the order of tools and names doesn't count."""
    first, second = ({spec.name: spec for spec in manifest.tools} for manifest in (one, other))
    told = [
        f"tool {name!r} {'is gone' if name not in second else 'is new' if name not in first else 'has changed'}"
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]
    changed = (kind for kind in _NAMES if sorted(getattr(one, kind)) != sorted(getattr(other, kind)))
    return told + [f"its {kind} differ" for kind in changed]
