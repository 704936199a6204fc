"""The hooks that register the tools, the request processor and the services."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from pegboard import Artifacts, Memory, ResultTexts, ToolError, ToolRegistry, hookimpl, read_result_tool
from pegboard.schema.converter import read_table
from pegboard_memory.router import MessageRouter
from pegboard_memory.tools import MemoryTools, Settings


class Plugin:
    """The plugin, with its settings.

    Args:
        settings: `[plugins.memory]`, see `Settings`.

    Raises:
        ValueError: A setting is unknown or wrong.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.tools = MemoryTools(read_table(Settings, settings, "plugins.memory"))

    @hookimpl
    def pegboard_register_tools(self, register: Callable[[Any], None]) -> None:
        """Registers the tools, and one by which a model reads the rest of truncated results."""
        register(self.tools)
        register(read_result_tool(lambda context: context.service(ToolRegistry).results))

    @hookimpl
    def pegboard_register_processors(self, register: Callable[[str, Any], None]) -> None:
        """Registers `preload_memory`."""
        if self.tools.settings.preload:
            register("preload_memory", self.tools.preload_memory)

    @hookimpl
    def pegboard_diagnose(self, report: Callable[[str, str], None]) -> None:
        """Reports a database that can't be used."""
        database = self.tools.database
        try:
            database.check()
        except ToolError as error:
            path = shlex.quote(str(database.path))
            saved = f"save what can be read (sqlite3 {path} .recover | sqlite3 saved.db)"
            restore = f"Restore {path}; or {saved} and move it away, with its -wal and -shm: a new one is made."
            fix = f"End the program that uses {path}." if error.retryable else restore
            report(error.text.removesuffix(" Nothing was changed."), fix)

    @hookimpl
    def pegboard_register_services(self, register: Callable[[Any, Any], None]) -> None:
        """Registers the stores of memory, artifacts, full texts of results and messages."""
        register(Memory, self.tools.memory)
        register(Artifacts, self.tools.artifacts)
        register(ResultTexts, self.tools.texts)
        register(MessageRouter, self.tools.outbox)
