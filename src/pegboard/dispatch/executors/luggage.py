"""What a child process is sent of a tool: how it finds the function again, and the arguments, bound and pickled.

Pickle goes one way only, from the parent to its child, and of what the parent itself has made. It sends functions and
classes by their names, so that the child imports them for itself; objects that carry a tool as a method are sent as
copies.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

from attrs import frozen

from pegboard.chains import Flavour
from pegboard.dispatch.executors.request import ExecutionRequest
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Handler, Unstructure
from pegboard.tools.signature import innermost
from pegboard.tools.tool import ATTRIBUTE, Method, Tool
from pegboard.typing import JsonObject

MAIN: Final = "__main__"
SentErrand: TypeAlias = "tuple[int, Parcel | None, JsonObject, bytes, tuple[int, ...], tuple[str, ...], bool]"


class UnsendableError(Exception):
    """Something can't be sent to a child process; the text says what, and what to do."""


@frozen
class Home:
    """A module that a function or a class is found in.

    Attributes:
        name: As in `sys.modules`.
        file: Where it was loaded from, or `None`.
        imported_as: What to import where the name is `__main__` and it was run as `python -m ...`; else `None`.
    """

    name: str
    file: str | None
    imported_as: str | None = None


@frozen
class Parcel:
    """A tool as a child process is told of it, once.

    Attributes:
        key: Its number among the parcels of this parent.
        homes: The modules that have to be there before `handler` is unpickled.
        path: The parent's `sys.path`.
        handler: A pickled `Sent`.
        fingerprint: Of the function's code and of the spec that it carries: what is found must be what was sent.
    """

    key: int
    homes: tuple[Home, ...]
    path: tuple[str, ...]
    handler: bytes
    fingerprint: str


@frozen(eq=False)
class Sent:
    """What runs a tool in the child.

    Attributes:
        spec: The spec as JSON data.
        function: What is called.
        flavour: What calling it gives.
        make_unstructure: Makes the way back to JSON.
        wraps_result: Whether the structured result is `{"result": value}`.
    """

    spec: Mapping[str, Any]
    function: Callable[..., Any]
    flavour: Flavour
    make_unstructure: Callable[[], Unstructure | None]
    wraps_result: bool


@frozen(eq=False)
class Errand:
    """One call as a child process gets it.

    Attributes:
        key: The parcel's.
        parcel: The tool; `None` where the child has it.
        request: The call.
        bound: The pickled `(args, kwargs)` of the function, without the context.
        context_at: The places in `args` that the context takes, in rising order.
        context_as: The names in `kwargs` that the context takes.
        listens: Whether the parent wants to know what the tool tells on the way.
    """

    key: int
    parcel: Parcel | None
    request: ExecutionRequest
    bound: bytes
    context_at: tuple[int, ...]
    context_as: tuple[str, ...]
    listens: bool = False

    def sent(self, *, with_parcel: bool) -> SentErrand:
        """What goes down the line: plain data, with which pickle is fast."""
        parcel = self.parcel if with_parcel else None
        request = self.request.to_json()
        return (self.key, parcel, request, self.bound, self.context_at, self.context_as, self.listens)

    @classmethod
    def received(cls, sent: SentErrand) -> Errand:
        """What has come down the line."""
        key, parcel, request, bound, context_at, context_as, listens = sent
        return cls(key, parcel, ExecutionRequest(**request), bound, context_at, context_as, listens)


_AT_HOME: Final = frozenset({*sys.stdlib_module_names, "pegboard"}) - {MAIN}
"""Top-level modules that every child finds by itself."""

_keys: Final = itertools.count(1)
_parcels: Final[WeakKeyDictionary[Tool, Parcel]] = WeakKeyDictionary()


def parcel_of(tool: Tool) -> Parcel:
    """How a child process finds what runs this tool; worked out once.

    Raises:
        UnsendableError: It can't be found again: a lambda, a function inside a function, an unpicklable object.
    """
    parcel = _parcels.get(tool)
    if parcel is None:
        parcel = _parcels[tool] = _packed(tool)
    return parcel


def errand_for(tool: Tool, request: ExecutionRequest, context: ToolContext, *, listens: bool = False) -> Errand:
    """One call, its arguments bound to the function's parameters.

    Args:
        tool: With its handler.
        request: The call.
        context: The call's.
        listens: Whether somebody wants to know what the tool tells on the way.

    Raises:
        StructureError: The tool's types refuse the arguments.
        UnsendableError: An argument can't be pickled.
    """
    parcel = parcel_of(tool)
    args, kwargs = tool.bind(context, request.arguments)
    at = tuple(place for place, value in enumerate(args) if value is context)
    named = tuple(name for name, value in kwargs.items() if value is context)
    if at or named:
        args = [value for value in args if value is not context]
        kwargs = {name: value for name, value in kwargs.items() if value is not context}
    return Errand(parcel.key, parcel, request, _pickled_arguments(tool, args, kwargs), at, named, listens)


def _pickled_arguments(tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    try:
        return pickle.dumps((tuple(args), dict(kwargs)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise UnsendableError(
            f"an argument of {tool.name} can't be sent to a child process: {error}. What the host provides stays with "
            "the host; run the tool with executor='thread'."
        ) from error


def _packed(tool: Tool) -> Parcel:
    handler = tool.handler
    assert isinstance(handler, Handler)
    sent = Sent(tool.spec.to_json(), handler.function, handler.flavour, handler.make_unstructure, handler.wraps_result)
    writing = io.BytesIO()
    pickler = _Pickler(writing)
    try:
        pickler.dump(sent)
    except Exception as error:
        raise UnsendableError(
            f"{tool.name} can't be sent to a child process: {error}. Define its function at the top level of a module "
            "(no lambda, no function inside a function), or run it with executor='thread'."
        ) from error
    homes = tuple(_home(name, tool) for name in pickler.modules if name.partition(".")[0] not in _AT_HOME)
    path = tuple(each for each in sys.path if each)
    return Parcel(next(_keys), homes, path, writing.getvalue(), fingerprint(handler.function))


class _Pickler(pickle.Pickler):
    """Notes the modules whose functions and classes are sent by name."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.modules: dict[str, None] = {}

    def reducer_override(self, value: Any) -> Any:
        cls: type[Any] = value if isinstance(value, type) else type(value)
        module = value.__module__ if isinstance(value, FunctionType) else cls.__module__
        self.modules[module] = None
        return NotImplemented


def _home(name: str, tool: Tool) -> Home:
    module = sys.modules.get(name)
    file: str | None = getattr(module, "__file__", None)
    if name != MAIN:
        return Home(name, file)
    spec: Any = getattr(module, "__spec__", None)
    if spec is None and file is None:
        raise UnsendableError(
            f"{tool.name} can't be sent to a child process: it was typed in, and stands in no file. Put it into a "
            "module, or run it with executor='thread'."
        )
    return Home(name, file, None if spec is None else spec.name)


def fingerprint(function: Callable[..., Any]) -> str:
    """`"sha256:..."` over the code of a function and the digest of the spec that it carries.

    It is the same in two processes that have loaded the same source with the same Python.
    """
    plain = innermost(function)
    digest = hashlib.sha256()
    for part in _parts(getattr(plain, "__code__", None)):
        digest.update(part)
    carried = getattr(function.__func__ if isinstance(function, MethodType) else function, ATTRIBUTE, None)
    tool = carried.tool if isinstance(carried, Method) else carried
    if isinstance(tool, Tool):
        digest.update(tool.spec.digest.encode())
    return f"sha256:{digest.hexdigest()}"


def _parts(code: CodeType | None) -> Iterator[bytes]:
    """What a function does, without where it stands."""
    if code is None:
        return
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        yield from _parts(constant) if isinstance(constant, CodeType) else (_written(constant).encode(),)


def _written(constant: object) -> str:
    """A constant as text; the same in every process, as the order of a set isn't."""
    if not isinstance(constant, frozenset | tuple):
        return ascii(constant)
    items = [_written(item) for item in cast("Iterable[object]", constant)]
    return f"set{sorted(items)}" if isinstance(constant, frozenset) else f"tuple{items}"
