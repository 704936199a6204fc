"""The plugin: the commands `registry chat` and `registry models`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pegboard import hookimpl
from pegboard.errors import check_keys

if TYPE_CHECKING:
    import click

_NO_SETTINGS: Final[Mapping[str, Any]] = {}


class Chat:
    """Plugin of the commands. They read the settings themselves; here those are only checked.

    Args:
        settings: `[plugins.chat]`: `model`, the default model, such as `"openai/gpt-5"`.

    Raises:
        ValueError: A setting is unknown.
        TypeError: `model` isn't a string.
    """

    def __init__(self, settings: Mapping[str, Any] = _NO_SETTINGS) -> None:
        check_keys(settings, ["model"], "plugins.chat")
        if not isinstance(settings.get("model", ""), str):
            raise TypeError(f"model must be a string such as 'openai/gpt-5', got {type(settings['model']).__name__}")

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry chat` and `registry models`."""
        from pegboard_chat.command import chat_command
        from pegboard_chat.models import models_command

        group.add_command(chat_command)
        group.add_command(models_command)
