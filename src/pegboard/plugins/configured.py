"""The executors of the configuration: made by what is registered under their kind, with their settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import signature
from typing import Any

from pegboard.config import OF_EXECUTORS, Config, with_secrets
from pegboard.contributions import ExecutorSetup, is_factory
from pegboard.errors import ConfigError, cause_of, near_or_known


def executor_setups(config: Config) -> Mapping[str, ExecutorSetup]:
    """The executors of `[executors.NAME]`, by name; nothing is made or imported yet."""
    return {
        name: ExecutorSetup(table.get("kind", name), partial(_made, name, table))
        for name, table in config.executors.items()
    }


def _made(name: str, table: Mapping[str, Any], source: Any) -> Any:
    """The executor of a table of the configuration.

    Args:
        name: Its name.
        table: The table, with references to secrets.
        source: The class or function that makes it, or an executor, which takes no settings.

    Raises:
        ConfigError: A setting is unknown, or refers to a missing secret.
        Exception: What the factory raised; a `RuntimeError` in place of one whose text shows a secret.
    """
    settings = {key: value for key, value in table.items() if key not in OF_EXECUTORS}
    missing, secrets = list[str](), list[str]()
    resolved = with_secrets(settings, missing, secrets)
    if missing:
        raise _wrong(missing[0], name)
    if not is_factory(source):
        for key in settings:
            raise _wrong("the executor is registered as it is, and takes no settings", name, key)
        return source
    _check_keys(source, settings, name)
    try:
        return source(**resolved)
    except Exception as error:
        cause = cause_of(error, secrets)
        if cause == cause_of(error):
            raise
        raise RuntimeError(cause) from None


def _check_keys(factory: Any, settings: Mapping[str, Any], name: str) -> None:
    """Refuses settings that a factory has no parameters for."""
    takes = signature(factory).parameters.values() if settings else ()
    known = [each.name for each in takes if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
    for key in settings.keys() - known:
        if not any(each.kind is each.VAR_KEYWORD for each in takes):
            raise _wrong(f"unknown setting.{near_or_known(key, known)}", name, key)


def _wrong(cause: str, *place: str) -> ConfigError:
    return ConfigError(cause, file="pegboard.toml", key=".".join(("executors", *place)))
