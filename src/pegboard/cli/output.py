"""What commands write: tables, JSON, results and findings to standard output; errors and remarks to standard error.

Texts of plugins, tools and models pass through here, and their hidden characters are made visible.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from attrs import frozen

from pegboard.cli.arguments import WordError
from pegboard.cli.options import Options
from pegboard.cli.table import table
from pegboard.cli.terminal import PLAIN, Screen, stderr_screen, wrapped
from pegboard.errors import (
    ConfigError,
    DefinitionError,
    ExpressionError,
    PegboardError,
    PredicateError,
    RegistrationError,
    UnknownToolError,
)
from pegboard.tools.visible import visible, visible_json

if TYPE_CHECKING:
    from pegboard.catalogue import PluginRecord
    from pegboard.tools.content import Content, ToolResult
    from pegboard.toolsets.resolve import Explanation

_UNCUT: Final = 1_000_000
_LEAST_WIDTH: Final = 16
_UNITS: Final = ("B", "kB", "MB", "GB")
_STYLES: Final = {"partial": "yellow", "quarantined": "red"}
_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
MISUSES: Final = (
    WordError,
    ConfigError,
    DefinitionError,
    ExpressionError,
    PredicateError,
    RegistrationError,
    UnknownToolError,
)
"""What the person at the keyboard can put right: exit code 2."""
_UNWRITTEN: Final = (errno.ENOSPC, errno.EFBIG, errno.EIO)


@frozen
class Finding:
    """Something that `doctor` has found.

    Attributes:
        subject: What it is about, such as `"plugin 'files' (pegboard-files 0.1.0)"`.
        cause: What is wrong.
        fix: What to do, or `""` where the cause is enough.
    """

    subject: str
    cause: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        """All facts by name."""
        return {"subject": self.subject, "cause": self.cause, "fix": self.fix}


def one_line(text: str) -> str:
    """A text on one line, its hidden characters visible."""
    return visible(" ".join(text.split()))


def block(text: str, screen: Screen = PLAIN, *, indent: str = "", style: str = "") -> str:
    """Lines, indented, their hidden characters visible; broken between words where the screen has a width."""
    if not text:
        return ""
    width = None if screen.width is None else max(screen.width - len(indent), _LEAST_WIDTH)
    lines = wrapped(visible(text, newlines=True).removesuffix("\n"), width)
    return "".join(f"{indent}{screen.styled(line, style)}\n" for line in lines)


def rows_text(head: Sequence[str], rows: Iterable[Sequence[str]], screen: Screen = PLAIN) -> str:
    """A table as wide as the screen; without a width, uncut."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    return table(head, cells, width=screen.width or _UNCUT, colour=screen.colour)


def json_line(value: Any) -> str:
    """JSON on one line."""
    return visible_json(_compact(value)) + "\n"


def json_pretty(value: Any) -> str:
    """JSON for people, indented by two."""
    return visible_json(json.dumps(value, ensure_ascii=False, indent=2))


def json_rows(values: Iterable[Any]) -> str:
    """A JSON array, a value a line."""
    lines = ",\n".join(json_line(value)[:-1] for value in values)
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def plugins_table(plugins: Iterable[PluginRecord], screen: Screen = PLAIN) -> str:
    """A plugin a line, and under it why it isn't whole, uncut."""
    known = list(plugins)
    rows = [
        (
            plugin.name,
            f"{plugin.distribution or ''} {plugin.version or ''}".strip(),
            plugin.status,
            str(len(plugin.tools)),
            " ".join(hook.removeprefix("pegboard_") for hook in plugin.hooks),
        )
        for plugin in known
    ]
    head = ("PLUGIN", "DISTRIBUTION", "STATUS", "TOOLS", "HOOKS")
    first, *lines = rows_text(head, rows, screen).splitlines(keepends=True)
    causes = [
        block(plugin.cause or "", screen, indent="    ", style=_STYLES.get(plugin.status, "")) for plugin in known
    ]
    return first + "".join(line + cause for line, cause in zip(lines, causes, strict=True))


def findings_text(findings: Iterable[Finding], screen: Screen = PLAIN) -> str:
    """A finding a part: what it is about, what is wrong, what to do."""
    return "".join(
        block(finding.subject, screen, style="bold")
        + block(finding.cause, screen, indent="  ", style="red")
        + block(finding.fix, screen, indent="  ")
        for finding in findings
    )


def result_text(result: ToolResult, screen: Screen = PLAIN) -> str:
    """What a call answered.

    A terminal gets texts with their hidden characters visible; a pipe or a file gets them as they are.
    """
    texts = [text for text in _texts(result) if text]
    if screen.is_terminal:
        return "".join(block(text, Screen(colour=screen.colour)) for text in texts)
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts)


def error_text(result: ToolResult, screen: Screen = PLAIN) -> str:
    """Why a call failed, in red: the kind, then what a model would read."""
    head = f"error ({result.kind}): " if result.kind else "error: "
    return block(head + "\n".join(_texts(result)), screen, style="red")


def _texts(result: ToolResult) -> list[str]:
    if result.display is not None:
        return [result.display]
    data = result.structured_content
    if data is None:
        return [content_text(item) for item in result.content]
    texts = [content_text(item) for item in result.content if not _repeats(item, data)]
    if texts:
        return texts
    # For people: what stands alone under `result` by itself, a text as it is.
    value = data["result"] if isinstance(data, dict) and list(data) == ["result"] else data  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return [value if isinstance(value, str) else json_pretty(value)]


def _repeats(item: Content, data: Any) -> bool:
    """Whether a text repeats the structured data."""
    text = getattr(item, "text", None)
    if text is None:
        return False
    try:
        return json.loads(text) == data
    except (ValueError, RecursionError):
        return False


def content_text(item: Content) -> str:
    """A text as it is; anything else named, with its type and size."""
    from pegboard.tools.content import FileContent, ImageContent, LinkContent, TextContent

    if isinstance(item, TextContent):
        return item.text
    if isinstance(item, LinkContent):
        return f"[link {one_line(item.name)} {one_line(item.uri)}]"
    if isinstance(item, FileContent):
        head = f"file {one_line(item.uri)}"
        if isinstance(item.data, str):
            return f"[{head}]\n{item.data}"
    else:
        head = "image" if isinstance(item, ImageContent) else "audio"
    return f"[{head} {one_line(item.mime_type or '')}, {size_text(len(item.data))}]"


def size_text(size: float) -> str:
    """So many bytes in few characters: `812 B`, `12.3 kB`, `3.4 MB`."""
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.4g} {_UNITS[-1]}"


def explanation_text(explained: Explanation, screen: Screen = PLAIN) -> str:
    """Whether a tool is offered, and the decision of each step."""
    head = "offered" if explained.offered else "not offered"
    style = "green" if explained.offered else "yellow"
    steps = "".join(
        block(str(reason), screen, indent="  ", style="" if reason.verdict == "in" else "yellow")
        for reason in explained.reasons
    )
    notes = "".join(block(f"note: {note}", screen, indent="  ") for note in explained.notes)
    return f"{one_line(explained.name)}: {screen.styled(head, style)}\n{steps}{notes}"


def report_error(error: Exception, options: Options) -> int:
    """Tells of an error on standard error, with its traceback where that is asked for.

    Returns:
        The exit code: 2 for wrong use, 1 for everything else.
    """
    if options.debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        remark(error.format_message())
    else:
        complain(_worded(error))
    return 2 if isinstance(error, (click.ClickException, *MISUSES)) else 1


def complain(text: str) -> None:
    """Writes an error to standard error, in red where that shows."""
    screen = stderr_screen()
    click.echo(block(f"error: {text}", screen, style="red"), nl=False, err=True, color=screen.colour)


def remark(text: str) -> None:
    """Writes a line that isn't an error to standard error."""
    screen = stderr_screen()
    click.echo(block(text, screen), nl=False, err=True, color=screen.colour)


def _worded(error: Exception) -> str:
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "registry"
        return f"{error.format_message()}\nTry '{command} --help'."
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITTEN:
        return f"can't write to standard output: {error.strerror}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, PegboardError | WordError | OSError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error}\nThis is a fault of pegboard's own; --debug shows where."
