"""The end of a JSON object that comes in pieces."""

from __future__ import annotations


class JsonEnd:
    """Finds the end of a JSON object that comes in pieces: counts brackets outside of texts, each character once."""

    def __init__(self) -> None:
        self._depth, self._has_begun, self._within, self._escaped = 0, False, False, False

    def reached(self, more: str) -> bool:
        """Whether the text, with what has come since it was asked last, ends where an object does."""
        for character in more:
            if self._escaped:
                self._escaped = False
            elif self._within:
                self._escaped, self._within = character == "\\", character != '"'
            elif character == '"':
                self._within = True
            elif character in "{[":
                self._depth, self._has_begun = self._depth + 1, True
            elif character in "}]":
                self._depth -= 1
        return self._has_begun and self._depth <= 0 and not self._within
