"""Lazy imports: the names of a package, and functions that a plugin registers."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["lazy_call", "lazy_names"]

installed: Callable[[], Any]
"""Gives the registry of the installed plugins, on which those without plugins fall back; set by `pegboard` itself.

That costs a program nothing that only defines and calls tools; its registry still finds an installed exporter or model.
"""


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`, which import its names at first use (PEP 562).

        __getattr__, __dir__ = lazy_names(__name__, {"Guard": "guard"})

    Args:
        package: The package's `__name__`.
        modules: Name -> its module, relative to the package.
    """
    namespace = vars(sys.modules[package])

    def find(name: str) -> object:
        if (module := modules.get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = namespace[name] = getattr(import_module(f"{package}.{module}"), name)
        return value

    return find, lambda: sorted({*namespace, *modules})


def lazy_call(place: str) -> Callable[..., Any]:
    """A function that imports another one when it is called, for a plugin to register.

        register("anthropic", lazy_call("pegboard_anthropic.client:AnthropicModel"))

    Args:
        place: `"MODULE:NAME"`.
    """

    def call(*args: Any, **options: Any) -> Any:
        from pkgutil import resolve_name

        return resolve_name(place)(*args, **options)

    return call
