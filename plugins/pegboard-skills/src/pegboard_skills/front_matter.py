"""The front matter of a `SKILL.md`: split from its text, parsed as YAML, and checked.

Agent Skills (agentskills.io) defines its keys. Every scalar is a text, as in strict YAML: `version: 1.0` is `"1.0"`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, cast

from attrs import field, frozen

from pegboard.errors import PegboardError
from pegboard.schema.converter import JsonRecord

MOST_FRONT: Final = 10_000
"""Characters of a front matter."""

MOST_NAME: Final = 64
MOST_DESCRIPTION: Final = 1_024
MOST_COMPATIBILITY: Final = 500
_MOST_LICENSE: Final = 1_000
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MOST_LEVELS: Final = 20
_FENCE: Final = "---"
_KNOWN: Final = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


class SkillError(PegboardError):
    """A skill, or a file of it, can't be used.

    Attributes:
        problems: What is wrong, a sentence each.
        fix: What the user can do, or `None`.
    """

    def __init__(self, *problems: str, fix: str | None = None) -> None:
        self.problems = problems
        self.fix = fix
        super().__init__("; ".join(problems if fix is None else (*problems, fix)))


@frozen
class FrontMatter(JsonRecord):
    """What a `SKILL.md` says about its skill.

    Attributes:
        name: 1 to 64 of `a-z`, `0-9` and `-`, which is neither at the ends nor doubled.
        description: What the skill does and when to use it, in 1 to 1,024 characters.
        license: Its license, or the name of a file with it.
        compatibility: What it needs, in up to 500 characters.
        metadata: Further facts, texts by name.
        allowed_tools: The tools that it is written for, separated by spaces. It never grants anything.
        other: All other keys, as they are.
    """

    name: str
    description: str
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = field(factory=dict[str, str])
    allowed_tools: str | None = None
    other: Mapping[str, Any] = field(factory=dict[str, Any])


def split_text(content: bytes) -> tuple[str, str]:
    """The front matter and the text of a `SKILL.md`, with the line ends of Unix.

    Raises:
        SkillError: It isn't UTF-8, or has no front matter.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SkillError(f"SKILL.md isn't UTF-8 text (line {line})") from None
    first, *lines = text.replace("\r\n", "\n").split("\n")
    if first.rstrip() != _FENCE:
        raise SkillError("SKILL.md has no front matter: its first line has to be ---")
    end = next((place for place, line in enumerate(lines) if line.rstrip() == _FENCE), None)
    if end is None:
        raise SkillError("the front matter of SKILL.md doesn't end: there is no second line ---")
    return "\n".join(lines[:end]), "\n".join(lines[end + 1 :]).strip("\n")


def read_front_matter(text: str, folder: str) -> FrontMatter:
    """Parses and checks a front matter.

    Args:
        text: YAML.
        folder: The name of the skill's folder, which its name has to equal.

    Raises:
        SkillError: It isn't a YAML mapping, or a key is missing or wrong; all problems are in it.
    """
    values = _parse(text)
    problems: list[str] = []

    def read(key: str, convert: Callable[[Any], Any]) -> Any:
        if key not in values:
            return None
        try:
            return convert(values[key])
        except ValueError as error:
            problems.append(f"{key}: {error}")
            return None

    name = read("name", lambda value: _name_of(value, folder))
    description = read("description", lambda value: _text_of(value, MOST_DESCRIPTION))
    problems += [f"{key}: it is missing" for key in ("name", "description") if key not in values]
    license_ = read("license", lambda value: _text_of(value, _MOST_LICENSE))
    compatibility = read("compatibility", lambda value: _text_of(value, MOST_COMPATIBILITY))
    metadata = read("metadata", _texts_of)
    allowed_tools = read("allowed-tools", _tools_of)
    if problems:
        raise SkillError(*problems)
    other = {key: value for key, value in values.items() if key not in _KNOWN}
    return FrontMatter(name, description, license_, compatibility, metadata or {}, allowed_tools, other)


def _name_of(value: Any, folder: str) -> str:
    name = _text_of(value, MOST_NAME)
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!a} may only have a-z, 0-9 and single '-' between them")
    if name != folder:
        raise ValueError(f"{name!a} isn't the name of its folder, {folder!a}")
    return name


def _text_of(value: Any, most: int) -> str:
    text = value.strip() if isinstance(value, str) else None
    if not text:
        raise ValueError(f"has to be a text of 1 to {most:,} characters")
    if len(text) > most:
        raise ValueError(f"has {len(text):,} characters; the maximum is {most:,}")
    return text


def _texts_of(value: Any) -> dict[str, str]:
    texts = cast("dict[str, Any]", value) if isinstance(value, dict) else None
    if texts is None or not all(isinstance(each, str) for each in texts.values()):
        raise ValueError("has to be a mapping of texts")
    return texts


def _tools_of(value: Any) -> str:
    items: Iterable[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in items):
        raise ValueError("has to be a text or a list of texts")
    return " ".join(" ".join(items).split())


def _parse(text: str) -> dict[str, Any]:
    """The mapping in a YAML text.

    Raises:
        SkillError: It isn't one, has an alias or a key twice, or is too long.
    """
    if len(text) > MOST_FRONT:
        raise SkillError(f"the front matter has {len(text):,} characters; the maximum is {MOST_FRONT:,}")
    import yaml  # slow to import

    try:
        values: Any = yaml.load(text, _loader())  # noqa: S506  a safe one, which makes texts, lists and mappings only
    except SkillError:
        raise
    except Exception as error:  # noqa: BLE001  other than YAMLError, too, such as for "\U00110000"
        mark: Any = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" (line {mark.line + 2})"  # the first line is the fence
        reason = " ".join(str(getattr(error, "problem", None) or error).split())[:200]
        raise SkillError(f"the front matter isn't YAML: {reason}{line}") from None
    if not isinstance(values, dict):
        raise SkillError("the front matter isn't a mapping of keys to values")
    return cast("dict[str, Any]", values)


@cache
def _loader() -> Any:
    """A loader whose values are texts, lists and mappings; it refuses aliases, which can grow without bounds."""
    import yaml

    base: Any = yaml.BaseLoader

    class Loader(base):
        level = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise SkillError("the front matter has an alias (*); write the value out")
            if self.level > _MOST_LEVELS:
                raise SkillError("the front matter is nested too deep")
            self.level += 1
            node = base.compose_node(self, parent, index)
            self.level -= 1
            return node

        def fetch_flow_collection_start(self, kind: Any) -> None:
            if self.flow_level >= _MOST_LEVELS:  # the time that it takes is quadratic in the levels
                raise SkillError("the front matter is nested too deep")
            base.fetch_flow_collection_start(self, kind)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            values: Any = base.construct_mapping(self, node, deep)
            if len(values) < len(node.value):
                keys = [key.value for key, _ in node.value]
                twice = next(key for key in keys if keys.count(key) > 1)
                raise SkillError(f"the front matter has the key {twice!a:.100} twice")
            return values

    return Loader
