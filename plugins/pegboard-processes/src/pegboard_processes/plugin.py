"""The hook that registers the executor `process`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pegboard import hookimpl
from pegboard.errors import check_keys
from pegboard_processes.pool import SETTINGS, ChildProcesses


@hookimpl
def pegboard_register_executors(register: Callable[[str, Any], None], settings: Mapping[str, Any]) -> None:
    """Registers the executor `process`.

    Args:
        register: Registers an executor by its name.
        settings: `[plugins.processes]`: `most`, `memory`, `grace`, `calls`, `message_bytes` and `import_timeout`, see
            `ChildProcesses`.

    Raises:
        ValueError: A setting is unknown or out of range.
        TypeError: A setting is of the wrong type.
    """
    check_keys(settings, SETTINGS, "plugins.processes")
    ChildProcesses(**settings)  # refuses wrong settings now, not at the first call
    register("process", partial(ChildProcesses, **settings))  # `[executors.NAME]` may have others


@hookimpl
def pegboard_needs_posix() -> None:
    """Declares that child processes get a socket and limits on their memory, which Windows doesn't offer."""
