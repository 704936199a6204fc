"""`PrefixedToolset`: every name with a prefix."""

from __future__ import annotations

from pegboard.tools.name import MAX_LENGTH, check_name, mapped_name
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import ChangedToolset, Step


def _joined(prefix: str) -> str:
    return prefix if prefix.endswith(("_", "-")) else f"{prefix}_"


def prefixed_name(prefix: str, name: str) -> str:
    """`"git"` and `"push"` make `"git_push"`; a prefix that ends with `_` or `-` stands as it is.

    Where that is longer than 64 characters it is shortened, with a digest of the whole at its end.
    """
    return mapped_name(_joined(prefix) + name)


def unprefixed_name(prefix: str, name: str) -> str | None:
    """The name without the prefix; `None` where it doesn't start with it."""
    start = _joined(prefix)
    return name.removeprefix(start) if name.startswith(start) and name != start else None


class PrefixedToolset(ChangedToolset):
    """Every name with a prefix; calls reach the inner toolset under the names that it knows.

    Args:
        inner: Any toolset.
        prefix: Such as `"git"`, for `git_push`.

    Raises:
        InvalidNameError: No name can start with this prefix.
    """

    def __init__(self, inner: Toolset, prefix: str) -> None:
        check_name(prefix[:MAX_LENGTH])

        def rename(name: str) -> str:
            return prefixed_name(prefix, name)

        step = Step("prefixed", lambda tool: tool.with_spec(name=rename(tool.name)), rename=rename)
        super().__init__(inner, step)
