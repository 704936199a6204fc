"""`RenamedToolset`: some tools under other names."""

from __future__ import annotations

from collections.abc import Mapping

from pegboard.errors import RegistrationError
from pegboard.tools.name import check_name
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import ChangedToolset, Step


class RenamedToolset(ChangedToolset):
    """Some tools under other names; calls reach the inner toolset under the names that it knows.

    Where a new name is taken by a tool that keeps its own, the tool that the inner toolset lists first has it.

    Args:
        inner: Any toolset.
        names: Old name -> new name. A name that isn't offered now renames nothing; one that was
            never there is noted among the problems.

    Raises:
        InvalidNameError: A new name isn't valid.
        RegistrationError: Two tools would get the same name.
    """

    def __init__(self, inner: Toolset, names: Mapping[str, str]) -> None:
        names = dict(names)
        for old, new in names.items():
            first = next(other for other in names if names[other] == check_name(new))
            if first != old:
                raise RegistrationError(f"{first!r} and {old!r} can't both be renamed to {new!r}: choose another name")

        def rename(name: str) -> str:
            return names.get(name, name)

        step = Step(
            "renamed",
            lambda tool: tool.with_spec(name=names[tool.name]) if tool.name in names else tool,
            rename=rename,
            speaks_of=names,
        )
        super().__init__(inner, step)
