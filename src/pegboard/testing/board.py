"""`plugin_registry`: a fresh registry with the plugins that a test brings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegboard.errors import PluginError, RegistrationError
from pegboard.registry import ToolRegistry
from pegboard.testing.subject import Subject, subject_of


def plugin_registry(
    *plugins: Any, settings: Mapping[str, Mapping[str, Any]] | None = None, **named: Any
) -> ToolRegistry:
    """Hangs plugins on a fresh registry; no other plugin is on it, and no configuration is read.

    Args:
        plugins: Objects, modules or classes with hook implementations, or names of installed plugins. One is called
            by its entry point, or else as its module or class is.
        settings: The settings by plugin name.
        named: More plugins, under these names.

    Returns:
        The registry; every plugin on it is loaded whole.

    Raises:
        PluginError: A plugin isn't loaded whole: it raised, something it brought was refused, or a name is held back.
        RegistrationError: Two plugins have one name.
    """
    from pegboard.plugins.manager import PluginManager

    registry = ToolRegistry()
    manager = PluginManager(registry, settings or {})
    subjects = [*map(subject_of, plugins), *(_called(name, plugin) for name, plugin in named.items())]
    for subject in subjects:
        if subject.name in registry.catalogue.plugins:
            raise RegistrationError(
                f"two plugins are called {subject.name!r}: name one, plugin_registry(..., other=...)"
            )
        found = subject.found
        manager.register(
            subject.thing,
            subject.name,
            distribution=None if found is None else found.distribution,
            version=None if found is None else found.version,
        )
    for problem in registry.problems():
        raise PluginError(problem.plugin or "?", problem.cause, distribution=problem.distribution)
    return registry


def _called(name: str, plugin: Any) -> Subject:
    subject = subject_of(plugin)
    return Subject(name, subject.thing, subject.found, subject.module)
