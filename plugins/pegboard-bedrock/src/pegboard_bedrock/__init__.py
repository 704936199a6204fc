"""pegboard-bedrock: models on Amazon Bedrock, through Converse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_bedrock._bedrock import BedrockLimits as BedrockLimits
    from pegboard_bedrock.bedrock import Bedrock as Bedrock
    from pegboard_bedrock.client import BedrockModel as BedrockModel

_MODULES = {"Bedrock": "bedrock", "BedrockLimits": "_bedrock", "BedrockModel": "client"}
"""Name -> its module, imported at first use, so that the plugin's import brings no exporter."""

__all__ = ("Bedrock", "BedrockLimits", "BedrockModel")
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
