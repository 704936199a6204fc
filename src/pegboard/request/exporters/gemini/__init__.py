"""Gemini: `generateContent` of the Gemini API and of Vertex AI, in the camel-case form of the wire.

`exporter` has the two faces (`Gemini`, `GeminiSchema`), `sdk` what `google-genai` takes instead of a body. Each other
module is one noun of the wire: tools out, contents out, answers in, chunks of a stream.
"""

from __future__ import annotations

from pegboard.request.exporters.gemini.exporter import Gemini, GeminiSchema
from pegboard.request.exporters.gemini.limits import GeminiLimits

__all__ = ["Gemini", "GeminiLimits", "GeminiSchema"]
