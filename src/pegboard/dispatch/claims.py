"""`Claims`: what a call needs for itself before it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from pegboard.schema.json import canonical_json
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool


@frozen
class Claims:
    """What a call needs for itself: everything, or a key, or one of its tool's slots.

    A call without claims is shared: it runs beside all but the exclusive ones.

    Attributes:
        exclusive: It runs alone among all.
        key: What it reads or writes, as text; `None` where it has no key.
        writes: Whether it has the key alone, else it shares it with other readers.
        slots: The tool whose slots it takes one of, and how many there are; `None` where the tool sets no limit.
    """

    exclusive: bool = False
    key: str | None = None
    writes: bool = True
    slots: tuple[str, int] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether only slots are claimed."""
        return not self.exclusive and self.key is None

    def __str__(self) -> str:
        if self.exclusive:
            return "everything"
        if self.key is not None:
            return f"{'to write' if self.writes else 'to read'} {self.key:.200}"
        return "nothing for itself" if self.slots is None else f"one of {self.slots[1]} slots of {self.slots[0]}"


ALONE: Final = Claims(exclusive=True)


def claims_of(tool: Tool, arguments: Mapping[str, Any], work_dir: str | None = None) -> Claims | None:
    """What a call of `tool` with these judged arguments claims; `None` is nothing.

    Two calls have the same key where the arguments that make it have the same names and the same JSON values,
    whichever their tools: so a reader and a writer of one path meet. An argument that is missing counts as null.

    - A text is compared as a normal path (`a/./b` is `a/b`): few tools say which texts are paths, and two keys that are
      taken for one cost no more than a wait.
    - Where the tool says so (`permission_arguments`), a relative path starts from `work_dir`. Links are not looked at.
    - A key of no arguments is the tool itself. A key that JSON can't say claims everything.

    Args:
        tool: The tool, with its policy.
        arguments: By name.
        work_dir: The folder that relative paths start from; the process's own where it is `None`.
    """
    spec, most = tool.spec, tool.policy.max_concurrency
    mode = spec.concurrency.mode
    if mode == "shared" and most is None:
        return None
    slots = None if most is None else (tool.name, most)
    key = _key(spec, arguments, work_dir) if mode == "key" else None
    if key is not None:
        return Claims(key=key, writes=spec.concurrency.access == "write", slots=slots)
    if slots is None:
        return ALONE
    return Claims(exclusive=mode != "shared", slots=slots)


def _key(spec: ToolSpec, arguments: Mapping[str, Any], work_dir: str | None) -> str | None:
    """The key as canonical JSON; `None` where JSON can't say it."""
    names = spec.concurrency.key
    if not names:
        return spec.name
    kinds = spec.permission_arguments
    try:
        return canonical_json({name: _compared(arguments.get(name), kinds.get(name), work_dir) for name in names})
    except (TypeError, ValueError, RecursionError, OSError):
        return None


def _compared(value: Any, kind: str | None, work_dir: str | None) -> Any:
    if not isinstance(value, str):
        return value
    # Texts all of them: nothing is looked up, and a `Path` would keep `a/../b` as it is.
    if kind == "path":
        value = os.path.join(work_dir or os.getcwd(), value)  # noqa: PTH109, PTH118
    return os.path.normcase(os.path.normpath(value))


__all__ = ["ALONE", "Claims", "claims_of"]
