"""Loads and exercises packages under an import hook that refuses private modules of pegboard to all but pegboard.

python tests/only_public.py PACKAGE...
"""

from __future__ import annotations

import asyncio
import builtins
import importlib
import pkgutil
import sys

from pegboard.cli.main import main as run_command
from pegboard.plugins.imports import is_private

REFUSED: list[str] = []
real_import, real_import_module = builtins.__import__, importlib.import_module


def check(name: str, names: tuple[str, ...] = ()) -> None:
    """Refuses an import by code outside of pegboard; the error may be caught there, so it is also recorded."""
    frame = sys._getframe(2)
    while (importer := frame.f_globals.get("__name__", "").partition(".")[0]) in ("importlib", "pkgutil"):
        frame = frame.f_back
    if name.partition(".")[0] == "pegboard" != importer:
        private = [each for each in (name, *(f"{name}.{each}" for each in names)) if is_private(each, name)]
        REFUSED.extend(f"{frame.f_code.co_filename}:{frame.f_lineno}: {each}" for each in private)
        if private:
            raise ImportError(f"{private[0]} is private")


def import_statement(name, globals=None, locals=None, fromlist=(), level=0):  # noqa: A002  passed by these names, too
    if not level:
        check(name, fromlist or ())
    return real_import(name, globals, locals, fromlist, level)


def import_by_name(name, package=None):
    check(name)
    return real_import_module(name, package)


def load_all(package: str) -> None:
    """Imports each module of a package."""
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if found.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(found.name)
        except ImportError as error:
            if type(error).__name__ != "PeerError":  # of pegboard-adapters, whose frameworks aren't all installed
                raise


async def use_installed() -> None:
    """Lists the tools of all installed plugins, exports them to all exporters, and uses the third party's."""
    from pegboard import ModelRequest, Permissions, load
    from third_party import exercise

    async with load() as registry:
        registry.permissions = Permissions(mode="bypass")
        offered = await registry.resolve()
        assert len(offered.names) > 20
        await exercise(registry)
        for name in EXPORTERS:
            assert registry.exporter(name).request(ModelRequest("Hi.", model="one", tools=offered))


EXPORTERS = ("anthropic", "bedrock", "gemini", "ollama", "openai", "openai-responses", "parrot")


if __name__ == "__main__":
    builtins.__import__, importlib.import_module = import_statement, import_by_name
    for package in sys.argv[1:]:
        load_all(package)
    from pegboard.testing import check_plugin, discover

    for found in discover().entries:
        check_plugin(found.name, heavy=())
    asyncio.run(use_installed())
    assert run_command(["third-count", "ls | sort"]) == 0
    sys.exit("\n".join(REFUSED) or None)  # an empty text would be a failure, too
