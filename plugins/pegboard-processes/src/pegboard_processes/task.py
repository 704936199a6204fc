"""Task message: one call as sent to a child process, and how the child finds the tool's function again.

Only messages from the parent to its child are pickled. Functions and classes are sent by name, so that the child
imports them itself; objects whose method is a tool are sent as copies. Arguments are bound to the function's parameters
in the parent.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import io
import itertools
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NoReturn, cast
from weakref import WeakKeyDictionary

import attrs
from attrs import frozen

from pegboard import Tool, ToolContext, ToolSpec, tool_of
from pegboard.execution import ExecutionRequest, ExecutorCall

MAIN: Final = "__main__"
MAIN_AGAIN: Final = "__mp_main__"
"""The name of the parent's program in a child, as in `multiprocessing`: code below `if __name__ == "__main__":` isn't
run again."""

_KNOWN: Final = frozenset({*sys.stdlib_module_names, "pegboard", "pegboard_processes"}) - {MAIN}
"""Top-level modules that every child can import."""


class UnsendableError(Exception):
    """Something can't be sent to a child process; the text names it and says what to do."""


class StaleCodeError(Exception):
    """The function that the child found isn't the one of the parent."""


@frozen
class ModuleRef:
    """Reference to the module of a function or a class.

    Attributes:
        name: As in `sys.modules`.
        file: The file that it was loaded from, or `None`.
        imported_as: The module to import if the name is `__main__` and it was run as `python -m ...`; else `None`.
    """

    name: str
    file: str | None
    imported_as: str | None = None


@frozen
class ToolPayload:
    """A tool as sent to each child process once.

    Attributes:
        key: Its number among the payloads of this parent.
        modules: Modules that must be loaded before `tool` is unpickled.
        path: The parent's `sys.path`.
        tool: The pickled spec (as JSON data) and handler (without its binder).
        fingerprint: The digest of the function's code and spec, to verify that the child has found the same.
    """

    key: int
    modules: tuple[ModuleRef, ...]
    path: tuple[str, ...]
    tool: bytes
    fingerprint: str


@frozen(eq=False)
class Task:
    """One call as sent to a child process.

    Attributes:
        payload: The tool; only its key if the child has it already.
        request: The call.
        arguments: The pickled `(args, kwargs)` of the function, without the context.
        context_at: The positions of the context in `args`, ascending.
        context_as: The names of the context in `kwargs`.
        is_watched: Whether the tool's events have a listener in the parent.
    """

    payload: ToolPayload
    request: ExecutionRequest
    arguments: bytes
    context_at: tuple[int, ...] = ()
    context_as: tuple[str, ...] = ()
    is_watched: bool = False

    def without_payload(self) -> Task:
        """The task for a child that has the tool already."""
        return attrs.evolve(self, payload=ToolPayload(self.payload.key, (), (), b"", ""))

    def bind(self, context: ToolContext) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The `(args, kwargs)` of the call, with the context inserted; in the child."""
        args, kwargs = _loads(self.arguments)
        values = list(args)
        for place in self.context_at:
            values.insert(place, context)
        return values, {**kwargs, **dict.fromkeys(self.context_as, context)}


# In the parent -------------------------------------------------------------------------------------------------------

_keys: Final = itertools.count(1)
_payloads: Final[WeakKeyDictionary[Tool, ToolPayload]] = WeakKeyDictionary()


def task_for(call: ExecutorCall, request: ExecutionRequest, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Task:
    """The task for one call.

    Args:
        call: The call.
        request: The call's request, perhaps with another memory limit.
        args: The function's positional arguments, with the context if it takes it.
        kwargs: The function's keyword arguments, likewise.

    Raises:
        UnsendableError: The function can't be sent by name (a lambda, a function inside a function), or an argument
            can't be pickled.
    """
    tool, context = call.tool, call.context
    payload = payload_of(tool)
    try:
        arguments = pickle.dumps(
            (
                tuple(value for value in args if value is not context),
                {name: value for name, value in kwargs.items() if value is not context},
            ),
            pickle.HIGHEST_PROTOCOL,
        )
    except Exception as error:
        raise UnsendableError(
            f"an argument of {tool.name} can't be sent to a child process: {error}. Run the tool with "
            "executor='thread', where it can use any service of the host."
        ) from error
    at = tuple(place for place, value in enumerate(args) if value is context)
    named = tuple(name for name, value in kwargs.items() if value is context)
    return Task(payload, request, arguments, at, named, call.is_watched)


def payload_of(tool: Tool) -> ToolPayload:
    """The payload of a tool, cached.

    Raises:
        UnsendableError: The tool's function can't be sent by name.
    """
    payload = _payloads.get(tool)
    if payload is None:
        payload = _payloads[tool] = _pack(tool)
    return payload


def _pack(tool: Tool) -> ToolPayload:
    handler: Any = tool.handler
    writing = io.BytesIO()
    pickler = _Pickler(writing)
    try:
        pickler.dump((tool.spec.to_json(), attrs.evolve(handler, make_binder=_no_binder, injects=())))
    except Exception as error:
        raise UnsendableError(
            f"{tool.name} can't be sent to a child process: {error}. Define its function at the top level of a module "
            "(no lambda, no function inside a function), or run it with executor='thread'."
        ) from error
    modules = tuple(_module_ref(name, tool) for name in pickler.modules if name.partition(".")[0] not in _KNOWN)
    path = tuple(each for each in sys.path if each)
    return ToolPayload(next(_keys), modules, path, writing.getvalue(), _fingerprint(handler.function))


def _no_binder() -> NoReturn:
    raise TypeError("the arguments were bound in the parent")


class _Pickler(pickle.Pickler):
    """Pickler that collects the modules whose functions and classes are sent by name."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.modules: dict[str, None] = {}

    def reducer_override(self, value: Any) -> Any:
        cls: type[Any] = value if isinstance(value, type) else type(value)
        module = value.__module__ if isinstance(value, FunctionType) else cls.__module__
        self.modules[module] = None
        return NotImplemented


def _module_ref(name: str, tool: Tool) -> ModuleRef:
    module = sys.modules.get(name)
    file: str | None = getattr(module, "__file__", None)
    if name != MAIN:
        return ModuleRef(name, file)
    spec: Any = getattr(module, "__spec__", None)
    if spec is None and file is None:
        raise UnsendableError(
            f"{tool.name} can't be sent to a child process: it was typed in and isn't in a file. Put it into a "
            "module, or run it with executor='thread'."
        )
    return ModuleRef(name, file, None if spec is None else spec.name)


# In the parent and the child -----------------------------------------------------------------------------------------


def _fingerprint(function: Callable[..., Any]) -> str:
    """`"sha256:..."` of a function's code and of the digest of its spec, if it has one.

    It is the same in all processes that have loaded the same source with the same Python.
    """
    digest = hashlib.sha256()
    carried = tool_of(function)
    if carried is not None:
        digest.update(carried.spec.digest.encode())
    plain: Any = function
    while isinstance(plain, functools.partial):
        plain = plain.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    for part in _parts(getattr(inspect.unwrap(plain), "__code__", None)):
        digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _parts(code: CodeType | None) -> Iterator[bytes]:
    """What a function does, without its file and lines."""
    if code is None:
        return
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        yield from _parts(constant) if isinstance(constant, CodeType) else (_stable_text(constant).encode(),)


def _stable_text(constant: object) -> str:
    """A constant as text that is the same in every process, unlike the order of a set."""
    if not isinstance(constant, frozenset | tuple):
        return ascii(constant)
    items = [_stable_text(item) for item in cast("Iterable[object]", constant)]
    return f"set{sorted(items)}" if isinstance(constant, frozenset) else f"tuple{items}"


# In the child --------------------------------------------------------------------------------------------------------

_modules: Final[dict[str, ModuleRef]] = {}


_on_reentry: Callable[[], NoReturn] | None = None


def check_reentry() -> None:
    """Ends this process if it is a child that is importing a tool's module, which runs its program again."""
    if _on_reentry is not None:
        _on_reentry()


def unpack(payload: ToolPayload, on_reentry: Callable[[], NoReturn] | None = None) -> Tool:
    """The tool of a payload, after importing its modules.

    Args:
        payload: As sent by the parent.
        on_reentry: Called if importing them runs a tool in a child process.

    Raises:
        StaleCodeError: The tool's code isn't the parent's.
        BaseException: Importing it raised this.
    """
    global _on_reentry  # noqa: PLW0603  a child loads one tool at a time
    sys.path.extend(each for each in payload.path if each not in sys.path)
    _modules.update((module.name, module) for module in payload.modules)
    _on_reentry = on_reentry
    try:
        spec, handler = _loads(payload.tool)
    finally:
        _on_reentry = None
    if _fingerprint(handler.function) != payload.fingerprint:
        raise StaleCodeError(f"the code of {handler.function!r} has changed since the parent loaded it")
    return Tool(ToolSpec.from_json(spec), handler)


class _Unpickler(pickle.Unpickler):
    """Unpickler that loads modules as the parent has them, even if they can't be imported by name."""

    def find_class(self, module: str, name: str) -> Any:
        ref = _modules.pop(module, None)
        if ref is not None:
            _provide(ref)
        return super().find_class(module, name)


def _loads(pickled: bytes) -> Any:
    return _Unpickler(io.BytesIO(pickled)).load()


def _provide(ref: ModuleRef) -> None:
    """Ensures that the module is loaded, from the same file as in the parent."""
    if ref.name == MAIN:
        sys.modules[MAIN] = _main(ref)
        return
    try:
        module = importlib.import_module(ref.name)
    except ModuleNotFoundError as error:
        if ref.file is None or not ref.name.startswith(f"{error.name}"):
            raise
        _load(ref.name, ref.file)
    else:
        file: str | None = getattr(module, "__file__", None)
        if file != ref.file and ref.file is not None:
            _load(ref.name, ref.file)


def _main(ref: ModuleRef) -> ModuleType:
    """The parent's program, imported as a module."""
    if ref.imported_as is not None:
        return importlib.import_module(ref.imported_as)
    assert ref.file is not None
    return _load(MAIN_AGAIN, ref.file)


def _load(name: str, file: str) -> ModuleType:
    """Loads a module from a file, regardless of `sys.path`."""
    spec = spec_from_file_location(name, Path(file).resolve())
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python module")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
