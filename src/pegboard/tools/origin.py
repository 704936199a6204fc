"""Where a tool comes from, and how it is treated: beside the spec, outside its digest."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from attrs import frozen

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


@frozen
class Policy:
    """How calls of a tool are treated; `None` leaves it to the registry.

    Attributes:
        timeout: Seconds that one call may take.
        coerce: Whether arguments may be converted to the schema's types (on a copy, reported).
        expose_errors: Whether the text of unexpected exceptions reaches the model.
        retries: How often a failed call of an idempotent tool is tried again.
    """

    timeout: float | None = None
    coerce: bool | None = None
    expose_errors: bool | None = None
    retries: int = 0


DEFAULT_POLICY: Final = Policy()
