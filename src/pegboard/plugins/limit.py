"""A time limit on code that can't be interrupted: it runs in a daemon thread, which is left behind past the limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")
LOAD_SECONDS: Final = 10.0


def within(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    """Calls the function in a daemon thread and waits for it.

    Raises:
        TimeoutError: It took longer than `seconds`; it may still be going on.
        BaseException: Whatever it raised, `SystemExit` included.
    """
    values: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            values.append(function(*arguments))
        except BaseException as error:  # noqa: BLE001  handed to the caller, whatever it is
            errors.append(error)

    thread = threading.Thread(target=work, name="pegboard-load", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not values:
        raise TimeoutError(f"took longer than {seconds:g} s")
    return values[0]
