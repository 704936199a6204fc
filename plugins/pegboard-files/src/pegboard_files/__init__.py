"""pegboard-files: tools that read, search and change the files below given folders, and nothing outside of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl

if TYPE_CHECKING:
    from pegboard import ReadonlyContext, TurnOutcome

__all__ = ["pegboard_needs_posix", "pegboard_register_processors", "pegboard_register_tools", "pegboard_report_turn"]


@hookimpl
def pegboard_register_tools(register: Callable[[Any], None], settings: Mapping[str, Any]) -> None:
    """Registers the tools that read files and those that change them.

    Args:
        register: Registers a tool.
        settings: `[plugins.files]`, see `Settings`.

    Raises:
        ValueError: A setting is unknown or wrong.
    """
    from pegboard.schema.converter import read_table  # imported late: a listing from the manifest needs none of it
    from pegboard_files.edit_tools import EditTools
    from pegboard_files.tools import FileTools, Settings

    reading = FileTools(read_table(Settings, settings, "plugins.files"))
    editing = EditTools(reading.settings, reading.seen)  # which may find a wrong setting: then nothing is registered
    register(reading)
    for tool in editing.tools():
        register(tool)


@hookimpl
def pegboard_needs_posix() -> None:
    """Declares that confining the tools needs to open files relative to a directory, which Windows can't."""


@hookimpl
def pegboard_register_processors(register: Callable[[str, Any], None], settings: Mapping[str, Any]) -> None:
    """Registers the processor that offers each model only the edit tools it was trained on.

    Args:
        register: Registers a processor under a name.
        settings: `[plugins.files]`, see `Settings`.
    """
    from pegboard.schema.converter import read_table
    from pegboard_files.edit_tools import EditToolChoice
    from pegboard_files.tools import Settings

    register("edit_tools", EditToolChoice(read_table(Settings, settings, "plugins.files").patch_models))


@hookimpl
def pegboard_report_turn(context: ReadonlyContext, outcome: TurnOutcome) -> dict[str, Any]:
    """Reports the net change of the files by a turn.

    Args:
        context: The user and session of the turn.
        outcome: Its outcome, which says whether a later turn of its id continues it.

    Returns:
        `TurnDiff` as JSON; empty if the turn has changed no file, or was undone while it waited.
    """
    from pegboard_files.root import Deadline
    from pegboard_files.turn_diff import diff_of_turn
    from pegboard_files.turns import TurnStore

    store = TurnStore()
    turn = store.end_turn(context, continues=outcome.ended in {"pending", "suspended", "transferred", "escalated"})
    return {} if turn is None else diff_of_turn(store, turn, Deadline(5)).to_json()
