"""Why a tool is in or out: `Reason` and `Explanation`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from pegboard.errors import did_you_mean

Verdict: TypeAlias = Literal["in", "out"]


@frozen
class Reason:
    """What one step of a resolution said to one tool.

    Attributes:
        step: `"offered"`, `"name"`, `"default"`, `"where"`, `"active"`, `"order"`; what a toolset's wrapper does, such
            as `"filtered"`; or what left it out while a request was made ready, such as `"budget"` or `"pack"`.
        verdict: `"in"`: the tool goes on; `"out"`: that tool isn't offered.
        text: Why, for people.
    """

    step: str
    verdict: Verdict
    text: str

    def __str__(self) -> str:
        return f"{'+' if self.verdict == 'in' else '-'} {self.step}: {self.text}"


@frozen
class Explanation:
    """Why the tool of a name is in or out, step by step.

    Attributes:
        name: The name that was asked for.
        offered: Whether the resolution offers a tool of that name.
        reasons: What each step said, in order; empty where nothing has a tool of that name.
        near: Up to three near misses, where nothing has.
        notes: Toolsets that failed, and might have had it; where it isn't offered.
    """

    name: str
    offered: bool
    reasons: tuple[Reason, ...]
    near: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.reasons:
            head = f"{self.name}: {'offered' if self.offered else 'not offered'}"
        else:
            head = f"{self.name}: nothing brings a tool of this name.{did_you_mean(self.near)}"
        return "\n  ".join([head, *map(str, self.reasons), *(f"note: {note}" for note in self.notes)])
