"""The hook that registers the executor `temporal`, which is imported at its first call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pegboard import hookimpl
from pegboard_temporal.settings import settings_from


@hookimpl
def pegboard_register_executors(register: Callable[[str, Any], None], settings: Mapping[str, Any]) -> None:
    """Registers the executor `temporal`.

    Args:
        register: Registers an executor by its name.
        settings: `[plugins.temporal]`, see `Settings`; those of `[executors.NAME]` come before them.

    Raises:
        ValueError: A setting is unknown or out of range.
        TypeError: A setting is of the wrong type.
    """
    settings_from(settings)

    def make(codec: Any = None, **own: Any) -> Any:
        from pegboard_temporal.executor import TemporalExecutor

        return TemporalExecutor(settings_from({**settings, **own}), codec)

    register("temporal", make)
