"""`GivenIds`: the ids of an answer's calls, each another one."""

from __future__ import annotations

from typing import Final

from attrs import define, field

from pegboard.tools.call import writable

MOST: Final = 1_000
"""Characters of an id, and of a name, that are kept: providers' are shorter by far."""


@define(eq=False)
class GivenIds:
    """Gives the calls of one answer their ids: the provider's, or where it gave none or one twice, one made here.

    The same answer gives the same ids. What is made is `call_0`, `call_1` by the call's place, and `ID_2` of an id
    that is there already.
    """

    _taken: set[str] = field(factory=set[str], init=False)
    _repeated: dict[str, int] = field(factory=dict[str, int], init=False)
    _count: int = field(default=0, init=False)

    def take(self, given: object) -> tuple[str, str | None]:
        """The next call's id.

        Args:
            given: What the provider wrote, of any type.

        Returns:
            The id, and what stood on the wire where that is something else: `""` for what was no id.
        """
        own = given if isinstance(given, str) else ""
        wanted = writable(own)[:MOST] or f"call_{self._count}"
        self._count += 1
        made = wanted
        while made in self._taken:
            times = self._repeated[wanted] = self._repeated.get(wanted, 1) + 1
            made = f"{wanted}_{times}"
        self._taken.add(made)
        return made, (None if made == own else own)


__all__ = ["MOST", "GivenIds"]
