"""`Processor`: one named step by which a request is made ready; `Placed`: where a plugin's is to stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from attrs import Factory, field, frozen

from pegboard.callbacks import Callback, ChainError, by_name, settle
from pegboard.errors import RegistrationError
from pegboard.request.runner import Runner
from pegboard.tools.origin import HOST, Origin

ProcessorFunction: TypeAlias = Callable[..., Any]
"""`(request, context) -> ModelRequest | None`, plain or async; `None` leaves the request as it is."""

TAKES: Final = ("request", "context", "runner")
"""What a processor may ask for, by name: the `ModelRequest`, the `ReadonlyContext`, and the `Runner` by which it asks
code that isn't its own."""


@frozen
class Placed:
    """A processor, and where it is to stand: `register("memory", Placed(add_memory, before="pack_tools"))`.

    Attributes:
        function: The processor.
        before: The name of the processor that it stands before, or `None`.
        after: The name of the one that it stands behind, or `None`; one of the two.

    Raises:
        ValueError: Both are given, or neither.
    """

    function: ProcessorFunction
    before: str | None = field(default=None, kw_only=True)
    after: str | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if (self.before is None) is (self.after is None):
            raise ValueError("a processor is placed before another or after one: name one of the two")


def _link(processor: Processor) -> Callback:
    try:
        return Callback(by_name(processor.function, TAKES), str(processor.owner))
    except TypeError as error:
        raise RegistrationError(f"request processor {processor.name!r}: {error}") from None


def _check_name(_processor: Any, _attribute: Any, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise RegistrationError(f"a request processor's name has to be a text, not {name!r:.80}")


@frozen
class Processor:
    """One named step by which a request is made ready.

    Attributes:
        name: What it is found by.
        function: What is called.
        owner: Who brought it. What a plugin's does wrong costs only itself; what the host's does wrong is raised.
        built_in: Whether it came with pegboard.
        registered: Whether it hangs on the board, by a plugin or by `registry.add`; it goes when that goes.

    Raises:
        RegistrationError: The function takes something that there isn't, or is none.
    """

    name: str = field(validator=_check_name)
    function: ProcessorFunction
    owner: Origin = HOST
    built_in: bool = False
    registered: bool = False
    link: Callback = field(init=False, eq=False, repr=False, default=Factory(_link, takes_self=True))

    @classmethod
    def of(cls, name: str, thing: ProcessorFunction | Placed, owner: Origin) -> Processor:
        """What hangs on the board as a processor.

        Raises:
            RegistrationError: The function takes something that there isn't, or is none.
        """
        return cls(name, thing.function if isinstance(thing, Placed) else thing, owner, registered=True)

    @property
    def summary(self) -> str:
        """What it does: the first line of its docstring, or `""`."""
        from pegboard.tools.definition import docstring_of

        return next(iter(docstring_of(self.function).description.splitlines()), "")

    async def ask(self, request: Any, context: Any, runner: Runner) -> Any:
        """What it makes of a request.

        Raises:
            ChainError: It raised, or gave no answer in time.
        """
        if not self.built_in:
            return await runner.ask(self.link, request, context, runner)
        try:  # it bounds what it asks of others by itself
            return await settle(self.link.function(request, context, runner))
        except Exception as error:
            raise ChainError(self.link, error) from error


__all__ = ["TAKES", "Placed", "Processor", "ProcessorFunction"]
