"""The plugin: programs as hooks of calls, configured by `[plugins.hooks]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard import Limits, hookimpl

if TYPE_CHECKING:
    from pegboard_commands.plugin import Commands
    from pegboard_commands.program import ProgramSettings

_LIMITS: Final = Limits()
_NO_SETTINGS: Final[Mapping[str, Any]] = {}
MOVED: Final = ("tools", "folders", "watch")
_KEYS: Final = ("before", "after", *MOVED)
_HAS_MOVED: Final = "plugins.hooks.{0} is plugins.commands.{0} now: move it there; it works here until 0.4"
_CALL_HOOKS: Final = ("pegboard_before_tool", "pegboard_approve_call", "pegboard_after_tool")


class Hooks:
    """The plugin for one registry. Without hooks in the settings, it has no callbacks.

    An invalid tool, or an invalid hook after calls, is left out. With an invalid hook before calls, or an unknown key,
    which may be a misspelt one, no call runs.

    Args:
        settings: `before` and `after`, lists of tables (see `HookSettings`); until 0.4 also those of pegboard-commands.

    Raises:
        ValueError: A hook before calls is invalid, or a key is unknown.
    """

    def __init__(self, settings: Mapping[str, Any] = _NO_SETTINGS) -> None:
        self._settings = settings
        self._faults: list[str] = []
        self._programs: dict[str, tuple[Sequence[str], ProgramSettings]] = {}
        self._moved: Commands | None = None
        if moved := {key: settings[key] for key in MOVED if key in settings}:
            from pegboard_commands.plugin import Commands

            self._moved = Commands(moved, place="plugins.hooks")
        if settings.keys() - moved:
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
        """Registers the tools of moved settings.

        Raises:
            ValueError: The settings of hooks or of a tool are invalid; the others are registered.
        """
        if self._moved is not None:
            try:
                self._moved.pegboard_register_tools(register)
            except ValueError as error:
                self._faults.append(str(error))
        if self._faults:
            raise ValueError("; ".join(self._faults))

    @hookimpl
    def pegboard_register_toolsets(self, register: Callable[[Any], None]) -> None:
        """Registers a toolset that reports programs that can't be run and moved settings, and the moved toolsets.

        Raises:
            ValueError: A moved setting is invalid.
        """
        if not self._settings:
            return
        from pegboard_commands.program import Programs

        moved = [_HAS_MOVED.format(key) for key in MOVED if key in self._settings]
        register(Programs(self._programs, "hook_programs", moved))
        if self._moved is not None:
            self._moved.pegboard_register_toolsets(register)

    @hookimpl
    def pegboard_needs_posix(self) -> None:
        """Declares that its programs can't be run on Windows."""

    @hookimpl
    def pegboard_guards_calls(self) -> None:
        """Declares that no call may run if the plugin has settings and isn't loaded."""
