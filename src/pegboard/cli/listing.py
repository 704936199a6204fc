"""What `list`, `show` and `schema` print of tools: the texts, made once for the cold command and for the snapshot."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from pegboard.cli.indent import indented
from pegboard.cli.tool_page import show_text
from pegboard.plugins.cache import ListedTool, Listing, full_json, list_json
from pegboard.schema.json import JsonText, json_text
from pegboard.tools.spec import ToolSpec
from pegboard.tools.tool import Tool
from pegboard.tools.visible import visible, visible_json

MOST_SUMMARY: Final = 160
MOST_PROBLEMS: Final = 3
_UNOFFERED: Final = "(never offered)"
_LISTED: Final = frozenset(
    ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "tags", "kind", "version")
)
_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class AnyProblem(Protocol):
    """What is told of a problem."""

    @property
    def plugin(self) -> str | None:
        """The plugin, or `None`."""
        ...

    @property
    def distribution(self) -> str | None:
        """The distribution, or `None`."""
        ...

    @property
    def cause(self) -> str:
        """What happened, and what to do."""
        ...


# A tool -----------------------------------------------------------------------------------------------------------


def listed_tool(tool: Tool) -> ListedTool:
    """All texts of one tool."""
    return ListedTool(
        tool.name,
        visible(tool.origin.plugin or ""),
        _summary(tool),
        tool_json(tool),
        visible_json(tool.spec.input_schema_text),
        _more(tool),
        show_text(tool),
    )


def _summary(tool: Tool) -> str:
    """The summary; of a tool that no model is offered with a mark."""
    return summary_of(tool.spec) if tool.offered else f"{_UNOFFERED} {summary_of(tool.spec)}".rstrip()


def summary_of(spec: ToolSpec) -> str:
    """One line: the first sentence of the description, or the title, or nothing; at most 160 characters."""
    paragraph = (spec.description.strip() or spec.title or "").partition("\n\n")[0]
    words = paragraph.split()
    line = " ".join(words[: _sentence_end(words)])
    return visible(line if len(line) <= MOST_SUMMARY else line[: MOST_SUMMARY - 1].rstrip() + "…")


def _sentence_end(words: Sequence[str]) -> int:
    """How many words the first sentence has: up to a full stop that no lower-case word follows."""
    for number in range(1, len(words)):
        if words[number - 1].endswith((".", "!", "?")) and not words[number][0].islower():
            return number
    return len(words)


def tool_json(tool: Tool) -> str:
    """A tool's object in `list --json`, without line ends; hidden characters stand escaped. Worked out once a tool."""
    text = _written.get(tool)
    if text is None:
        text = _written[tool] = _tool_json(tool)
    return text


_written: Final[WeakKeyDictionary[Tool, str]] = WeakKeyDictionary()


def _tool_json(tool: Tool) -> str:
    spec, origin = tool.spec, tool.origin
    members = (
        ("name", _text(spec.name)),
        ("title", _text(spec.title)),
        ("description", _text(spec.description)),
        ("inputSchema", spec.input_schema_text),
        ("outputSchema", spec.output_schema_text or "null"),
        ("annotations", _text(spec.annotations.to_json())),
        ("tags", _text(spec.tags)),
        ("kind", _text(spec.kind)),
        ("toolVersion", _text(spec.version)),
        ("plugin", _text(origin.plugin)),
        ("distribution", _text(origin.distribution)),
        ("version", _text(origin.version)),
        ("digest", _text(spec.digest)),
    )
    return visible_json("{" + ",".join(f'"{key}":{value}' for key, value in members) + "}")


def _more(tool: Tool) -> str:
    rest = {key: value for key, value in tool.spec.to_json().items() if key not in _LISTED}
    if not tool.offered:
        rest["offered"] = False
    return "," + visible_json(_text(rest))[1:-1] if rest else ""


def show_json(tool: Tool) -> str:
    """What `show NAME --json` prints: the object of `list --json`, and whatever else the spec says."""
    return full_json(tool_json(tool), _more(tool))


def schema_text(tool: Tool) -> str:
    """What `schema NAME` prints: the input schema as JSON, laid out for people."""
    return indented(visible_json(tool.spec.input_schema_text)) + "\n"


# All tools --------------------------------------------------------------------------------------------------------


def listing_of(
    tools: Iterable[Tool],
    problems: Collection[AnyProblem] = (),
    *,
    version: str = "",
    commands: Iterable[tuple[str, str]] = (),
    notices: Iterable[str] = (),
) -> Listing:
    """Everything that the warm command prints of these tools, for `write_snapshot`.

    Args:
        tools: In the board's order.
        problems: What went wrong with plugins.
        version: pegboard's.
        commands: Names and one line of help of all commands that completion offers.
        notices: More lines for standard error.
    """
    return Listing(
        tuple(map(listed_tool, tools)),
        problems_json(problems),
        notice_text(problems, notices),
        version_text(version),
        tuple((name, visible(words)) for name, words in commands),
    )


def listing_json(tools: Iterable[Tool], problems: Collection[AnyProblem] = ()) -> str:
    """What `list --json` prints."""
    return list_json([tool_json(tool) for tool in tools], problems_json(problems))


def listing_rows(tools: Iterable[Tool]) -> list[tuple[str, str, str]]:
    """Name, plugin (`""` for the host's) and summary of each tool, safe to print."""
    return [(tool.name, visible(tool.origin.plugin or ""), _summary(tool)) for tool in tools]


def listing_plain(tools: Iterable[Tool]) -> str:
    """What `list` prints into a pipe: name, plugin and summary with tabs between, a tool a line."""
    return "".join("\t".join(row) + "\n" for row in listing_rows(tools))


def problems_json(problems: Iterable[AnyProblem]) -> JsonText:
    """The array `problems` in `list --json`."""
    facts = [{"plugin": one.plugin, "distribution": one.distribution, "cause": one.cause} for one in problems]
    return JsonText(visible_json(json_text(facts)))


def notice_text(problems: Collection[AnyProblem], notices: Iterable[str] = ()) -> str:
    """What `list` says on standard error: the first problems, how many more there are, and what else to know."""
    lines = [f"{_whose(one)}: {visible(one.cause)}" for one in list(problems)[:MOST_PROBLEMS]]
    if len(problems) > MOST_PROBLEMS:
        lines.append(f"{len(problems) - MOST_PROBLEMS} more problems: see 'registry doctor'")
    return "".join(f"{line}\n" for line in (*lines, *map(visible, notices)))


def _whose(problem: AnyProblem) -> str:
    named = (("plugin", problem.plugin), ("distribution", problem.distribution))
    return next((f"{kind} {visible(name)}" for kind, name in named if name), "sys.path")


def version_text(version: str) -> str:
    """What `--version` prints, without a line end."""
    return f"registry (pegboard) {version}"
