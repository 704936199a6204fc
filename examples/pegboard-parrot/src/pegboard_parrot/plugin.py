"""The hook that brings the exporter. It is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl

if TYPE_CHECKING:
    from pegboard_parrot.parrot import Parrot


@hookimpl
def pegboard_register_exporters(register: Callable[[str, Any], None]) -> None:
    """Brings `parrot`.

    Args:
        register: Registers a function that makes it.
    """
    register("parrot", _exporter)


def _exporter() -> Parrot:
    from pegboard_parrot.parrot import Parrot

    return Parrot()
