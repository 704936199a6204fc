"""`AnthropicLimits`: what the provider takes, as far as that is a number or a list; a host may know better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen

from pegboard.request.exporters.alternating.strict_budget import STRICT_LIMITS, StrictLimits
from pegboard.typing import JsonMapping

FAMILY: Final = "anthropic"
"""What the provider is called in options, in metadata, and before the dot of a `provider_id`."""

IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def _effort(word: str) -> JsonMapping:
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": word}}


REASONING: Final[Mapping[str, JsonMapping]] = {
    "none": {"thinking": {"type": "disabled"}},
    "low": _effort("low"),
    "medium": _effort("medium"),
    "high": _effort("high"),
}
"""For models that think as much as they find right. Older ones want a budget instead: `thinking_budgets`."""


def thinking_budgets(low: int = 1_024, medium: int = 4_096, high: int = 16_384) -> Mapping[str, JsonMapping]:
    """`AnthropicLimits.reasoning` for models that take a budget of tokens, which comes out of `max_tokens`."""
    budgets = {"low": low, "medium": medium, "high": high}
    words = {word: {"thinking": {"type": "enabled", "budget_tokens": most}} for word, most in budgets.items()}
    return {"none": REASONING["none"], **words}


@frozen(kw_only=True)
class AnthropicLimits:
    """What the provider takes; known from the types of its SDK, its pages and its error reports.

    Attributes:
        name: What a tool's name has to match, as a regular expression.
        max_tokens: How long an answer may be where a request says nothing of it: the API wants a number.
        strict: How much of a request may be held to schemas.
        reasoning: What a request's body holds for each word of `ModelConfig.reasoning`.
        sampling: Whether `temperature` and `top_p` are said: older models take them, the SDK's `create` no longer does.
        images: Media types of pictures.
        call_id: Characters of a call's id.
        argument_text: Characters of one call's arguments that are read of a stream; a call with more is invalid.
        answer_text: Characters of all that is read of a stream; an answer with more isn't complete.
    """

    name: str = "[A-Za-z0-9_-]{1,64}"
    max_tokens: int = 8_192
    strict: StrictLimits = STRICT_LIMITS
    reasoning: Mapping[str, JsonMapping] = field(default=REASONING, repr=False)
    sampling: bool = False
    images: frozenset[str] = field(default=IMAGES, converter=frozenset)
    call_id: int = 64
    argument_text: int = 1 << 20
    answer_text: int = 16 << 20


DEFAULT_LIMITS: Final = AnthropicLimits()

__all__ = ["DEFAULT_LIMITS", "FAMILY", "IMAGES", "REASONING", "AnthropicLimits", "thinking_budgets"]
