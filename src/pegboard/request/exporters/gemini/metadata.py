"""What Gemini's parts carry beside what they say: signatures and the like, kept whole and given back unchanged."""

from __future__ import annotations

import base64
from typing import Any, Final

from pegboard.request.exporters.calls.made_calls import ORIGINAL
from pegboard.request.exporters.gemini.limits import FAMILY
from pegboard.request.exporters.untrusted import as_object, object_or_none, own
from pegboard.typing import JsonMapping, JsonObject

DATA: Final = (
    "text",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
"""What a part may say; it says one of these."""

_OURS: Final = frozenset({ORIGINAL, "thought"})


def kept(part: JsonMapping, **more: Any) -> JsonObject:
    """What a part carries beside what it says, as metadata of the provider's."""
    beside = {key: written(value) for key, value in part.items() if key not in DATA and value is not None}
    return {FAMILY: {**beside, **more}}


def is_own(metadata: object) -> bool:
    """Whether Gemini made the part: it may have nothing that Gemini wants to have back."""
    return object_or_none(as_object(metadata).get(FAMILY)) is not None


def beside(metadata: object) -> JsonObject:
    """What stands in a part beside what it says."""
    return {key: value for key, value in own(metadata, FAMILY).items() if key not in _OURS and key not in DATA}


def written(value: Any) -> Any:
    """As JSON has it: an SDK's own models hold a signature as bytes."""
    return base64.urlsafe_b64encode(value).decode() if isinstance(value, bytes) else value


__all__ = ["DATA", "beside", "is_own", "kept", "written"]
