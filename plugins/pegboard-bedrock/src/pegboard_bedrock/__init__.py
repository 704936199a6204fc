"""pegboard-bedrock: models on Amazon Bedrock, through Converse."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pegboard_bedrock.bedrock import Bedrock as Bedrock, BedrockLimits as BedrockLimits
    from pegboard_bedrock.model import BedrockModel as BedrockModel

_HOME = {"Bedrock": "bedrock", "BedrockLimits": "bedrock", "BedrockModel": "model"}
"""Where each name lives; it is imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("Bedrock", "BedrockLimits", "BedrockModel")


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
