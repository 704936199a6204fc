"""Descriptions in docstrings of functions and classes, in Google, NumPy or Sphinx style."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Final

from attrs import field

from pegboard.typing import frozen

_KINDS: Final[Mapping[str, str]] = {  # of the sections that aren't a part of the description
    **dict.fromkeys(("Args", "Arguments", "Attributes", "Keyword Args", "Keyword Arguments"), "parameters"),
    **dict.fromkeys(("Other Parameters", "Parameters", "Params"), "parameters"),
    **dict.fromkeys(("Return", "Returns", "Yield", "Yields"), "returns"),
    **dict.fromkeys(("Example", "Examples", "Except", "Exceptions", "Raises"), "others"),
}
_GOOGLE: Final[Mapping[str, str]] = {f"{title}:": kind for title, kind in _KINDS.items()}
_DASHES: Final = re.compile(r"-{3,}\s*")
_SPHINX: Final = re.compile(
    r"""
    :(?: (?P<parameters>param(?:eter)?|arg(?:ument)?|key(?:word)?|attribute|[ic]?var)
       | (?P<returns>returns?|yields?) | r?type | raises? | except(?:ion)? )
    \b (?:[^:\n]*?[\s*\\])?? (?P<names>\w+)? \s* : \s* (?P<text>.*)
""",
    re.VERBOSE,
)
_NAMES: Final = r"(?P<names>(?:[*`\\]*[^\W\d]\w*[*`]*)(?:\s*,\s*[*`\\]*[^\W\d]\w*[*`]*)*)"
_GOOGLE_ENTRY: Final = re.compile(rf"{_NAMES}\s*(?:[(\[].*?[)\]])?\s*:(?![:/])\s*(?P<text>.*)")
_NUMPY_ENTRY: Final = re.compile(rf"{_NAMES}\s*(?::.*)?(?P<text>)$")
_TYPE: Final = r"(?:[^:\s]+|[^:]*\]):\s"
_WRAP: Final = re.compile(r"(?<!\n)\n(?![\s*+>|-]|\d+[.)][^\S\n])")  # before a line that doesn't begin anything


@frozen
class Docstring:
    """The parts of a docstring."""

    description: str = ""  # summary and body as written, without the sections
    # the description of each parameter (without stars) or attribute, each paragraph on one line
    parameters: Mapping[str, str] = field(factory=dict[str, str])
    returns: str | None = None  # the description of the result, or `None`

    @property
    def summary(self) -> str:
        """The first paragraph, on one line."""
        return _join(self.description.partition("\n\n")[0])


def parse_docstring(text: str, names: Collection[str] | None = None) -> Docstring:
    """Parses a docstring of any of the three styles; never raises: what can't be read stays in the description.

    So do entries about none of the `names`, if given: the parameters that may be described.
    """
    lines = inspect.cleandoc(text).splitlines()
    if any(line.rstrip() in _GOOGLE for line in lines):
        first = lines[0].rstrip()
        lines = inspect.cleandoc("\n" + text).splitlines() if first in _GOOGLE else lines
        return _of_sections(lines, names, dashed=False)
    if any(line.strip() in _KINDS and _DASHES.fullmatch(below) for line, below in pairwise(lines)):
        return _of_sections(lines, names, dashed=True)
    first = next((index for index, line in enumerate(lines) if _SPHINX.match(line)), len(lines))
    return _of_sphinx(lines[:first], lines[first:], names)


def attribute_docs(cls: type) -> Mapping[str, str]:
    """The description of each attribute of `cls`, from the docstrings of it and its bases, the nearest first."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        if text := base.__dict__.get("__doc__"):
            docs.update(parse_docstring(text).parameters)
    return docs


def _of_sections(lines: Sequence[str], names: Collection[str] | None, *, dashed: bool) -> Docstring:
    """Parses NumPy style, where a section has a title with dashes below (`dashed`), or Google style.

    A section ends at the next one; in Google style, it ends with its indentation, too, and the description continues.
    """
    parts: dict[str, list[str]] = {"description": [], "parameters": [], "returns": [], "others": []}
    part = "description"
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        is_title = bool(line.strip() and _DASHES.fullmatch(below)) if dashed else bool(line[:1].strip())
        if is_title:
            part = (_KINDS.get(line.strip()) if dashed else _GOOGLE.get(line.rstrip())) or "description"
        if part == "description" or not (is_title or (dashed and _DASHES.fullmatch(line))):
            parts[part].append(line)
    returns = parts["returns"]
    if dashed:
        returns = [line for line in returns if line[:1].isspace()] or returns
    text = _join(inspect.cleandoc("\n".join(returns)))
    if not dashed and (typed := re.match(_TYPE, text)):
        text = text[typed.end() :]
    entries, rest = _entries(parts["parameters"], _NUMPY_ENTRY if dashed else _GOOGLE_ENTRY, names)
    return _docstring(parts["description"], rest, entries, text)


def _of_sphinx(before: Sequence[str], lines: Sequence[str], names: Collection[str] | None) -> Docstring:
    """Parses Sphinx style: a field ends with its indentation."""
    entries, rest = _entries(lines, _SPHINX, names)
    returns = [text for found, text in entries if found["returns"]]
    return _docstring(before, rest, [each for each in entries if each[0]["parameters"]], "".join(returns[:1]))


def _entries(
    lines: Sequence[str], pattern: re.Pattern[str], names: Collection[str] | None
) -> tuple[list[tuple[re.Match[str], str]], list[str]]:
    """The entries of a section, each with its text; and the lines that belong to none, or to one of no known name.

    An entry begins with a line that matches the pattern, and has all lines below with a larger indentation.
    """
    entries: list[tuple[re.Match[str], list[str]]] = []
    rest: list[str] = []
    here, indentation = rest, sys.maxsize
    for line in lines:
        text = line.lstrip()
        if text and len(line) - len(text) <= indentation:
            here = rest
            if found := pattern.match(text):
                indentation = len(line) - len(text)
                if names is None or found.groupdict().get("parameters", "") is None or _names_in(found) & {*names}:
                    here = list[str]()
                    entries.append((found, here))
                    continue
        here.append(line)
    return [(found, _join(inspect.cleandoc("\n".join([found["text"], *below])))) for found, below in entries], rest


def _docstring(
    description: Sequence[str], rest: Sequence[str], entries: Sequence[tuple[re.Match[str], str]], returns: str
) -> Docstring:
    parameters = {name: text for found, text in entries if text for name in _names_in(found)}
    text = "\n".join(description).strip()
    if rest:
        text = "\n\n".join((text, inspect.cleandoc("\n".join(rest)))).strip()
    return Docstring(text, parameters, returns or None)


def _names_in(found: re.Match[str]) -> set[str]:
    return {name.strip("*`\\ ") for name in (found["names"] or "").split(",")} - {""}


def _join(text: str) -> str:
    """The text with wrapped lines joined; paragraphs, list items, indented and quoted lines stay separate."""
    return _WRAP.sub(" ", re.sub(r"\n\s*\n", "\n\n", text.strip()))
