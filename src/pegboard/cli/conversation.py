"""The file in which `registry chat` keeps a conversation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pegboard.messages.message import Message

MOST_BYTES: Final = 100_000_000
FORMAT: Final = 1


def read_conversation(file: str) -> tuple[Message, ...]:
    """The messages that a file holds; none where there is no such file yet.

    Raises:
        click.UsageError: It can't be read, or holds no conversation.
    """
    from pegboard.messages.message import Message

    path = Path(file)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise click.UsageError(f"{file} has more than {MOST_BYTES:,} bytes")
        data: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise click.UsageError(f"{file} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file} holds no JSON: {error}") from None
    facts = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    listed: object = facts.get("messages") if facts.get("format") == FORMAT else None
    if not isinstance(listed, list):
        raise click.UsageError(f"{file} holds no conversation that this pegboard has written")
    try:
        return tuple(Message.from_json(each) for each in cast("list[object]", listed))
    except ValueError as error:
        raise click.UsageError(f"{file} holds no conversation: {error}") from None


def check_place(file: str) -> None:
    """Looks whether the conversation can be kept there, before anything is asked.

    Raises:
        click.UsageError: Nothing can be written there.
    """
    import os

    folder = Path(file).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise click.UsageError(f"{file} can't be written: {folder} is no folder that may be written to")


def write_conversation(file: str, messages: Sequence[Message]) -> None:
    """Puts the conversation into the file, all of it or nothing; only its owner can read it.

    Raises:
        click.ClickException: It can't be written.
    """
    import os
    import tempfile

    text = json.dumps({"format": FORMAT, "messages": [each.to_json() for each in messages]})
    path = Path(file)
    try:
        descriptor, new = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(new).replace(path)
        except OSError:
            Path(new).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise click.ClickException(f"{file} can't be written: {error.strerror}") from None


__all__ = ["check_place", "read_conversation", "write_conversation"]
