"""`Handler`: the code that runs a tool, and how judged arguments become its Python arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import Factory, field, frozen

from pegboard.callbacks import Flavour
from pegboard.tools.context import ToolContext

if TYPE_CHECKING:
    from pegboard.tools.injection import Injection

Binder: TypeAlias = Callable[[ToolContext, Mapping[str, Any]], tuple[Sequence[Any], Mapping[str, Any]]]
"""Turns arguments that the schema has judged valid into `(args, kwargs)` of the function."""

Unstructure: TypeAlias = Callable[[Any], Any]
"""Turns what the function gave back into JSON data."""


@frozen
class Preview:
    """What a person is shown before a call is confirmed.

    Attributes:
        summary: One line.
        details: Everything else, such as a diff; may be empty.
    """

    summary: str
    details: str = ""


Previewer: TypeAlias = Callable[[Mapping[str, Any]], "Preview | str | None"]
"""Gets the judged arguments; a plain text is the summary."""

Confirmer: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Gets the judged arguments; whether this call has to be confirmed."""

Checker: TypeAlias = Callable[[Mapping[str, Any]], "Iterable[str] | None"]
"""Gets the judged arguments; gives `"path: reason"` for each thing that is wrong with them."""

ErrorWriter: TypeAlias = Callable[[Sequence[str]], str]
"""Gets the problems (`"path: reason"`); gives the text that the model reads."""


@frozen(eq=False)
class Handler:
    """The code that runs a tool.

    A generator's items are partial results; its result is what it returns, or the list of its items where it
    returns nothing.

    Attributes:
        function: What is called.
        flavour: What calling it gives.
        blocking: Whether a plain function may block, and so runs off the event loop.
        make_binder: Makes the binder, at the first call.
        make_unstructure: Makes the way back to JSON, at the first call; `None` where the value is JSON already
            or its type says nothing.
        wraps_result: Whether the structured result is `{"result": value}`, because its type is no object's.
        injects: The parameters that services fill: these are opened before each call and closed after it.
    """

    function: Callable[..., Any]
    make_binder: Callable[[], Binder]
    flavour: Flavour = field(default=Factory(lambda self: Flavour.of(self.function), takes_self=True))
    blocking: bool = True
    make_unstructure: Callable[[], Unstructure | None] = lambda: None
    wraps_result: bool = False
    injects: tuple[Injection, ...] = ()
