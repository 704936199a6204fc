"""Where a tool comes from, and how it is treated: beside the spec, outside its digest."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import attrs
from attrs import field, frozen

from pegboard.tools.result_limits import ResultLimits

ConflictPolicy: TypeAlias = Literal["error", "keep", "replace", "shadow", "prefix"]
"""Two tools of one name: raise, keep the earlier, take the later, take the later until it is disposed, or prefix the
later's name with its plugin's."""


@frozen
class Origin:
    """Who brought a tool.

    Attributes:
        plugin: The plugin's name (its entry point's), or `None` for the host program.
        distribution: The installed distribution, or `None`.
        version: The distribution's version, or `None`.
        toolset: The toolset that offered the tool at this resolution, or `None`.
        trusted: Whether the annotations may be believed; those of an untrusted origin only add caution.
    """

    plugin: str | None = None
    distribution: str | None = None
    version: str | None = None
    toolset: str | None = None
    trusted: bool = True

    def __str__(self) -> str:
        if self.plugin is None:
            source = "the host"
        elif self.distribution is None:
            source = f"plugin {self.plugin!r}"
        else:
            source = f"plugin {self.plugin!r} ({self.distribution} {self.version or '?'})"
        return f"{source}, toolset {self.toolset!r}" if self.toolset else source


HOST: Final = Origin()

LEAST_MEMORY: Final = 64 << 20
"""Bytes that a child process needs for Python itself and what a tool imports."""


@frozen
class Policy:
    """How calls of a tool are treated; `None` leaves it to the registry.

    Attributes:
        timeout: Seconds that one call may take.
        coerce: Whether arguments may be converted to the schema's types (on a copy, reported).
        expose_errors: Whether the text of unexpected exceptions reaches the model.
        retries: How often a failed call of an idempotent tool is tried again.
        max_concurrency: How many calls of the tool may run at once.
        result_limits: How much of a result the model gets.
        executor: Where the handler runs: `"loop"`, `"thread"`, `"process"` (a child process, by pegboard-processes),
            or the name of another executor of a plugin or the host; `None` is in the loop where it is async,
            else in a thread.
        memory_limit: Bytes of memory that a call in a child process may use, all of the process counted.

    Raises:
        ValueError: A `max_concurrency` below 1: no call would ever run. A `memory_limit` below 64 MiB: Python itself
            would have no room.
    """

    timeout: float | None = None
    coerce: bool | None = None
    expose_errors: bool | None = None
    retries: int = 0
    max_concurrency: int | None = field(default=None, validator=attrs.validators.optional(attrs.validators.ge(1)))
    result_limits: ResultLimits | None = None
    executor: str | None = None
    memory_limit: int | None = field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(LEAST_MEMORY))
    )


DEFAULT_POLICY: Final = Policy()
