"""pegboard-nats: runs tools on other machines, over NATS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_nats.executor import NatsExecutor as NatsExecutor
    from pegboard_nats.jetstream import JetStreamExecutor as JetStreamExecutor
    from pegboard_nats.settings import NatsSettings as NatsSettings

__all__ = ("JetStreamExecutor", "NatsExecutor", "NatsSettings")
_HOMES = {"JetStreamExecutor": "jetstream", "NatsExecutor": "executor", "NatsSettings": "settings"}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
