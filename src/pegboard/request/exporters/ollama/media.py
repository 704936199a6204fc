"""Pictures that a model made."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from pegboard.tools.content import ImageContent

_KINDS = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"))


def image_of(raw: Any) -> ImageContent | None:
    """A picture from base64; its kind is told by its first bytes, as Ollama doesn't say it. `None` of anything else."""
    if not isinstance(raw, str):
        return None
    try:
        data = base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        return None
    return ImageContent(data, next((kind for start, kind in _KINDS if data.startswith(start)), "image/png"))


__all__ = ["image_of"]
