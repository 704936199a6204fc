"""In the child: what the parent sent becomes a tool again."""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from collections.abc import Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

from pegboard.dispatch.executors.luggage import MAIN, Home, Parcel, Sent, fingerprint
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Handler
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool

MAIN_AGAIN: Final = "__mp_main__"
"""What the parent's program is called here, as `multiprocessing` has it: what stands below
`if __name__ == "__main__":` isn't run again."""

_homes: Final[dict[str, Home]] = {}


class StaleCodeError(Exception):
    """The function that was found isn't the one that was sent."""


def unpacked(parcel: Parcel) -> Tool:
    """The tool of a parcel; its modules are imported where they aren't there yet.

    Raises:
        StaleCodeError: Its code is another one than the parent's.
        BaseException: Whatever importing it raised.
    """
    sys.path.extend(each for each in parcel.path if each not in sys.path)
    _homes.update((home.name, home) for home in parcel.homes)
    sent: Sent = _read(parcel.handler)
    if fingerprint(sent.function) != parcel.fingerprint:
        raise StaleCodeError(f"the code of {sent.function!r} isn't what it was when the parent loaded it")
    handler = Handler(
        sent.function,
        _no_binder,
        sent.flavour,
        make_unstructure=sent.make_unstructure,
        wraps_result=sent.wraps_result,
    )
    return Tool(ToolSpec.from_json(sent.spec), handler)


def bound(
    pickled: bytes, context: ToolContext, at: Sequence[int], named: Sequence[str]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The `(args, kwargs)` of a call, with the context where it belongs."""
    args, kwargs = _read(pickled)
    values = list(args)
    for place in at:
        values.insert(place, context)
    return values, {**kwargs, **dict.fromkeys(named, context)}


def _no_binder() -> NoReturn:
    raise TypeError("the arguments were bound in the parent")


class _Unpickler(pickle.Unpickler):
    """Loads the modules that can't be imported by their names from where the parent has them."""

    def find_class(self, module: str, name: str) -> Any:
        home = _homes.pop(module, None)
        if home is not None:
            _move_in(home)
        return super().find_class(module, name)


def _read(pickled: bytes) -> Any:
    return _Unpickler(io.BytesIO(pickled)).load()


def _move_in(home: Home) -> None:
    """Sees to it that the module is there, and is the parent's own."""
    if home.name == MAIN:
        sys.modules[MAIN] = _main(home)
        return
    try:
        module = importlib.import_module(home.name)
    except ModuleNotFoundError as error:
        if home.file is None or not home.name.startswith(f"{error.name}"):
            raise
        _loaded(home.name, home.file)
    else:
        file: str | None = getattr(module, "__file__", None)
        if file != home.file and home.file is not None:
            _loaded(home.name, home.file)


def _main(home: Home) -> ModuleType:
    """The parent's program, not run as a program."""
    if home.imported_as is not None:
        return importlib.import_module(home.imported_as)
    assert home.file is not None
    return _loaded(MAIN_AGAIN, home.file)


def _loaded(name: str, file: str) -> ModuleType:
    """A module from a file, whatever `sys.path` says."""
    spec = spec_from_file_location(name, Path(file).resolve())
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python module")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
