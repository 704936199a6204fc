"""The tools, and what a request says about skills. The tools' docstrings and parameters are for the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Any, Final

from annotated_types import Ge, MaxLen, MinLen

from pegboard import Concurrency, ModelRequest, ToolContext, ToolError, ToolResult, tool
from pegboard.errors import did_you_mean, suggest
from pegboard.json import count_text, size_text
from pegboard.text import escape_hidden, printable
from pegboard_skills.folder import Files, list_files
from pegboard_skills.front_matter import MOST_NAME, SkillError
from pegboard_skills.skill import FILE, Skill
from pegboard_skills.sources import SkillSources

Name = Annotated[str, MinLen(1), MaxLen(MOST_NAME)]
Offset = Annotated[int, Ge(0)]
_MOST_BYTES: Final = 48_000  # of a result and its lines: a little less than it may have, so that nothing is cut off
_MOST_LINES: Final = 1_700
_MOST_TOOLS: Final = 1_000  # characters of `allowed-tools`
_MOST_PATHS: Final = 15_000  # bytes of a list of files
_INSTRUCTIONS: Final = (
    "Skills are instructions for certain tasks. Before you begin a task that a description below fits, or if the user "
    "names a skill, read the skill with load_skill, and follow it. Skills:"
)


class SkillTools:
    """The tools, over the skills of some sources.

    Args:
        sources: Where the skills are.
        budget: How many characters of names and descriptions a request contains at most.
    """

    def __init__(self, sources: SkillSources, budget: int = 8_000) -> None:
        self.sources = sources
        self.budget = budget

    def announce_skills(self, request: ModelRequest) -> ModelRequest | None:
        """Adds the names and descriptions of the skills to a request; without skills, removes the tools from it."""
        found = self.sources.find()
        request = request.with_problems(*found.problems)
        if found.skills:
            return request.with_instructions(f"{_INSTRUCTIONS}\n{describe(found.skills, self.budget)}")
        if request.tools is None:
            return request
        reason = "there are no skills"
        return request.evolve(tools=request.tools.without("skills", {"load_skill": reason, "read_skill_file": reason}))

    @tool(
        title="Load a skill",
        read_only=True,
        idempotent=True,
        open_world=False,
        tags=("skills",),
        permission_arguments={"name": "text"},
        concurrency=Concurrency("shared"),
        process_request=announce_skills,
    )
    def load_skill(self, name: Name, offset: Offset = 0, *, context: ToolContext) -> ToolResult:
        """Read a skill: instructions for a certain task. Returns its text, and the paths of its files.

        A long text is returned in parts; a line after it says how to get the next part.

        Args:
            name: Name of the skill, as listed in your instructions.
            offset: The number of characters to skip. Use the number from the end of the previous part.
            context: The running call.
        """
        skill = self._skill(name)
        try:
            text = skill.read_text()
        except SkillError as error:
            raise _unusable(f"The skill {name!r}", error) from error.with_traceback(None)
        notes = "" if offset else "\n".join(_notes(skill, list_files(skill.folder), context.offered))
        part = _part(text, offset, "load_skill", len(notes.encode(errors="replace"))) or "The skill has no text."
        shown = "\n\n---\n".join(filter(None, (part, notes)))
        return ToolResult(shown, title=f"Skill {name}", metadata={"skill": name})

    @tool(
        title="Read a file of a skill",
        read_only=True,
        idempotent=True,
        open_world=False,
        tags=("skills",),
        permission_arguments={"name": "text", "path": "text"},
        concurrency=Concurrency("shared"),
    )
    def read_skill_file(
        self, name: Name, path: Annotated[str, MinLen(1), MaxLen(1_000)], offset: Offset = 0
    ) -> ToolResult:
        """Read a file of a skill. Returns a text, an image or a PDF.

        A long text is returned in parts; the last line says how to get the next part.

        Args:
            name: Name of the skill.
            path: Path of the file, as listed by load_skill, such as "references/forms.md".
            offset: The number of characters to skip. Use the number from the end of the previous part.
        """
        skill = self._skill(name)
        try:
            content = skill.read_file(path)
        except SkillError as error:
            near = did_you_mean(suggest(path, list_files(skill.folder).sizes.keys() - {FILE}))
            raise _unusable(f"The file of the skill {name!r}", error, near.strip()) from error.with_traceback(None)
        title = f"{name}: {printable(path)}"
        if isinstance(content, str):
            content = _part(content, offset, "read_skill_file") or "The file is empty."
        return ToolResult(content, title=title, metadata={"skill": name})

    def _skill(self, name: str) -> Skill:
        """A skill by its name; raises `ToolError` if there is none."""
        skills = self.sources.find().skills
        if name not in skills:
            near = did_you_mean(suggest(name, skills)) or " Use a name that is listed in your instructions."
            raise ToolError(f"There is no skill {name!a}.{near}")
        return skills[name]


def _part(text: str, offset: int, tool: str, used: int = 0) -> str:
    """The part of a text that begins after so many characters, with a line on how to read on.

    Args:
        text: The text.
        offset: How many characters to skip.
        tool: The tool that reads on.
        used: How many bytes of the result aren't free.

    Raises:
        ToolError: The text ends before.
    """
    if offset and offset >= len(text):
        raise ToolError(f"The text has {len(text):,} characters only. Use a smaller offset.")
    part, room = text[offset : offset + _MOST_BYTES], _MOST_BYTES - used
    part = "".join(part.splitlines(keepends=True)[:_MOST_LINES])
    while (size := len((shown := escape_hidden(part)).encode(errors="replace"))) > room:
        part = part[: len(part) * room // size]
    if len(part) == len(text):
        return shown
    end = offset + len(part)
    rest = f" To continue, call {tool} with offset={end}." if end < len(text) else ""
    return f"{shown}\n[Characters {offset + 1:,} to {end:,} of {len(text):,}.{rest}]"


def _unusable(what: str, error: SkillError, hint: str = "") -> ToolError:
    trust = "Only the user can allow it." if error.fix else ""  # how is in the error: the cause, for the operator
    return ToolError(f"{what} can't be read: {'; '.join(error.problems)}.", hint=trust or hint or None)


def _notes(skill: Skill, files: Files, offered: Sequence[Any]) -> list[str]:
    """What follows the text of a skill: what it needs, and which files it has."""
    front = skill.front
    notes: list[str] = []
    if front.compatibility is not None:
        notes.append(f"The skill needs: {_line(front.compatibility)}")
    if tools := _cut(_line(front.allowed_tools or ""), _MOST_TOOLS):
        notes.append(f"The skill is written for these tools, but allows none by itself: {tools}")
    sizes = {path: size for path, size in files.sizes.items() if path != FILE}
    if not sizes:
        return notes
    notes.append(f"Files of the skill {front.name!r}, for read_skill_file:")
    lines = [f"- {printable(path)} ({size_text(size)})" for path, size in sizes.items()]
    ends = accumulate(len(line.encode()) for line in lines)
    listed = [line for line, end in zip(lines, ends, strict=True) if end <= _MOST_PATHS]
    notes += listed
    if not files.is_whole or len(listed) < len(lines):
        notes.append("- and more")
    if any(tool.spec.permission == "shell" for tool in offered):
        notes.append(f"Scripts are run by the tool that runs commands. The folder is {printable(str(skill.folder))}")
    return notes


def _line(text: str) -> str:
    return escape_hidden(" ".join(text.split()))


def describe(skills: Mapping[str, Skill], budget: int) -> str:
    """The names and descriptions of skills, one a line, in at most so many characters.

    If they are too long, all descriptions are cut at one length; if the names alone are too long, the last ones are
    left out, with their number.
    """
    texts = {name: _line(skill.front.description) for name, skill in skills.items()}
    fixed = sum(len(f"- {name}: \n") for name in texts)
    most = _longest(sorted(map(len, texts.values())), budget - fixed)
    if most is not None:
        return "\n".join(f"- {name}: {_cut(text, most)}" for name, text in texts.items())
    lines = [f"- {name}" for name in texts]
    left = budget - len("\n".join(lines))
    if left < 0:
        left += -len(_more(len(lines))) - 1
        listed = len(lines)
        while left < 0 and listed:
            listed -= 1
            left += len(lines[listed]) + 1
        lines[listed:] = [_more(len(lines) - listed)]
    return "\n".join(lines)


def _more(number: int) -> str:
    return f"{count_text(number, 'more skill')} can't be listed here."


_LEAST_SHOWN: Final = 20  # characters of a description; fewer say nothing


def _longest(lengths: Sequence[int], room: int) -> int | None:
    """The length at which to cut texts of these lengths, ascending, so that they fit; `None` if too little is left."""
    for place, length in enumerate(lengths):
        share = room // (len(lengths) - place)
        if length > share:
            return share if share >= _LEAST_SHOWN else None
        room -= length
    return lengths[-1] if lengths else 0


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
