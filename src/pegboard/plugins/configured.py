"""The executors of the configuration: made by what is registered under their kind, with their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from inspect import signature
from pkgutil import resolve_name
from typing import Any

from pegboard.config import OF_EXECUTORS, Config, with_secrets, without_secrets
from pegboard.contributions import ExecutorSetup, is_factory
from pegboard.errors import ConfigError, cause_of, near_or_known
from pegboard.plugins.plugin import shows


def executor_setups(config: Config) -> Mapping[str, ExecutorSetup]:
    """The executors of `[executors.NAME]`, by name; nothing is made or imported yet."""
    named = config.executors.items()
    return {name: ExecutorSetup(table.get("kind", name), partial(_make, name, table)) for name, table in named}


def _make(name: str, table: Mapping[str, Any], source: Any) -> Any:
    """The executor of a table of the configuration, by a factory; an executor itself takes no settings.

    Raises `ConfigError` for wrong settings, and what the factory raised, without secrets.
    """
    settings = {key: value for key, value in table.items() if key not in OF_EXECUTORS}
    missing, secrets = list[str](), list[str]()
    resolved = with_secrets(settings, missing, secrets)
    if missing:
        raise _wrong(missing[0], name)
    if "codec" in table:
        resolved["codec"] = _codec(table["codec"], name)
    if not is_factory(source):
        for key in resolved:
            raise _wrong("the executor is registered as it is, and takes no settings", name, key)
        return source
    _check_keys(source, resolved, name)
    secrets += _find_hidden(settings, without_secrets(settings))
    try:
        return source(**resolved)
    except Exception as error:
        if not shows(error, secrets):
            raise
        raise RuntimeError(cause_of(error, secrets)) from None


def _codec(place: str, name: str) -> Any:
    """The codec of `"module:name"`, or what a class or function of that name makes."""
    try:
        found = resolve_name(place)
        codec = found() if isinstance(found, type) or not hasattr(found, "encode") else found
    except Exception as error:
        raise _wrong(f"{place!r} can't be loaded: {cause_of(error)}", name, "codec") from error
    if not all(callable(getattr(codec, method, None)) for method in ("encode", "decode")):
        raise _wrong(f"{place!r} isn't a codec: it has no methods encode and decode", name, "codec")
    return codec


def _find_hidden(value: Any, shown: Any) -> Iterator[str]:
    """The texts in settings that are secrets, by what `without_secrets` shows of them."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            yield from _find_hidden(value[key], shown[key])
    elif isinstance(value, str) and value != shown:
        yield value


def _check_keys(factory: Any, settings: Mapping[str, Any], name: str) -> None:
    """Refuses settings that a factory has no parameters for."""
    takes = signature(factory).parameters.values() if settings else ()
    known = [each.name for each in takes if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
    for key in settings.keys() - known:
        if not any(each.kind is each.VAR_KEYWORD for each in takes):
            cause = f"unknown setting.{near_or_known(key, known)}"
            raise _wrong(cause if key != "codec" else "this kind can't encrypt what it sends", name, key)


def _wrong(cause: str, *place: str) -> ConfigError:
    return ConfigError(cause, file="pegboard.toml", key=".".join(("executors", *place)))
