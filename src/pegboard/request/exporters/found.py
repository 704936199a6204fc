"""`found_exporter`: the exporter of a name, registered or built in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pegboard.errors import ExportError, did_you_mean, suggest
from pegboard.request.exporter import Exporter
from pegboard.request.exporters.builtin import EXPORTERS


def found_exporter(name: str, registered: Callable[[], Mapping[str, Any]], wake: Callable[[], None]) -> Exporter:
    """The exporter of this name.

    Args:
        name: What it is found by.
        registered: Gives what has been registered by now, which stands before what is built in.
        wake: Has those register that haven't yet; called where no other has the name.

    Raises:
        ExportError: There is none, with near misses; or what was registered is no exporter.
    """
    found = registered().get(name)
    if found is None and name in EXPORTERS:
        return EXPORTERS[name]()
    if found is None:
        wake()
        found = registered().get(name)
    if found is None:
        raise _unknown(name, {*registered(), *EXPORTERS})
    if not isinstance(found, Exporter):
        raise ExportError(f"what is registered is no exporter, but {found!r:.100}", exporter=name)
    return found


def _unknown(name: str, known: set[str]) -> ExportError:
    near = did_you_mean(suggest(name, known))
    return ExportError(f"there is no exporter of this name.{near} There are {', '.join(sorted(known))}", exporter=name)


__all__ = ["found_exporter"]
