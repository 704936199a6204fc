"""`Settings`: what `[plugins.files]` in a pegboard.toml may say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from attrs import fields_dict, frozen

from pegboard_files.name import near_misses


@frozen(kw_only=True)
class Settings:
    """How the file tools work.

    Attributes:
        root: The folder that can't be left, `~` allowed; `None` is the working directory at the time of a call.
        hidden: Whether hidden files are always listed and searched, not only when a call asks for it.
        no_ignore: Whether ignored files are always listed and searched, not only when a call asks for it.
        time_limit: Seconds after which a call stops and says what it has.
    """

    root: str | None = None
    hidden: bool = False
    no_ignore: bool = False
    time_limit: float = 30.0


def settings_from(table: Mapping[str, Any]) -> Settings:
    """Reads the plugin's settings.

    Raises:
        ValueError: A key is unknown, or a value isn't what it has to be; the text names key and value.
    """
    known = list(fields_dict(Settings))
    for key in table:
        if key not in known:
            near = near_misses(key, known)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(known)}."
            raise ValueError(f"plugins.files.{key}: there is no such setting. {hint}")
    for key, wanted, fits in _CHECKS:
        if key in table and not fits(table[key]):
            raise ValueError(f"plugins.files.{key}: {table[key]!r} is not {wanted}.")
    return Settings(**table)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and "\0" not in value


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


_CHECKS: Final = (
    ("root", "the path of a folder", _is_path),
    ("hidden", "true or false", _is_flag),
    ("no_ignore", "true or false", _is_flag),
    ("time_limit", "a number of seconds above 0", _is_time),
)
