"""Where a text may be cut without tearing what a reader sees as one character."""

from __future__ import annotations

from typing import Final

_FURTHEST: Final = 64
"""Code points that are looked at; a longer pile of marks is torn."""

_JOINER: Final = "\u200d"
_LINE_ENDS: Final = "\r\n"


def boundary_before(text: str, place: int) -> int:
    """The nearest place at or before `place` where a character begins or ends.

    It knows marks, joiners, variation selectors, skin tones, flags, Hangul and the end of a line in two characters:
    what matters of the extended grapheme clusters of Unicode (UAX 29).
    """
    nearest = place
    while 0 < nearest < len(text) and place - nearest < _FURTHEST:
        if not _is_inside(text, nearest):
            return nearest
        nearest -= 1
    return place if nearest else 0


def boundary_after(text: str, place: int) -> int:
    """The nearest place at or after `place` where a character begins or ends."""
    nearest = place
    while 0 < nearest < len(text) and nearest - place < _FURTHEST:
        if not _is_inside(text, nearest):
            return nearest
        nearest += 1
    return nearest if nearest == len(text) else place


def _is_inside(text: str, place: int) -> bool:
    """Whether a cut here would tear a character."""
    before, behind = text[place - 1], text[place]
    if before < "\u0300" and behind < "\u0300":
        return before == "\r" and behind == "\n"
    if before in _LINE_ENDS:
        return False  # nothing belongs to the end of a line
    if _extends(behind) or before == _JOINER:
        return True
    if _is_flag_letter(before) and _is_flag_letter(behind):
        return _flag_letters_before(text, place) % 2 == 1
    return _is_hangul_part(behind) and (_is_hangul_part(before) or "\uac00" <= before <= "\ud7a3")


def _extends(character: str) -> bool:
    """Whether it belongs to the character before it."""
    import unicodedata

    tone, tag = "\U0001f3fb" <= character <= "\U0001f3ff", "\U000e0020" <= character <= "\U000e007f"
    return character == _JOINER or tone or tag or unicodedata.category(character) in ("Mn", "Me", "Mc")


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_letters_before(text: str, place: int) -> int:
    first = place
    while first > max(0, place - _FURTHEST) and _is_flag_letter(text[first - 1]):
        first -= 1
    return place - first


def _is_hangul_part(character: str) -> bool:
    return "\u1100" <= character <= "\u11ff"


__all__ = ["boundary_after", "boundary_before"]
