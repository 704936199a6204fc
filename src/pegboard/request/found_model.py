"""`found_model`: the model of a name, from a provider that a plugin or the host has brought."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from pegboard.errors import ModelError, did_you_mean, suggest
from pegboard.request.model import Model


def found_model(
    name: str, registered: Callable[[], Mapping[str, Any]], wake: Callable[[], None], options: Mapping[str, Any]
) -> Model:
    """The model of this name.

    Args:
        name: `"PROVIDER/MODEL"`, such as `"openai/gpt-5"`.
        registered: Gives what has been registered by now: provider -> what makes its clients.
        wake: Has those register that haven't yet; called where no other has the name.
        options: For what makes the client.

    Raises:
        ModelError: There is no such provider, with near misses; or its client can't be made.
    """
    provider, _, model = name.partition("/")
    if provider not in registered():
        wake()
    known = registered()
    if provider not in known or not model:
        raise _unknown(name, provider, known)
    try:
        made = known[provider](model, **options)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"no client for {name!r}: {type(error).__name__}: {error}", provider=provider) from error
    if not all(hasattr(made, part) for part in ("name", "provider", "respond")):
        raise ModelError(f"what it makes is no model, but {made!r:.100}", provider=provider)
    return cast("Model", made)


def _unknown(name: str, provider: str, known: Mapping[str, Any]) -> ModelError:
    if provider in known:
        return ModelError(f"{name!r} names no model; write {provider}/MODEL", provider=provider)
    there_are = f"There are {', '.join(sorted(known))}" if known else "Nobody has brought any"
    near = did_you_mean(suggest(provider, known))
    wanted = f"{name!r} must be PROVIDER/MODEL, and nobody provides {provider!r}."
    return ModelError(f"{wanted}{near} {there_are}; packages such as pegboard-openai and pegboard-anthropic bring some")


__all__ = ["found_model"]
