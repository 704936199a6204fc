"""`lazy_hook`: hooks by which a plugin registers exporters and models that are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pegboard import hookimpl
from pegboard.lazy import lazy_call


def lazy_hook(places: Mapping[str, str]) -> Callable[[Callable[[str, Any], None]], None]:
    """The implementation of a hook such as `pegboard_register_models`, which imports nothing itself.

        pegboard_register_models = lazy_hook({"anthropic": "pegboard_anthropic.client:AnthropicModel"})

    Args:
        places: The names to register -> the `"MODULE:NAME"` of what makes an exporter or a model.
    """

    @hookimpl
    def register_all(register: Callable[[str, Any], None]) -> None:
        for name, place in places.items():
            register(name, lazy_call(place))

    return register_all
