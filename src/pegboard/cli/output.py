"""What commands write, and where: streams and screens, tables, JSON, results; errors and remarks on standard error.

Texts of plugins, tools and models pass through here, and their hidden characters are made visible.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from base64 import b64encode
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, Self

import click
from attrs import define, field, frozen

from pegboard.cli.arguments import WordError
from pegboard.cli.options import Options
from pegboard.cli.table import cells, fitted, table, terminal_width, tool_table, wants_colour, wrapped
from pegboard.errors import (
    ConfigError,
    DefinitionError,
    ExpressionError,
    PegboardError,
    PredicateError,
    RegistrationError,
    UnknownToolError,
)
from pegboard.schema.converter import JsonRecord
from pegboard.schema.json import size_text
from pegboard.tools.visible import visible, visible_json

if TYPE_CHECKING:
    from pegboard.tools.content import Content, ToolResult
    from pegboard.tools.tool import Tool

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_BAR = 20
ASKED: Final[list[None]] = []
"""An entry for each question that a person has before them; what is written meanwhile would stand in their answer."""


@frozen
class Screen:
    """Capabilities of an output stream.

    Attributes:
        width: Columns, or `None` where it is no terminal and nothing is cut or broken.
        colour: Whether it takes colours.
    """

    width: int | None = None
    colour: bool = False

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it."""
        return self.width is not None

    def styled(self, text: str, style: str) -> str:
        """The text in a style: `bold`, `dim`, `red`, `green`, `yellow`, or `""` for none."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and style and text else text


PLAIN: Final = Screen()


def stdout_screen() -> Screen:
    """What standard output can show."""
    return screen_of(sys.stdout)


def stderr_screen() -> Screen:
    """What standard error can show."""
    return screen_of(sys.stderr)


def screen_of(stream: IO[Any] | None, environ: Mapping[str, str] = os.environ) -> Screen:
    """What this stream can show.

    Colour follows `NO_COLOR` (no-color.org), then `FORCE_COLOR`, then `TERM=dumb`, then whether it is a terminal, in
    the order of Python's own tracebacks. The width follows `COLUMNS`, then the terminal.
    """
    try:
        on_terminal = stream is not None and stream.isatty()
    except ValueError:  # a closed stream
        on_terminal = False
    colour = wants_colour(environ, on_terminal=on_terminal)
    if stream is None or not on_terminal:
        return Screen(colour=colour)
    return Screen(terminal_width(stream.fileno(), environ), colour)


def write(text: str) -> None:
    """Writes a text, which carries its line ends and whatever colours it is to have, as it is."""
    sys.stdout.write(text)


@contextmanager
def quiet() -> Generator[None]:
    """No status is shown meanwhile: a person is being asked something."""
    ASKED.append(None)
    try:
        yield
    finally:
        ASKED.pop()


@define
class Status:
    """A line that is written over. Nothing is written where standard error is no terminal, or a dumb one."""

    screen: Screen = field(factory=stderr_screen)
    _shown: int = 0
    _stream: Any = None
    _stand_in: Any = None

    def show(self, text: str, done: float | None = None) -> None:
        """Puts a text in the line's place.

        Args:
            text: What is being done.
            done: How much of it, from 0 to 1, as a bar; `None` where that isn't known.
        """
        if self.screen.width is None or os.environ.get("TERM") == "dumb" or ASKED:
            return
        filled = round(_BAR * min(max(done or 0.0, 0.0), 1.0))
        bar = "" if done is None else f"[{'#' * filled}{'-' * (_BAR - filled)}] "
        line = fitted(bar + visible(" ".join(text.split())), self.screen.width - 1)
        self._write(f"\r{line}{' ' * (self._shown - cells(line))}")
        self._shown = cells(line)

    def clear(self) -> None:
        """Takes the line away."""
        if self._shown:
            self._write(f"\r{' ' * self._shown}\r")
            self._shown = 0

    def __enter__(self) -> Self:
        if self.screen.width is not None:
            self._stream, self._stand_in = sys.stderr, _StandIn(self._cleared)
            sys.stderr = self._stand_in
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        if self._stand_in is not None and sys.stderr is self._stand_in:
            sys.stderr = self._stream

    def _cleared(self) -> Any:
        """Standard error, the line taken away before anything else is written: logs, and prints of tools."""
        self.clear()
        return self._stream

    def _write(self, text: str) -> None:
        stream = sys.stderr if self._stream is None else self._stream
        stream.write(text)
        stream.flush()


class _StandIn:
    """Stands in for a standard stream: each use of it asks anew which stream it is.

    So what a module keeps of it at import (`logging.StreamHandler(sys.stdout)`) stays right afterwards.
    """

    def __init__(self, stream: Callable[[], Any]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream(), name)


class _Redirection(NamedTuple):
    """Standard output, the descriptor that it has meanwhile where that isn't its own, and where all else goes."""

    real: Any
    descriptor: int | None
    aside: IO[str] | None


_redirection: _Redirection | None = None


@contextmanager
def redirect_stdout() -> Generator[None]:
    """Sends `sys.stdout`, and file descriptor 1 where that is what it writes to, to standard error.

    Child processes inherit that. Both are put back at the end, however it comes. Inside of itself it does nothing.
    Where standard error is closed, it goes nowhere: another file may have its descriptor.
    """
    global _redirection  # noqa: PLW0603  as `sys.stdout`, there is one a process
    real: Any = sys.stdout
    if _redirection is not None or real is None:
        yield
        return
    real.flush()
    no_stderr: bool = sys.stderr is None  # pyright: ignore[reportUnnecessaryComparison]  so it is where it is closed
    nowhere = Path(os.devnull).open("w", encoding="utf-8") if no_stderr else None  # noqa: SIM115  closed below
    descriptor = _redirect_descriptor(real, 2 if nowhere is None else nowhere.fileno())
    _redirection = _Redirection(real, descriptor, nowhere)
    stand_in: Any = _StandIn(lambda: real if (now := _redirection) is None else now.aside or sys.stderr)
    sys.stdout = stand_in
    try:
        yield
    finally:
        _redirection = None
        if sys.stdout is stand_in:
            sys.stdout = real
        if descriptor is not None:
            with suppress(OSError):
                real.flush()  # what was written past the stand-in, to `sys.__stdout__`, is no output of ours either
            os.dup2(descriptor, 1)
            os.close(descriptor)
        if nowhere is not None:
            nowhere.close()


def write_through(text: str) -> None:
    """Writes our own output at once, while standard output is redirected; also while a plugin is loaded beside it."""
    real, descriptor, _ = _redirection or _Redirection(sys.stdout, None, None)
    if descriptor is None:
        real.write(text)
        real.flush()
        return
    data = text.encode(real.encoding, errors=real.errors)
    while data:
        data = data[os.write(descriptor, data) :]


def _redirect_descriptor(real: Any, target: int) -> int | None:
    """Turns descriptor 1 to where another goes; gives what it was, or `None` where it isn't standard output's."""
    try:
        if real.fileno() != 1:
            return None
        descriptor = os.dup(1)
    except (OSError, ValueError, AttributeError):  # no file, a closed one
        return None
    os.dup2(target, 1)
    return descriptor


_UNCUT: Final = 1_000_000
_LEAST_WIDTH: Final = 16
_SHOW_IMAGES: Final = ("iTerm.app", "WezTerm", "mintty", "vscode")
_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

MISUSES: Final = (  # what the person at the keyboard can put right: exit code 2
    WordError,
    ConfigError,
    DefinitionError,
    ExpressionError,
    PredicateError,
    RegistrationError,
    UnknownToolError,
)

_UNWRITTEN: Final = (errno.ENOSPC, errno.EFBIG, errno.EIO)


@frozen
class Finding(JsonRecord):
    """Something that `doctor` has found.

    Attributes:
        subject: What it is about, such as `"plugin 'files' (pegboard-files 0.1.0)"`.
        cause: What is wrong.
        fix: What to do.
    """

    subject: str
    cause: str
    fix: str


def one_line(text: str) -> str:
    """A text on one line, its hidden characters visible."""
    return visible(_joined(text))


def _joined(text: str) -> str:
    return " ".join(text.split())


def block(text: str, screen: Screen = PLAIN, *, indent: str = "", style: str = "", is_visible: bool = False) -> str:
    """Lines, indented, their hidden characters visible; broken between words where the screen has a width."""
    if not text:
        return ""
    width = None if screen.width is None else max(screen.width - len(indent), _LEAST_WIDTH)
    lines = wrapped((text if is_visible else visible(text, newlines=True)).removesuffix("\n"), width)
    return "".join(f"{indent}{screen.styled(line, style)}\n" for line in lines)


def rows_text(head: Sequence[str], rows: Iterable[Sequence[str]], screen: Screen = PLAIN) -> str:
    """A table as wide as the screen, without a width one line a row."""
    shown = [[one_line(cell) for cell in row] for row in rows]
    return table(head, shown, width=screen.width or _UNCUT, colour=screen.colour)


def tools_text(tools: Iterable[Tool], screen: Screen = PLAIN) -> str:
    """A table of tools as wide as the screen, summaries broken between words, and how many there are."""
    from pegboard.cli.tool_texts import listing_rows

    return tool_table(listing_rows(tools), width=screen.width or _UNCUT, colour=screen.colour)


def json_line(value: Any) -> str:
    """JSON on one line."""
    return visible_json(_compact(value)) + "\n"


def json_pretty(value: Any) -> str:
    """JSON for people, indented by two; what JSON has no form for (a date of TOML) as text."""
    return visible_json(json.dumps(value, ensure_ascii=False, indent=2, default=_as_json))


def _as_json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def json_rows(key: str, values: Iterable[Any]) -> str:
    """A JSON object with one key: a list, a value a line."""
    lines = ",\n".join(json_line(value)[:-1] for value in values)
    return f'{{"{key}":[\n{lines}\n]}}\n' if lines else f'{{"{key}":[]}}\n'


def result_text(result: ToolResult, screen: Screen = PLAIN) -> str:
    """What a call answered.

    A terminal gets texts with their hidden characters visible; a pipe or a file gets them as they are.
    """
    texts = [text for text in _texts(result) if text]
    if screen.is_terminal:  # the line ends of other systems are line ends
        return "".join(block(text.replace("\r\n", "\n"), Screen(colour=screen.colour)) for text in texts)
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts)


def pictures(result: ToolResult, screen: Screen, environ: Mapping[str, str] = os.environ) -> str:
    """A result's pictures as a terminal displays them; nothing where it can't.

    Kitty and Ghostty take PNG by kitty's graphics protocol; iTerm2, WezTerm and others any format by iTerm2's.
    """
    from pegboard.tools.content import ImageContent

    program, images = environ.get("TERM_PROGRAM", ""), [one for one in result.content if isinstance(one, ImageContent)]
    if not (images and screen.is_terminal) or "TMUX" in environ:  # tmux passes neither on
        return ""
    if "KITTY_WINDOW_ID" in environ or program == "ghostty":
        return "".join(_by_kitty(one.data) for one in images if one.mime_type == "image/png")
    if program in _SHOW_IMAGES or environ.get("LC_TERMINAL") == "iTerm2":
        return "".join(
            f"\x1b]1337;File=inline=1;size={len(one.data)}:{b64encode(one.data).decode()}\a\n" for one in images
        )
    return ""


def _by_kitty(data: bytes) -> str:
    """A PNG in pieces of at most 4,096 characters, each of which says whether more come."""
    text = b64encode(data).decode()
    pieces = [text[start : start + 4096] for start in range(0, len(text), 4096)]
    heads = ["a=T,f=100,", *[""] * len(pieces)]
    last = len(pieces) - 1
    return "".join(f"\x1b_G{heads[n]}m={int(n < last)};{piece}\x1b\\" for n, piece in enumerate(pieces)) + "\n"


def failure_text(result: ToolResult, screen: Screen = PLAIN) -> str:
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
        return f"[link {_joined(item.name)} {_joined(item.uri)}]"
    if isinstance(item, FileContent):
        head = f"file {_joined(item.uri)}"
        if isinstance(item.data, str):
            return f"[{head}]\n{item.data}"
    else:
        head = "image" if isinstance(item, ImageContent) else "audio"
    return f"[{head} {_joined(item.mime_type or '')}, {size_text(len(item.data))}]"


def report_error(error: Exception, options: Options) -> int:
    """Reports an error on standard error, with its traceback where that is asked for.

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


def write_error(text: str) -> None:
    """Writes to standard error, at once, a text with the colours that it takes."""
    click.echo(text, nl=False, err=True, color=stderr_screen().colour)


def complain(text: str) -> None:
    """Writes an error to standard error, in red where that shows."""
    write_error(block(f"error: {text}", stderr_screen(), style="red"))


def remark(text: str, *, is_visible: bool = False) -> None:
    """Writes a line that isn't an error to standard error."""
    write_error(block(text, stderr_screen(), is_visible=is_visible))


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
