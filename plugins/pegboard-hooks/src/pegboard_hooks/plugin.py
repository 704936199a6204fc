"""The plugin: hooks, files as tools, and programs as tools, configured by `[plugins.hooks]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard import Limits, hookimpl

if TYPE_CHECKING:
    import click

    from pegboard_hooks.program import ProgramSettings

_LIMITS: Final = Limits()
_NO_SETTINGS: Final[Mapping[str, Any]] = {}
_KEYS: Final = ("before", "after", "tools", "folders", "watch")
_CALL_HOOKS: Final = ("pegboard_before_tool", "pegboard_approve_call", "pegboard_after_tool")


class Hooks:
    """The plugin for one registry. Without hooks in the settings, it has no callbacks.

    An invalid tool, or an invalid hook after calls, is left out. With an invalid hook before calls, or an unknown key,
    which may be a misspelt one, no call runs.

    Args:
        settings: `before` and `after`, lists of tables (see `HookSettings`); `tools`, tables by name (see
            `ToolSettings`); `folders` and `watch` (see `FileToolset`).

    Raises:
        ValueError: A hook before calls is invalid, or a key is unknown.
    """

    def __init__(self, settings: Mapping[str, Any] = _NO_SETTINGS) -> None:
        self._settings = settings
        self._faults: list[str] = []
        self._programs: dict[str, tuple[Sequence[str], ProgramSettings]] = {}
        if not settings.keys() <= {"tools", "folders", "watch"}:
            self._guard_calls()

    def _guard_calls(self) -> None:
        from pegboard.errors import check_keys
        from pegboard_hooks.command_hooks import CommandHooks

        broken: list[str] = []
        check_keys(self._settings, _KEYS, "plugins.hooks")
        before, after = [*self._hooks("before", broken)], [*self._hooks("after", self._faults)]
        if broken:
            raise ValueError("; ".join(broken))
        hooks = CommandHooks(before, after)
        for name in _CALL_HOOKS:  # not defined by the class, so that calls without hooks cost nothing
            setattr(self, name, getattr(hooks, name))

    def _hooks(self, key: str, faults: list[str]) -> Iterator[Any]:
        from pegboard.schema.converter import read_table
        from pegboard_hooks.command_hooks import HookSettings

        tables: Any = self._settings.get(key, ())
        if not isinstance(tables, list | tuple):
            faults.append(f"plugins.hooks.{key}: has to be a list of tables: [[plugins.hooks.{key}]]")
            return
        for index, table in enumerate(cast("list[Any]", tables)):
            place = f"plugins.hooks.{key}[{index}]"
            try:
                hook = read_table(HookSettings, table, place)
                if hook.timeout > _LIMITS.callback_timeout:
                    most = f"{_LIMITS.callback_timeout:g} seconds, which all hooks of a call have together"
                    raise ValueError(f"{place}.timeout: {hook.timeout:g} is more than {most}")  # noqa: TRY301  as the table's
            except ValueError as error:
                faults.append(str(error))
                continue
            self._programs[place] = hook.words, hook
            yield hook

    @hookimpl
    def pegboard_register_tools(self, register: Callable[[Any], None]) -> None:
        """Registers the programs of the settings as tools.

        Raises:
            ValueError: The settings of hooks or of a tool are invalid; the others are registered.
        """
        tables: Any = self._settings.get("tools", {})
        if tables:
            from pegboard import PegboardError
            from pegboard.schema.converter import read_table
            from pegboard_hooks.command_tools import ToolSettings, command_tool

            if not isinstance(tables, Mapping):
                self._faults.append("plugins.hooks.tools: has to be a table of tools: [plugins.hooks.tools.NAME]")
                tables = {}
            for name, table in cast("Mapping[str, Any]", tables).items():
                place = f"plugins.hooks.tools.{name}"
                try:
                    tool = read_table(ToolSettings, table, place)
                    register(command_tool(name, tool))
                    self._programs[place] = tool.with_holes, tool
                except PegboardError as error:
                    self._faults.append(f"{place}: {error}")
                except ValueError as error:
                    text = str(error)
                    self._faults.append(text if text.startswith(place) else f"{place}: {text}")
        if self._faults:
            raise ValueError("; ".join(self._faults))

    @hookimpl
    def pegboard_register_toolsets(self, register: Callable[[Any], None]) -> None:
        """Registers the toolset of the folders in the settings, and one that reports programs that can't be run.

        Raises:
            ValueError: `folders` aren't absolute paths, or `watch` is not a boolean.
        """
        if not self._settings:
            return
        from pegboard_hooks.program import Programs

        register(Programs(self._programs))
        folders: Any = self._settings.get("folders", ())
        watches = self._settings.get("watch", False)
        if not isinstance(watches, bool):
            raise ValueError("plugins.hooks.watch: has to be true or false")  # noqa: TRY004  the one error of settings
        if not folders:
            return
        from pegboard_hooks.file_tools import FileToolset

        if not isinstance(folders, list) or not all(isinstance(each, str) for each in cast("list[Any]", folders)):
            raise ValueError("plugins.hooks.folders: has to be a list of absolute paths")
        register(FileToolset(cast("list[str]", folders), watches=watches))

    @hookimpl
    def pegboard_guards_calls(self) -> None:
        """Declares that no call may run if the plugin has settings and isn't loaded."""

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry watch`."""
        from pegboard_hooks.watch import watch_command

        group.add_command(watch_command)
