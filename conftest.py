"""What every test of the checkout shares: a loop for async tests, own folders, how many examples Hypothesis tries.

They are the same ones each time; `pytest --hypothesis-profile=thorough` tries many more, other ones each time.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import tempfile
from collections.abc import Generator

import pytest

try:
    from hypothesis import HealthCheck, settings
except ImportError:
    pass  # a plugin's own tests may be run with nothing installed but what the plugin asks for
else:
    untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("quick", untimed, derandomize=True, max_examples=25)
    settings.register_profile("thorough", untimed, max_examples=1_000)
    settings.load_profile("quick")


def pytest_configure(config: pytest.Config) -> None:
    """Keeps the user's configuration, accepted names and data out of the tests, and theirs out of the user's.

    Listens to ctrl-C also below a shell's `&`, which has it ignored here and in each process that a test starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTEST_XDIST_WORKER" not in os.environ:  # a worker has those of the process that started it
        home = tempfile.TemporaryDirectory(prefix="pegboard-tests-")
        config.add_cleanup(home.cleanup)
        for kind in ("CACHE", "CONFIG", "DATA", "STATE"):
            os.environ[f"XDG_{kind}_HOME"] = f"{home.name}/{kind.lower()}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spares the garbage collector what lives as long as the tests: modules that they import, the tests themselves.

    To look for garbage among it takes half the time of collecting them, and a tenth of that of running them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an async test."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses an id with an address, which differs in each process: tests could not run side by side."""
    if changing := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"ids that differ from run to run: {', '.join(changing)}")
