"""`ModelConfig`: how a model shall answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from attrs import field, frozen

from pegboard.typing import JsonMapping

_NOTHING: Final[Mapping[str, Any]] = {}


def _as_texts(given: Iterable[str] | str) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


@frozen(kw_only=True)
class ModelConfig:
    """How a model shall answer; `None` leaves it to the provider.

    Attributes:
        max_output_tokens: How long the answer may be.
        temperature: How much chance there is in it.
        top_p: How much of the probable it is chosen from.
        stop: Texts at which it ends; one may be given as it is.
        seed: Where its chance starts.
        parallel_calls: Whether one answer may hold several calls.
        reasoning: How much it shall think: `"none"`, `"low"`, `"medium"`, `"high"`.
        strict: Whether the provider holds calls to their schemas, for tools that say nothing of it themselves.
        provider_options: By provider, what its API takes beside; put into the request's body as it is.
    """

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = field(default=(), converter=_as_texts)
    seed: int | None = None
    parallel_calls: bool | None = None
    reasoning: Literal["none", "low", "medium", "high"] | None = None
    strict: bool | None = None
    provider_options: JsonMapping = field(default=_NOTHING, repr=False)


DEFAULT_CONFIG: Final = ModelConfig()

__all__ = ["DEFAULT_CONFIG", "ModelConfig"]
