"""`GuardSettings`: what `[plugins.guard]` in `pegboard.toml` may say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import field, frozen

from pegboard.errors import did_you_mean, suggest


def _check_doom_loop(_settings: object, _attribute: object, value: object) -> None:
    if type(value) is not int or value < 0 or value == 1:
        raise ValueError(f"doom_loop must be 0 (off) or a whole number from 2 on, got {value!r}")


def _check_log_arguments(_settings: object, _attribute: object, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"log_arguments must be true or false, got {value!r}")


@frozen
class GuardSettings:
    """The settings of one registry's guard.

    Attributes:
        doom_loop: From which call on, counted in a row, calls of one tool with the same arguments are denied: with 3,
            two run and the third doesn't. 0 is off.
        log_arguments: Whether the arguments are logged; they may hold secrets.
    """

    doom_loop: int = field(default=3, validator=_check_doom_loop)
    log_arguments: bool = field(default=False, validator=_check_log_arguments)

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> GuardSettings:
        """Reads the plugin's table.

        Raises:
            ValueError: An unknown key, or a value that isn't allowed.
            TypeError: A value of another type.
        """
        known = [attribute.name for attribute in attrs.fields(cls)]
        for key in settings:
            if key not in known:
                near = did_you_mean(suggest(key, known))
                raise ValueError(f"there is no setting {key!r}.{near} There are {', '.join(known)}")
        return cls(**settings)
