"""JSON laid out for people, without reading it into values: the warm command has no `json`."""

from __future__ import annotations


def indented(text: str) -> str:
    """Compact JSON text, laid out as `json.dumps(..., indent=2)` does.

    Args:
        text: JSON without spaces between values.

    Returns:
        The same value on several lines, without a line end at the end.
    """
    parts: list[str] = []
    depth = position = 0
    while position < len(text):
        character = text[position]
        if character == '"':
            end = _string_end(text, position)
            parts.append(text[position:end])
            position = end
            continue
        if character in "[{":
            empty = text[position + 1] in "]}"
            depth += not empty
            parts.append(text[position : position + 2] if empty else character + _line(depth))
            position += empty
        elif character in "]}":
            depth -= 1
            parts.append(_line(depth) + character)
        else:
            parts.append({",": "," + _line(depth), ":": ": "}.get(character, character))
        position += 1
    return "".join(parts)


def _line(depth: int) -> str:
    return "\n" + "  " * depth


def _string_end(text: str, start: int) -> int:
    """Behind the quote that closes the string: the first that an even number of backslashes precedes."""
    end = start
    while True:
        end = text.index('"', end + 1)
        before = end
        while text[before - 1] == "\\":
            before -= 1
        if (end - before) % 2 == 0:
            return end + 1
