"""`sdk_arguments`: a request's body as `google-genai` takes it."""

from __future__ import annotations

from typing import Any

from pegboard.typing import JsonMapping, JsonObject


def sdk_arguments(body: JsonMapping) -> JsonObject:
    """The keywords of `client.aio.models.generate_content` and `generate_content_stream`.

    The SDK has all but model and contents in one `config`, the members of `generationConfig` at its top. Its own
    calling of functions is turned off: here, calls are run by the board.

    Args:
        body: What `Gemini.request` gave; left as it is.

    Returns:
        `{"model", "contents", "config"}`; `model` only where the body has one.
    """
    config: dict[str, Any] = {"automaticFunctionCalling": {"disable": True}}
    arguments: JsonObject = {}
    for key, value in body.items():
        if key in ("model", "contents"):
            arguments[key] = value
        elif key == "generationConfig":
            config.update(value)
        else:
            config[key] = value
    return {**arguments, "config": config}


__all__ = ["sdk_arguments"]
