"""Exporters, models and executors of installed plugins, for a registry that has loaded none."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from pegboard.config.config import Config
from pegboard.errors import ManifestError, PluginError, cause_of
from pegboard.plugins.discovery import FoundPlugin, discover
from pegboard.plugins.load import blocked_names, is_wanted
from pegboard.plugins.loaded import gather, imported
from pegboard.plugins.manifest import read_manifest
from pegboard.tools.policy import Origin


def offered_names(kind: str) -> tuple[str, ...]:
    """The names of a kind (`"exporters"`) that the manifests of installed plugins offer. Imports no plugin."""
    return tuple(sorted(name for each, name in _offers() if each == kind))


def offered_thing(kind: str, name: str) -> tuple[Any, Origin] | None:
    """What the one installed plugin registers under a name, and whose it is; `None` where no manifest offers it.

    Nothing else that the plugin brings is registered anywhere. `PEGBOARD_BLOCK` and `PEGBOARD_AUTOLOAD` hold.

    Raises:
        PluginError: The plugin failed, or doesn't register what its manifest offers; or several offer the name.
    """
    plugins = _offers().get((kind, name), ())
    if not plugins:
        return None
    found, *others = plugins
    if others:
        whose = " and ".join(plugin.distribution for plugin in plugins)
        cause = f"{whose} offer {name!r} among {kind}: block the others, as in PEGBOARD_BLOCK={others[0].name}"
        raise PluginError(found.name, cause, distribution=found.distribution)
    try:
        brought = gather(found.name, imported(found.module, found.attribute), {}).extras
        thing = brought[kind][name]
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(found.name, cause_of(error), distribution=found.distribution) from error
    return thing, Origin(found.name, found.distribution, found.version)


def _offers() -> dict[tuple[str, str], list[FoundPlugin]]:
    return _read(os.environ.get("PEGBOARD_BLOCK", ""), os.environ.get("PEGBOARD_AUTOLOAD", ""))


@cache
def _read(_block: str, _autoload: str) -> dict[tuple[str, str], list[FoundPlugin]]:
    """Which plugins offer what. Read once a process."""
    config = Config()
    if not is_wanted(config, None):
        return {}
    blocked = blocked_names(config, ())
    offers: dict[tuple[str, str], list[FoundPlugin]] = {}
    for found in discover().entries:
        if found.name in blocked:
            continue
        try:
            manifest = read_manifest(found, stale=True)
        except ManifestError:  # `registry doctor` reports it
            continue
        for offer in () if manifest is None else manifest.offers:
            offers.setdefault(offer, []).append(found)
    return offers


__all__ = ["offered_names", "offered_thing"]
