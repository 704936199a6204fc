"""`Subject`: the plugin that is checked, and where it comes from."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from attrs import frozen

from pegboard.errors import PluginError, did_you_mean, suggest

if TYPE_CHECKING:
    from pegboard.plugins.discovery import FoundPlugin


@frozen(eq=False)
class Subject:
    """A plugin under check.

    Attributes:
        name: Its name: the entry point's, or what the module or class is called.
        thing: The module, class or object.
        found: Its entry point, where it is installed.
        module: The module that a fresh process can import, or `None` for an object.
    """

    name: str
    thing: Any
    found: FoundPlugin | None = None
    module: str | None = None


def subject_of(plugin: Any) -> Subject:
    """What `check_plugin` and `plugin_registry` are given, as a subject.

    Args:
        plugin: The name of an installed plugin, a module, a class or an object. A module that is installed as a
            plugin is taken for it.

    Raises:
        PluginError: No plugin of that name is installed.
        BaseException: Whatever importing it raised.
    """
    if isinstance(plugin, str):
        return _installed(plugin)
    if isinstance(plugin, ModuleType):
        return _of_module(plugin)
    return Subject(_name_of(plugin), plugin)


def _installed(name: str) -> Subject:
    from pegboard.plugins.discovery import discover
    from pegboard.plugins.loaded import imported
    from pegboard.plugins.manager import LOAD_SECONDS, within

    entries = {found.name: found for found in discover().entries}
    found = entries.get(name)
    if found is None:
        near = did_you_mean(suggest(name, entries))
        raise PluginError(
            name,
            f"no installed distribution has an entry point {name!r} in the group 'pegboard'.{near} "
            "Install the package first (pip install -e .), or pass its module.",
        )
    thing = within(LOAD_SECONDS, imported, found.module, found.attribute)
    return Subject(name, thing, found, found.module)


def _of_module(module: ModuleType) -> Subject:
    from pegboard.plugins.discovery import discover

    own = (found for found in discover().entries if (found.module, found.attribute) == (module.__name__, None))
    found = next(own, None)
    return Subject(module.__name__ if found is None else found.name, module, found, module.__name__)


def _name_of(plugin: Any) -> str:
    return plugin.__name__ if isinstance(plugin, type) else type(plugin).__name__
