"""Incremental detection of the end of a JSON object."""

from __future__ import annotations


class JsonEnd:
    """Incremental scanner for the end of a streamed JSON object: counts brackets outside of strings."""

    def __init__(self) -> None:
        self._depth, self._has_begun, self._within, self._escaped = 0, False, False, False

    def reached(self, more: str) -> bool:
        """Scans more text; returns whether the object is complete."""
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
