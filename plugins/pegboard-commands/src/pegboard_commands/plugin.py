"""The plugin: programs, click and typer programs, and files as tools, configured by `[plugins.commands]`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard import hookimpl

if TYPE_CHECKING:
    import click

    from pegboard_commands.program import ProgramSettings

KEYS: Final = ("tools", "click", "folders", "watch")
_NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Commands:
    """The plugin for one registry. An invalid tool or setting is left out.

    Args:
        settings: `tools`, tables by name (see `ToolSettings`); `click`, a list of programs (see `ClickSettings`);
            `folders` and `watch` (see `FileToolset`).
        place: The table of the settings, for messages.
    """

    def __init__(self, settings: Mapping[str, Any] = _NO_SETTINGS, *, place: str = "plugins.commands") -> None:
        self._settings = settings
        self._place = place
        self._programs: dict[str, tuple[Sequence[str], ProgramSettings]] = {}

    @hookimpl
    def pegboard_register_tools(self, register: Callable[[Any], None]) -> None:
        """Registers the programs of the settings as tools.

        Raises:
            ValueError: A key or the settings of a tool are invalid; the others are registered.
        """
        if not self._settings:
            return
        from pegboard.errors import PegboardError, check_keys
        from pegboard.schema.converter import read_table
        from pegboard_commands.command_tools import ToolSettings, command_tool

        faults: list[str] = []
        try:
            check_keys(self._settings, KEYS, self._place)
        except ValueError as error:
            faults.append(str(error))
        if os.name != "posix" and not self._settings.keys().isdisjoint(("tools", "click")):
            raise ValueError(f"{self._place}: tools and click work on Linux and macOS, but not on Windows")
        tables: Any = self._settings.get("tools", {})
        if not isinstance(tables, Mapping):
            faults.append(f"{self._place}.tools: has to be a table of tools: [{self._place}.tools.NAME]")
            tables = {}
        for name, table in cast("Mapping[str, Any]", tables).items():
            place = f"{self._place}.tools.{name}"
            try:
                tool = read_table(ToolSettings, table, place)
                register(command_tool(name, tool))
                self._programs[place] = tool.with_holes, tool
            except (PegboardError, ValueError) as error:
                text = str(error)
                faults.append(text if text.startswith(place) else f"{place}: {text}")
        if faults:
            raise ValueError("; ".join(faults))

    @hookimpl
    def pegboard_register_toolsets(self, register: Callable[[Any], None]) -> None:
        """Registers the toolsets of click programs and of folders, and one that reports programs that can't be run.

        Raises:
            ValueError: `click` has invalid items, `folders` aren't absolute paths, or `watch` is not a boolean.
        """
        if self._programs:
            from pegboard_commands.program import Programs

            register(Programs(self._programs, f"programs_of_{self._place.rpartition('.')[2]}"))
        faults = [*self._register_click(register)]
        try:
            self._register_files(register)
        except ValueError as error:
            faults.append(str(error))
        if faults:
            raise ValueError("; ".join(faults))

    def _register_files(self, register: Callable[[Any], None]) -> None:
        folders: Any = self._settings.get("folders", ())
        watches = self._settings.get("watch", False)
        if not isinstance(watches, bool):
            raise ValueError(f"{self._place}.watch: has to be true or false")  # noqa: TRY004  the one error of settings
        if not folders:
            return
        from pegboard_commands.file_tools import FileToolset

        if not isinstance(folders, list) or not all(isinstance(each, str) for each in cast("list[Any]", folders)):
            raise ValueError(f"{self._place}.folders: has to be a list of absolute paths")
        register(FileToolset(cast("list[str]", folders), watches=watches))

    def _register_click(self, register: Callable[[Any], None]) -> Iterator[str]:
        """Registers the toolsets of click programs; yields the faults of the settings."""
        items: Any = self._settings.get("click", ())
        if not items or os.name != "posix":
            return
        if not isinstance(items, list):
            yield f'{self._place}.click: has to be a list of programs: ["module:group"]'
            return
        from pegboard_commands.click_programs import ClickToolset, read_click_settings

        for index, item in enumerate(cast("list[Any]", items)):
            try:
                register(ClickToolset(read_click_settings(item, f"{self._place}.click[{index}]")))
            except ValueError as error:
                yield str(error)

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry watch`."""
        from pegboard_commands.watch import watch_command

        group.add_command(watch_command)
