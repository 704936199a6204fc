"""Tools as Ollama lists them."""

from __future__ import annotations

from typing import Final

from pegboard.request.dialects.providers import OLLAMA
from pegboard.request.exporters.fitted import described, fitted
from pegboard.request.exporters.passed import passed
from pegboard.request.exporters.written import Written, refusal
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonObject

FAMILY: Final = "ollama"


def written(spec: ToolSpec, strict: bool | None) -> Written:
    """`{"type": "function", "function": {"name", "description", "parameters"}}`.

    Ollama hosts no tools and holds no calls to schemas; it takes every name that a spec can have.
    """
    if spec.kind == "provider":
        return refusal(spec, "/providerId", "providerId", f"{spec.provider_id!r} is no tool that Ollama hosts")
    schema = fitted(spec, OLLAMA, None, strict)
    if schema.refused:
        return Written(None, schema.losses)
    function: JsonObject = {
        "name": spec.name,
        "description": described(spec, examples=True, grammar=True),
        "parameters": schema.schema,
    }
    entry = {"type": "function", "function": function}
    return Written({**entry, **passed(spec.provider_options, (FAMILY,))}, schema.losses)


__all__ = ["FAMILY", "written"]
