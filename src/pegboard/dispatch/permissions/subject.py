"""`Subject`: one thing that a call touches."""

from __future__ import annotations

import os

import attrs
from attrs import frozen

from pegboard.dispatch.permissions.match import Part, Text, Unreadable
from pegboard.tools.spec import ArgumentKind


@frozen
class Subject:
    """One thing that a call touches, usually the value of an argument.

    Attributes:
        kind: How it is read, where a rule says nothing else.
        value: `None`: it isn't there, or it is nothing that could be read so. Then deny applies and allow doesn't.
        field: The argument's name, or `None`.
        declared: Whether the tool says that rules shall look at it. What isn't declared counts only for rules that
            name its field, and says nothing by itself.
    """

    kind: ArgumentKind
    value: str | None
    field: str | None = None
    declared: bool = attrs.field(default=True, kw_only=True)

    def parts(self, kind: ArgumentKind, folder: str) -> tuple[Part, ...]:
        """What is decided by itself.

        Args:
            kind: How the value is read.
            folder: Where relative paths start, absolute.
        """
        if not self.value:
            return (Unreadable(),)
        if kind == "text":
            return (Text(self.value),)
        if kind == "command":
            from pegboard.dispatch.permissions.command import command_parts

            return command_parts(self.value)
        if kind == "url":
            from pegboard.dispatch.permissions.url import url_parts

            return url_parts(self.value)
        from pegboard.dispatch.permissions.path import path_parts

        return path_parts(self.value, folder)


def folder_of(work_dir: str | None) -> str:
    """The absolute folder that relative paths start from; the process's own for `None`."""
    return os.path.abspath(work_dir or ".")  # noqa: PTH100  (links in it are followed with the rest of each path)


__all__ = ["Subject", "folder_of"]
