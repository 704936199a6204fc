"""`Services`: what the host provides to tools and toolsets, by type."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pegboard.errors import MissingServiceError
from pegboard.tools.provided import Provided, ServiceScope, provided
from pegboard.tools.service_kind import name_of_kind

if TYPE_CHECKING:
    from pegboard.tools.context import ToolContext
    from pegboard.tools.opened_services import Observer, OffLoop, OpenedServices
    from pegboard.tools.service_kind import Kind

T = TypeVar("T")
_MISSING: Final = object()


class Services:
    """What the host provides, by type. Readers never wait; a change swaps what they see.

    Attributes:
        off_loop: Where plain factories that may block run; `None`: where they are asked for.
        observe: Told of what fails while it is closed; by default the logger `pegboard` is.

    Args:
        values: Type -> value or factory, as `provide` takes them.
        off_loop: As above; may be set later, before the first service is opened.
        observe: The same.
    """

    def __init__(
        self,
        values: Mapping[Any, Any] | None = None,
        *,
        off_loop: OffLoop | None = None,
        observe: Observer | None = None,
    ) -> None:
        self.off_loop = off_loop
        self.observe = observe or _log
        self._provided: dict[Any, Provided] = {kind: provided(kind, value) for kind, value in (values or {}).items()}
        self._shared = _Shared()

    @classmethod
    def of(cls, values: Services | Mapping[Any, Any]) -> Services:
        """These values as services; services as they are."""
        return values if isinstance(values, Services) else cls(values)

    def provide(
        self, kind: Any, thing: Any, *, scope: ServiceScope | None = None, blocking: bool = True, enter: bool = True
    ) -> Provided:
        """Keeps a value, or what makes one, by its type; what was there before is replaced.

        Args:
            kind: A class or protocol, perhaps with its parameters filled in.
            thing: The value, or a factory: plain, async, a generator (plain or async) that yields the value and goes
                on to close it, or giving a context manager. It gets the call's `ToolContext` if it has a required
                parameter, or one called `context`. A value of the type, or one that can't be called, is no factory.
            scope: How long what a factory made is kept: `"call"`, by default, or `"registry"`.
            blocking: `False` for a plain factory that never waits: it runs on the event loop.
            enter: Whether a context manager that the factory gives is entered, and left at the end.

        Returns:
            What `withdraw` takes.

        Raises:
            TypeError: `kind` is no type, `scope` is none, or the factory asks for what it can't get.
        """
        made = provided(kind, thing, scope=scope, blocking=blocking, enter=enter)
        with self._shared.lock:
            self._provided = {**self._provided, kind: made}
        return made

    def withdraw(self, given: Provided) -> None:
        """Takes back what `provide` has given, unless it was replaced already."""
        with self._shared.lock:
            self._provided = {kind: each for kind, each in self._provided.items() if each is not given}

    def over(self, values: Services | Mapping[Any, Any]) -> Services:
        """These services with others in front, which win; what is opened for all calls stays shared."""
        if not isinstance(values, Services) and not values:
            return self
        others = Services.of(values)
        if not others._provided:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            return self
        if others._shared is self._shared:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            return others
        both = Services(off_loop=self.off_loop, observe=self.observe)
        both._provided = {**self._provided, **others._provided}  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        both._shared = self._shared
        return both

    def find(self, kind: Any) -> Provided | None:
        """What is provided for this type: exactly for it, else for the one class that inherits from it.

        Raises:
            MissingServiceError: Several such classes.
        """
        found = self._provided.get(kind)
        if found is not None:
            return found
        below = [each for each in self._provided if isinstance(each, type) and kind in each.__mro__]
        if len(below) > 1:
            names = ", ".join(sorted(map(name_of_kind, below)))
            what = f"several services are a {name_of_kind(kind)}: {names}; ask for one of them"
            raise MissingServiceError(what, kind=kind)
        return self._provided[below[0]] if below else None

    async def use(self, kind: Kind[T], context: ToolContext) -> T:
        """The service of this type, opened if need be.

        Raises:
            MissingServiceError: Nobody provides one.
            BaseException: Whatever its factory raised.
        """
        given = self._found(kind)
        if given.make is None:
            return given.value
        return await self._opened(given, context).use(given, context)

    def use_now(self, kind: Kind[T], context: ToolContext) -> T:
        """The same for what needs no waiting.

        Raises:
            MissingServiceError: Nobody provides one, or it has to be awaited; says what to do.
            BaseException: Whatever its factory raised.
        """
        given = self._found(kind)
        return given.value if given.make is None else self._opened(given, context).use_now(given, context)

    def default(self, kind: Kind[T], make: Callable[[], T]) -> T:
        """What stands for a type that nobody provides, made at first use and kept as long as these services are."""
        with self._shared.lock:
            value = self._shared.defaults.get(kind, _MISSING)
            if value is _MISSING:
                value = self._shared.defaults[kind] = make()
        return cast("T", value)

    def for_call(self) -> OpenedServices:
        """Where one call's services are kept while they are open."""
        from pegboard.tools.opened_services import OpenedServices

        return OpenedServices(self.observe, self.off_loop, for_call=True)

    async def aclose(self) -> None:
        """Closes what was opened for all calls, the last first. Whoever asks later opens it anew."""
        if self._shared.opened is not None:
            await self._shared.opened.close()

    def __contains__(self, kind: object) -> bool:
        return self.find(kind) is not None

    # How it does it ----------------------------------------------------------------------------------------------

    def _found(self, kind: Any) -> Provided:
        given = self.find(kind)
        if given is None:
            name = name_of_kind(kind)
            what = f"no {name} is provided; the host does it with registry.provide({name}, ...)"
            raise MissingServiceError(what, kind=kind)
        return given

    def _opened(self, given: Provided, context: ToolContext) -> OpenedServices:
        if given.scope == "call":
            return context.opened_services()
        shared = self._shared
        if shared.opened is None:
            from pegboard.tools.opened_services import OpenedServices

            with shared.lock:
                shared.opened = shared.opened or OpenedServices(self.observe, self.off_loop)
        return shared.opened


class _Shared:
    """What services over others have in common with them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.opened: OpenedServices | None = None
        self.defaults: dict[Any, Any] = {}


def _log(who: str, error: BaseException) -> None:
    import logging

    logging.getLogger("pegboard").error("%s failed", who, exc_info=error)


__all__ = ["Services"]
