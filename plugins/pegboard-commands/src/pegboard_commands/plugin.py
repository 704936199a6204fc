"""The plugin: programs and files as tools, configured by `[plugins.commands]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard import hookimpl

if TYPE_CHECKING:
    import click

    from pegboard_commands.program import ProgramSettings

KEYS: Final = ("tools", "folders", "watch")
_NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Commands:
    """The plugin for one registry. An invalid tool or setting is left out.

    Args:
        settings: `tools`, tables by name (see `ToolSettings`); `folders` and `watch` (see `FileToolset`).
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
        """Registers the toolset of the folders in the settings, and one that reports programs that can't be run.

        Raises:
            ValueError: `folders` aren't absolute paths, or `watch` is not a boolean.
        """
        if self._programs:
            from pegboard_commands.program import Programs

            register(Programs(self._programs, f"programs_of_{self._place.rpartition('.')[2]}"))
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

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry watch`."""
        from pegboard_commands.watch import watch_command

        group.add_command(watch_command)
