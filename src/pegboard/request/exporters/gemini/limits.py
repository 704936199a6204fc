"""`GeminiLimits`: what the provider takes, as far as that is a number or a list; a host may know better."""

from __future__ import annotations

import re
from typing import Final

from attrs import field, frozen

FAMILY: Final = "gemini"
"""What both exporters call their provider in metadata, so that either gives back what the other has read."""

OPTION_KEYS: Final = ("google", "gemini")
"""What the provider is called in options, the later over the earlier, and before the dot of a `provider_id`."""

UNVALIDATED: Final = "skip_thought_signature_validator"
"""The signature that Gemini 3 takes on calls that it hasn't made itself (Gemini API: thought signatures)."""


@frozen
class GeminiLimits:
    """What the provider takes.

    Attributes:
        name: What a function's name has to match, as a regular expression.
        functions: How many functions one request may declare.
        result_media: Kinds of media that a function's result may hold, the first part of their type
            (`"image"`) or all of it.
        unvalidated: The signature for the first call of an answer that another provider gave; `None` to send none.
            Not sent to models before Gemini 3, which take no signature but their own.
        dated: How the names of models begin that take a thinking budget instead of a level, and no signatures of
            others.
    """

    name: str = "[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
    functions: int = 512
    result_media: frozenset[str] = field(
        default=frozenset({"image", "audio", "video", "application/pdf"}), converter=frozenset
    )
    unvalidated: str | None = UNVALIDATED
    dated: tuple[str, ...] = ("gemini-1", "gemini-2")

    def takes_name(self, name: str) -> bool:
        """Whether a function may be called so."""
        return re.fullmatch(self.name, name, re.ASCII) is not None

    def takes_in_results(self, mime_type: str) -> bool:
        """Whether a function's result may hold media of this type."""
        return mime_type in self.result_media or mime_type.partition("/")[0] in self.result_media

    def is_dated(self, model: str | None) -> bool:
        """Whether this is a model of before Gemini 3."""
        return model is not None and model.rpartition("/")[2].startswith(self.dated)


DEFAULT_LIMITS: Final = GeminiLimits()

__all__ = ["DEFAULT_LIMITS", "FAMILY", "OPTION_KEYS", "UNVALIDATED", "GeminiLimits"]
