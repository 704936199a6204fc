"""The hook that registers the executors `nats` and `jetstream`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pegboard import hookimpl
from pegboard_nats.settings import NatsSettings


@hookimpl
def pegboard_register_executors(register: Callable[[str, Any], None], settings: Mapping[str, Any]) -> None:
    """Registers the executors `nats` and `jetstream`.

    Args:
        register: Registers an executor by its name.
        settings: `[plugins.nats]`: see `NatsSettings`; those in `[executors.NAME]` win.

    Raises:
        ValueError: A setting is unknown or out of range.
        TypeError: A setting is of the wrong type.
    """
    NatsSettings.read(settings)

    def nats(codec: Any = None, **own: Any) -> Any:
        from pegboard.worker import Wire
        from pegboard_nats.executor import NatsExecutor

        return NatsExecutor(NatsSettings.read({**settings, **own}), Wire(codec=codec))

    def jetstream(codec: Any = None, **own: Any) -> Any:
        from pegboard.worker import Wire
        from pegboard_nats.jetstream import JetStreamExecutor

        return JetStreamExecutor(NatsSettings.read({**settings, **own}), Wire(codec=codec))

    register("nats", nats)
    register("jetstream", jetstream)
