"""`JsonEnd`: whether a text that comes in pieces is a whole JSON object by now."""

from __future__ import annotations

from attrs import define


@define
class JsonEnd:
    """Counts brackets outside of texts; looks at each character once.

    Attributes:
        depth: Brackets that are open.
        begun: Whether there was one.
    """

    depth: int = 0
    begun: bool = False
    _within: bool = False
    _escaped: bool = False

    def reached(self, more: str) -> bool:
        """Whether the text, with what has come since it was asked last, ends where an object does."""
        for character in more:
            if self._within:
                self._in_text(character)
            elif character == '"':
                self._within = True
            elif character in "{[":
                self.depth, self.begun = self.depth + 1, True
            elif character in "}]":
                self.depth -= 1
        return self.begun and self.depth <= 0 and not self._within

    def _in_text(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            self._within = False


__all__ = ["JsonEnd"]
