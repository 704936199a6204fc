"""Words: what an identifier and a question are made of, and how a question's words are written for FTS5.

The warm `registry search` is made of this, so it loads nothing that a bare Python hasn't loaded.
"""

from __future__ import annotations

MOST_TEXT = 2_000
"""How many characters of a question are read."""

MOST_WORDS = 24
"""How many different words of a question are looked for."""

_SENTENCE = (
    "a an and any are as at be by can do does for from have how i if in into is it its me my of on or please should "
    "so some something that the their them then there this to want was we what when where which will with would you "
    "your s t"
)
_PASSED_OVER = frozenset(_SENTENCE.split())
"""Words of an English sentence that say nothing of a tool; `s` and `t` are what an apostrophe leaves behind."""


def identifier_parts(identifiers: str) -> list[str]:
    """The parts that the spelling of identifiers sets off, in small letters: `getURLs2` gives get, urls, 2.

    What FTS5 sets off by itself (`_`, `-`, `.` and the like) parts words here too.
    """
    return [part for segment in _segments(identifiers) for part in _spelt_apart(segment)]


def with_parts(identifiers: str) -> str:
    """Identifiers as they are indexed: as they stand, and the parts that FTS5 wouldn't set off."""
    if identifiers.islower() and identifiers.replace("_", "").replace(" ", "").isalpha():
        return identifiers
    apart = (parts for segment in _segments(identifiers) if len(parts := _spelt_apart(segment)) > 1)
    return " ".join((identifiers, *(part for parts in apart for part in parts)))


def spaced(text: str) -> str:
    """A text as it is indexed: Chinese and Japanese characters stand alone, as nothing parts their words."""
    if text.isascii():
        return text
    return "".join(f" {character} " if _is_ideograph(character) else character for character in text)


def question_words(text: str) -> list[str]:
    """The words that a question asks for, in small letters, each once, at most 24.

    English words that say nothing are passed over, unless there are no others.
    """
    words: dict[str, None] = {}
    for run in [run for segment in _segments(text[:MOST_TEXT]) for run in _runs(segment)]:
        parts = _spelt_apart(run)
        words.update(dict.fromkeys([run.lower(), *(parts if len(parts) > 1 else ())]))
    telling = [word for word in words if word not in _PASSED_OVER]
    return (telling or list(words))[:MOST_WORDS]


def question_names(text: str) -> list[str]:
    """What may be a tool's name in a question: the whole of it, and each word that is made of several."""
    text = text[:MOST_TEXT]
    words = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else " " for c in text).split()
    names = [word for word in words if word == text.strip() or len(identifier_parts(word)) > 1]
    return list(dict.fromkeys(names))[:MOST_WORDS]


def expression(word: str) -> str:
    """A word of `question_words` in FTS5's query language: what begins with its stem; a single character as it is.

    The words hold no ASCII but letters and digits, so nothing in them is syntax.
    """
    if _is_ideograph(word[0]):
        pairs = [f"{word[at]} {word[at + 1]}" for at in range(len(word) - 1)] or [word]
        return " OR ".join([f'"{pair}"' for pair in pairs])
    stem = _stem(word) if word.isascii() else word
    return f'"{stem}"*' if len(word) > 1 else f'"{stem}"'


def _runs(word: str) -> list[str]:
    """The word parted where ideographs begin and end."""
    if word.isascii():
        return [word]
    starts = [at for at in range(1, len(word)) if _is_ideograph(word[at]) is not _is_ideograph(word[at - 1])]
    return _parted(word, starts)


def _is_ideograph(character: str) -> bool:
    """Whether it is a Chinese character or Japanese kana; Korean words have spaces between them."""
    return "\u3040" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff" or character >= "\U00020000"


def _stem(word: str) -> str:
    """The word without an English ending, where enough is left: `searching`, `searches` and `search` find the same."""
    for ending, replaced, least in _ENDINGS:
        if word.endswith(ending) and len(word) - replaced >= least:
            return word[: len(word) - replaced]
    return word


_ENDINGS = (
    ("ss", 0, 0),
    ("ies", 3, 3),
    ("ches", 2, 3),
    ("shes", 2, 3),
    ("sses", 2, 3),
    ("xes", 2, 3),
    ("s", 1, 3),
    ("ing", 3, 4),
)
"""An ending, how much of it goes, and how much must stay."""


def _segments(text: str) -> list[str]:
    """Runs of letters and digits; beyond ASCII of whatever shows, as FTS5 knows better what belongs to a word."""
    if text.isascii():
        return text.translate(_SEPARATORS).split()
    return "".join(c if c.isalnum() or (c > "\x7f" and c.isprintable()) else " " for c in text).split()


_SEPARATORS = {code: " " for code in range(128) if not chr(code).isalnum()}


def _spelt_apart(segment: str) -> list[str]:
    """A segment parted at capitals and between letters and digits, in small letters."""
    if segment.isdigit() or (segment.islower() and segment.isalpha()):
        return [segment]
    starts = [at for at in range(1, len(segment)) if _begins(segment, at)]
    return [part.lower() for part in _parted(segment, starts)]


def _parted(word: str, starts: list[int]) -> list[str]:
    return [word[start:end] for start, end in zip([0, *starts], [*starts, len(word)], strict=True)]


def _begins(segment: str, at: int) -> bool:
    """Whether a part begins there: `getURLs` is get and URLs, `HTTPServer` HTTP and Server, `v2` v and 2."""
    before, here = segment[at - 1], segment[at]
    if before.isdigit() is not here.isdigit():
        return True
    if not here.isupper():
        return False
    after = segment[at + 1 : at + 2]
    return not before.isupper() or (after.islower() and segment[at + 2 : at + 3].islower())
