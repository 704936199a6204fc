"""`ReadonlyContext` while resolving, `ToolContext` while running."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from attrs import define, field, frozen

T = TypeVar("T")
_NOTHING: Final[Mapping[str, Any]] = {}
_NO_SERVICES: Final[Mapping[type, Any]] = {}


@frozen(kw_only=True)
class ReadonlyContext:
    """For whom, and for which model, tools are resolved. Everything may be left out.

    Attributes:
        user: Who asks.
        agent: The agent's name.
        model: The model's name.
        provider: The model's provider, such as `"anthropic"`.
        session: The conversation's id.
        state: What the session knows; read here, changed by the host.
        extra: Anything else that the host hands to toolsets, predicates and tools.
    """

    user: str | None = None
    agent: str | None = None
    model: str | None = None
    provider: str | None = None
    session: str | None = None
    state: Mapping[str, Any] = field(default=_NOTHING, repr=False)
    extra: Mapping[str, Any] = field(default=_NOTHING, repr=False)


NOBODY: Final = ReadonlyContext()


@frozen
class Progress:
    """How far a running call is.

    Attributes:
        progress: Done so far, in units of `total`.
        total: The whole, or `None` where it isn't known.
        message: What it is doing, or `None`.
    """

    progress: float
    total: float | None = None
    message: str | None = None


def _no_values() -> dict[str, Any]:
    return {}  # four times as fast as dict[str, Any]()


@define
class ToolContext:
    """What one running call knows of its surroundings; `ToolContext()` is good for a test.

    A tool gets it in a parameter of this type, which the model never sees.

    Attributes:
        request: For whom the call runs.
        call_id: The call's id.
        tool: The tool's name.
        values: Shared by the callbacks and the tool of this call.
        services: What the host provided, by type.
        listener: Gets each `Progress` and each partial result as it happens, in the thread that the tool runs in;
            must not raise.
    """

    request: ReadonlyContext = NOBODY
    call_id: str = ""
    tool: str = ""
    values: dict[str, Any] = field(factory=_no_values)
    services: Mapping[type, Any] = field(default=_NO_SERVICES, repr=False)
    listener: Callable[[object], None] | None = field(default=None, repr=False)

    @property
    def user(self) -> str | None:
        """Who asks."""
        return self.request.user

    @property
    def agent(self) -> str | None:
        """The agent's name."""
        return self.request.agent

    @property
    def model(self) -> str | None:
        """The model's name."""
        return self.request.model

    @property
    def provider(self) -> str | None:
        """The model's provider."""
        return self.request.provider

    @property
    def session(self) -> str | None:
        """The conversation's id."""
        return self.request.session

    @property
    def state(self) -> Mapping[str, Any]:
        """What the session knows."""
        return self.request.state

    @property
    def extra(self) -> Mapping[str, Any]:
        """Anything else from the host."""
        return self.request.extra

    def service(self, kind: type[T]) -> T:
        """What the host provided for this type.

        Raises:
            LookupError: Nothing; the host has to `registry.provide(kind, value)`.
        """
        try:
            return self.services[kind]
        except KeyError:
            raise LookupError(
                f"no {kind.__name__} is provided; the host does it with registry.provide({kind.__name__}, ...)"
            ) from None

    def report(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tells whoever listens how far the call is."""
        if self.listener is not None:
            self.listener(Progress(progress, total, message))

    def emit(self, partial: object) -> None:
        """Hands out a partial result before the call ends."""
        if self.listener is not None:
            self.listener(partial)
