"""Isolation of plugin loading: a thread with a time limit; side effects are undone or reported."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from pegboard.errors import cause_of

LOAD_SECONDS: Final = 10.0
LOADING: Final = "pegboard-load"  # the name of the threads in which plugins are loaded
MOST_PRINTED: Final = 10_000
_MODULES: Final = (  # of the standard library: replacing functions in these affects all other code
    *("asyncio", "builtins", "importlib", "io", "json", "logging", "os", "random", "shutil", "signal", "socket"),
    *("ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib.request", "warnings"),
)
_lock: Final = threading.Lock()
_T = TypeVar("_T")


def run_in_thread(seconds: float, function: Callable[..., _T], *arguments: Any) -> _T:
    """What a function returns or raises in a daemon thread; a `TimeoutError` if it took longer, and may still run."""
    values, errors, own = list[_T](), list[BaseException](), os.getpid()

    def work() -> None:
        try:
            values.append(function(*arguments))
        except KeyboardInterrupt as error:  # never the user's: that reaches the main thread only
            errors.append(RuntimeError(cause_of(error)))
        except BaseException as error:  # noqa: BLE001  raised in the caller
            errors.append(error)
        if os.getpid() != own:  # a copy that the plugin has forked
            os._exit(0)

    thread = threading.Thread(target=work, name=LOADING, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not values:
        raise TimeoutError(f"took longer than {seconds:g} s")
    return values[0]


@contextmanager
def watch_side_effects(notes: list[str]) -> Generator[None]:
    """Context manager that watches the loading of a plugin for side effects.

    The working folder and the umask are restored, and only the first 10,000 characters that it prints are shown. It
    can't set signal handlers, as it is loaded in a thread. Of plugins that are loaded concurrently only one is
    watched. `notes` gets a few words for each change.
    """
    if not _lock.acquire(blocking=False):
        yield
        return
    folder, environ, functions = _folder(), dict(os.environ), _functions()
    mask = os.umask(0o077)  # the only way to read it; files that other threads create now are private
    os.umask(mask)
    wrappers = {name: _Limited(stream) for name in ("stdout", "stderr") if (stream := getattr(sys, name)) is not None}
    for name, wrapper in wrappers.items():
        setattr(sys, name, wrapper)
    try:
        yield
    finally:
        for name, wrapper in wrappers.items():
            wrapper.is_limited = False
            if getattr(sys, name) is wrapper:
                setattr(sys, name, wrapper.stream)
            else:
                notes.append(f"replaced sys.{name}")
            if wrapper.printed > MOST_PRINTED:
                notes.append(f"printed more than {MOST_PRINTED:,} characters, which were truncated")
        if folder is not None and _folder() != folder:
            with suppress(OSError):
                os.chdir(folder)
            notes.append("changed the working folder, which was restored")
        if os.umask(mask) != mask:
            notes.append("changed the umask, which was restored")
        if changed := {name for name, _ in environ.items() ^ os.environ.items()}:
            notes.append(f"changed the environment: {', '.join(sorted(changed))}")
        now = _functions()
        if replaced := [name for name, value in functions.items() if now.get(name) is not value]:
            notes.append(f"replaced functions of the standard library: {', '.join(sorted(replaced))}")
        _lock.release()


def side_effect_problem(note: str) -> str:
    """The problem of a plugin that has changed something in the process."""
    return f"while it was loaded, it {note}"


class _Limited:
    """Wrapper of a stream that truncates what is printed while a plugin is loaded, and nothing after that."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.is_limited = True
        self.printed = 0

    def write(self, text: str) -> int:
        """Writes; what the loading thread prints is truncated."""
        if not self.is_limited or threading.current_thread().name != LOADING:
            return self.stream.write(text)
        shown = text[: max(MOST_PRINTED - self.printed, 0)]
        self.printed += len(text)
        if shown:
            self.stream.write(shown)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  a text
    except OSError:  # it was removed
        return None


def _functions() -> dict[str, Any]:
    modules = [(module, vars(sys.modules[module]).copy()) for module in _MODULES if module in sys.modules]
    return {f"{module}.{name}": value for module, names in modules for name, value in names.items() if callable(value)}
