"""`Config`: what all configuration together says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from attrs import frozen

from pegboard.tools.origin import ConflictPolicy

Settings: TypeAlias = Mapping[str, Any]


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@frozen
class Ignored:
    """Something that a project's configuration wanted and didn't get, because nobody has trusted it.

    Attributes:
        file: The path of the configuration.
        key: The dotted key.
    """

    file: str
    key: str

    def __str__(self) -> str:
        return f"{self.file}: {self.key} is ignored until you trust the file (registry config trust)"


@frozen
class Config:
    """What the user's file, the project's, the one given and the environment say together.

    Attributes:
        block: The names of plugins that are never loaded, each once.
        enable: The names of the only plugins that are loaded; `None` for all.
        rename: `"tool"` or `"plugin:tool"` -> its name on the board.
        prefix: Plugin -> what stands before the names of its tools.
        conflicts: What happens when two plugins bring the same name: by default the earlier keeps it.
        where: The text of the predicate that every resolution starts with, or `None`.
        plugins: Plugin -> its settings.
        autoload: Whether installed plugins are loaded at all.
        files: The files that were read, in order.
        looked_at: Every file whose change, coming or going would change this value, the ones above included.
        ignored: What an untrusted project wanted and didn't get.
    """

    block: tuple[str, ...] = ()
    enable: tuple[str, ...] | None = None
    rename: Mapping[str, str] = _NOTHING
    prefix: Mapping[str, str] = _NOTHING
    conflicts: ConflictPolicy = "keep"
    where: str | None = None
    plugins: Mapping[str, Settings] = _NOTHING
    autoload: bool = True
    files: tuple[str, ...] = ()
    looked_at: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = ()

    def settings(self, plugin: str) -> Settings:
        """The settings of one plugin; empty where there are none."""
        return self.plugins.get(plugin, _NOTHING)

    def is_blocked(self, plugin: str) -> bool:
        """Whether a plugin is never loaded."""
        return plugin in self.block

    def is_enabled(self, plugin: str) -> bool:
        """Whether a plugin may be loaded, were it not blocked."""
        return self.autoload and (self.enable is None or plugin in self.enable)
