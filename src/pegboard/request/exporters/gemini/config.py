"""How a model shall answer, and what it may call, in Gemini's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pegboard.request.exporter import ExportedTools
from pegboard.request.exporters.choices import check_choice
from pegboard.request.exporters.gemini.limits import GeminiLimits
from pegboard.request.exporters.gemini.tools import FUNCTIONS
from pegboard.request.model_config import ModelConfig
from pegboard.request.tool_choice import NamedTool, ToolChoice
from pegboard.typing import JsonObject

_PLAIN: Final = (
    ("max_output_tokens", "maxOutputTokens"),
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("seed", "seed"),
)
_BUDGETS: Final = {"none": 0, "low": 1024, "medium": 8192, "high": 24576}
"""Tokens that models before Gemini 3 may think, which know no levels."""
_LEVELS: Final = {"none": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}


def generation_config(config: ModelConfig, model: str | None, limits: GeminiLimits) -> JsonObject:
    """`generationConfig`; empty where nothing is asked."""
    said: JsonObject = {wire: value for name, wire in _PLAIN if (value := getattr(config, name)) is not None}
    if config.stop:
        said["stopSequences"] = list(config.stop)
    if config.reasoning is not None:
        said["thinkingConfig"] = _thinking(config.reasoning, dated=limits.is_dated(model))
    return said


def _thinking(reasoning: str, *, dated: bool) -> JsonObject:
    amount: JsonObject = {"thinkingBudget": _BUDGETS[reasoning]} if dated else {"thinkingLevel": _LEVELS[reasoning]}
    return amount if reasoning == "none" else {**amount, "includeThoughts": True}


def tool_config(choice: ToolChoice, exported: ExportedTools, *, strict: bool | None, exporter: str) -> JsonObject:
    """`toolConfig`; empty where the provider's own behaviour is what is asked.

    Strictness is one of the modes: `VALIDATED` holds the model's calls to the schemas.

    Args:
        choice: Whether the model may, must or must not call.
        exported: The tools in the request.
        strict: Whether the provider shall hold calls to the schemas.
        exporter: For errors.

    Raises:
        ExportError: A tool must be called that isn't among the functions, or any, where there is none.
    """
    functions = [function["name"] for entry in exported.entries for function in entry.get(FUNCTIONS, ())]
    said: JsonObject = {}
    check_choice(choice, functions, exporter)
    calling = _calling(choice, functions, strict=bool(strict))
    if calling:
        said["functionCallingConfig"] = calling
    if functions and len(exported.entries) > 1:
        # Gemini takes native tools beside functions only where it may tell of its own calls.
        said["includeServerSideToolInvocations"] = True
    return said


def _calling(choice: ToolChoice, functions: Sequence[str], *, strict: bool) -> JsonObject:
    if isinstance(choice, NamedTool):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    if choice == "required":
        return {"mode": "ANY"}
    if not functions:
        return {}
    if choice == "none":
        return {"mode": "NONE"}
    return {"mode": "VALIDATED"} if strict else {}


__all__ = ["generation_config", "tool_config"]
