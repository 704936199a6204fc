"""Descriptions in docstrings of functions and classes, in Google, NumPy or Sphinx style."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

if TYPE_CHECKING:
    from docstring_parser import Docstring as Parsed

_PARAMETERS: Final = (
    "Args",
    "Arguments",
    "Attributes",
    "Keyword Args",
    "Keyword Arguments",
    "Other Parameters",
    "Parameters",
    "Params",
)

_RETURNS: Final = ("Return", "Returns", "Yield", "Yields")
_OTHERS: Final = ("Example", "Examples", "Except", "Exceptions", "Raises")

_GOOGLE: Final[Mapping[str, str]] = {
    **{f"{title}:": "parameters" for title in _PARAMETERS},
    **{f"{title}:": "returns" for title in _RETURNS},
    **{f"{title}:": "others" for title in _OTHERS},
}

_NUMPY: Final = r"^(?:Other Parameters|Parameters|Attributes|Returns|Yields|Raises|Examples)[ \t]*\n-{3,}[ \t]*$"

_SPHINX: Final = (
    r"^:(?:param(?:eter)?|arg(?:ument)?|key(?:word)?|attribute|[ic]?var|r?type|returns?|raises?|yields?)\b[^:\n]*:"
)

_TYPE: Final = r"(?:[^:\s]+|[^:]*\]):\s"
_OWN_LINE: Final = re.compile(r"\s|[-*+>|]|\d+[.)]\s")


@frozen
class Docstring:
    """The parts of a docstring.

    Attributes:
        description: Summary and body as written, without the sections.
        parameters: The description of each parameter (without stars) or attribute, each paragraph on one line.
        returns: The description of the result, or `None`.
    """

    description: str = ""
    parameters: Mapping[str, str] = field(factory=dict[str, str])
    returns: str | None = None

    @property
    def summary(self) -> str:
        """The first paragraph, on one line."""
        return _joined(self.description.partition("\n\n")[0])


def parse_docstring(text: str) -> Docstring:
    """Parses a docstring of any of the three styles; never raises: malformed sections have no parameters.

    A library parses the sections; it is loaded only if there are some, and used for the one style that they are in.
    """
    clean = inspect.cleandoc(text)
    lines = clean.splitlines()
    if any(line.rstrip() in _GOOGLE for line in lines):
        return _of_google(lines if lines[0].rstrip() not in _GOOGLE else inspect.cleandoc("\n" + text).splitlines())
    for marker, style in ((_NUMPY, "numpydoc"), (_SPHINX, "rest")):
        if found := re.search(marker, clean, re.MULTILINE):
            parsed = _parsed(style, clean)
            returns = parsed.returns.description if parsed and parsed.returns else None
            return Docstring(clean[: found.start()].strip(), _parameters(parsed), _joined(returns or "") or None)
    return Docstring(clean)


def attribute_docs(cls: type) -> Mapping[str, str]:
    """The description of each attribute of `cls`, from the docstrings of it and its bases, the nearest first.

    Read from `Attributes:`, `Args:` and similar sections.
    """
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        if text := base.__dict__.get("__doc__"):
            docs.update(parse_docstring(text).parameters)
    return docs


def _of_google(lines: Sequence[str]) -> Docstring:
    """Parses Google style: a known section ends with its indentation; text after it belongs to the description."""
    parts: dict[str, list[str]] = {"description": [], "parameters": [], "returns": [], "others": []}
    part = "description"
    for line in lines:
        title = line.rstrip()
        if title and not title[0].isspace():
            part = _GOOGLE.get(title, "description")
            if part == "returns":
                continue
        parts[part].append(line)
    parameters = _parsed("google", "\n".join(["-", *parts["parameters"]])) if parts["parameters"] else None
    returns = _joined(inspect.cleandoc("\n".join(parts["returns"])))
    if typed := re.match(_TYPE, returns):
        returns = returns[typed.end() :]
    return Docstring("\n".join(parts["description"]).strip(), _parameters(parameters), returns or None)


def _parameters(parsed: Parsed | None) -> dict[str, str]:
    return {
        bare: _joined(each.description)
        for each in (parsed.params if parsed else ())
        if each.description
        for name in each.arg_name.split(",")
        if (bare := name.strip().lstrip("*"))
    }


def _parsed(style: str, text: str) -> Parsed | None:
    from docstring_parser import google, numpydoc, rest

    try:
        if style == "google":
            several = google.SectionType.MULTIPLE
            return google.GoogleParser([google.Section(title, "param", several) for title in _PARAMETERS]).parse(text)
        return (numpydoc if style == "numpydoc" else rest).parse(text)
    except Exception:  # noqa: BLE001  (the library raises many kinds for prose that only looks like sections)
        return None


def _joined(text: str) -> str:
    """The text with wrapped lines joined; paragraphs, list items, indented and quoted lines stay separate."""
    text = text.strip()
    if "\n" not in text:
        return text
    joined = ""
    for line in text.splitlines():
        if not line.strip():
            joined += "\n\n" if not joined.endswith("\n\n") else ""
        elif not joined or joined.endswith("\n\n"):
            joined += line
        else:
            joined += ("\n" if _OWN_LINE.match(line) else " ") + line
    return joined
