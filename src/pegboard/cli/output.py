"""Streams of commands: standard input, screens, the status line, tables, JSON, results, errors.

Hidden characters in texts of plugins, tools and models are made visible here.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from base64 import b64encode
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self, cast

import click
from attrs import field

from pegboard.cli.options import Options
from pegboard.cli.table import LEAST_WIDTH, cells, fit, table, terminal_width, tool_table, wants_colour, wrap_text
from pegboard.errors import (
    ConfigError,
    DefinitionError,
    ExpressionError,
    PegboardError,
    PredicateError,
    RegistrationError,
    UnknownToolError,
)
from pegboard.json import is_object, size_text
from pegboard.text import visible, visible_json
from pegboard.typing import define, frozen

if TYPE_CHECKING:
    from pegboard.tools.content import ToolResult
    from pegboard.tools.tool import Tool

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_BAR = 20
_UNCUT: Final = 1_000_000
_CHUNK: Final = 4_096  # characters, at most, in kitty's protocol
_SHOW_IMAGES: Final = ("iTerm.app", "WezTerm", "mintty", "vscode")
_compact: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
MISUSES: Final = (ConfigError, DefinitionError, ExpressionError, PredicateError, RegistrationError, UnknownToolError)
"""Errors that the user can correct: exit code 2."""
OPEN_QUESTIONS: Final[list[None]] = []
"""An entry for each question that is open on the terminal; other output has to wait until it is answered."""


@frozen
class Screen:
    """Capabilities of an output stream.

    Attributes:
        width: Columns, or `None` if it isn't a terminal: nothing is cut or wrapped.
        colour: Whether to write colours.
    """

    width: int | None = None
    colour: bool = False

    @property
    def is_terminal(self) -> bool:
        """Whether it is a terminal."""
        return self.width is not None

    def styled(self, text: str, style: str) -> str:
        """The text in a style: `bold`, `dim`, `red`, `green`, `yellow`, `cyan`, or none (`""`)."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and style and text else text


PLAIN: Final = Screen()


def stdout_screen() -> Screen:
    """The screen of standard output."""
    return screen_of(sys.stdout)


def stderr_screen() -> Screen:
    """The screen of standard error."""
    return screen_of(sys.stderr)


def screen_of(stream: IO[Any] | None, environ: Mapping[str, str] = os.environ) -> Screen:
    """The screen of a stream; see `wants_colour` and `terminal_width`."""
    try:
        on_terminal = stream is not None and stream.isatty()
    except ValueError:  # a closed stream
        on_terminal = False
    width = terminal_width(stream.fileno(), environ) if stream is not None and on_terminal else None
    return Screen(width, wants_colour(environ, on_terminal=on_terminal))


def stdin_is_terminal() -> bool:
    """Whether standard input is a terminal; not if it is closed."""
    return sys.stdin is not None and sys.stdin.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def read_stdin(most_bytes: int) -> str:
    """Reads all of standard input.

    Raises:
        click.UsageError: It is closed, larger than `most_bytes`, or not UTF-8.
    """
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise click.UsageError("standard input is closed")
    data = sys.stdin.buffer.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise click.UsageError(f"standard input is larger than {most_bytes:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.UsageError("standard input isn't UTF-8 text") from None


def write(text: str) -> None:
    """Writes a text to standard output, unchanged."""
    sys.stdout.write(text)


@contextmanager
def hide_status() -> Generator[None]:
    """Hides the status line while the user is asked something."""
    OPEN_QUESTIONS.append(None)
    try:
        yield
    finally:
        OPEN_QUESTIONS.pop()


@define
class Status:
    """Status line on standard error; nothing is written unless that is a terminal that can redraw a line."""

    screen: Screen = field(factory=stderr_screen)
    _shown: int = field(default=0, init=False)
    _real: Any = field(factory=lambda: sys.stderr, init=False)

    def show(self, text: str, done: float | None = None) -> None:
        """Replaces the line.

        Args:
            text: What is being done.
            done: Progress from 0 to 1, shown as a bar, or `None`.
        """
        if self.screen.width is None or os.environ.get("TERM") == "dumb" or OPEN_QUESTIONS:
            return
        filled = round(_BAR * min(max(done or 0.0, 0.0), 1.0))
        bar = "" if done is None else f"[{'#' * filled}{'-' * (_BAR - filled)}] "
        line = fit(bar + visible(" ".join(text.split())), self.screen.width - 1)
        self._write(f"\r{line}{' ' * (self._shown - cells(line))}")
        self._shown = cells(line)

    def clear(self) -> None:
        """Erases the line."""
        if self._shown:
            self._write(f"\r{' ' * self._shown}\r")
            self._shown = 0

    def __enter__(self) -> Self:
        if self.screen.is_terminal:  # logs and prints of tools erase the line first
            sys.stderr = cast("Any", _StreamProxy(lambda: self.clear() or self._real))
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        if isinstance(sys.stderr, _StreamProxy):
            sys.stderr = self._real

    def _write(self, text: str) -> None:
        self._real.write(text)
        self._real.flush()


class _StreamProxy:
    """Proxy of a standard stream, looked up at each use: references that modules took at import stay valid."""

    def __init__(self, stream: Callable[[], Any]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream(), name)


_redirected: tuple[Any, int | None] | None = None
"""The real standard output while it is redirected, and the duplicate of its descriptor if that is redirected, too."""


@contextmanager
def redirect_stdout() -> Generator[None]:
    """Redirects `sys.stdout`, and file descriptor 1 if it writes to that, to standard error.

    Child processes inherit the redirection. Nested use does nothing. If standard error is closed, the target is the
    null device: descriptor 2 may be any file.
    """
    global _redirected  # noqa: PLW0603  one a process, as `sys.stdout`
    real: Any = sys.stdout
    if _redirected is not None or real is None:
        yield
        return
    real.flush()
    with ExitStack() as stack:
        no_stderr: bool = sys.stderr is None  # pyright: ignore[reportUnnecessaryComparison]  so it is where it is closed
        aside = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8")) if no_stderr else None
        descriptor = None
        with suppress(OSError, ValueError, AttributeError):  # not a file, or closed
            descriptor = os.dup(1) if real.fileno() == 1 else None
        if descriptor is not None:
            os.dup2(2 if aside is None else aside.fileno(), 1)
        _redirected = real, descriptor
        proxy: Any = _StreamProxy(lambda: real if _redirected is None else aside or sys.stderr)
        sys.stdout = proxy
        try:
            yield
        finally:
            _redirected = None
            if sys.stdout is proxy:
                sys.stdout = real
            if descriptor is not None:
                with suppress(OSError):
                    real.flush()  # text that bypassed the proxy (`sys.__stdout__`) is redirected too
                os.dup2(descriptor, 1)
                os.close(descriptor)


def write_unbuffered(text: str) -> None:
    """Writes to the real standard output, unbuffered, even while it is redirected."""
    real, descriptor = _redirected or (sys.stdout, None)
    if descriptor is None:
        real.write(text)
        real.flush()
        return
    data = text.encode(real.encoding, errors=real.errors or "strict")
    while data:
        data = data[os.write(descriptor, data) :]


def one_line(text: str) -> str:
    """A text on one line, its hidden characters visible."""
    return visible(_join(text))


def _join(text: str) -> str:
    return " ".join(text.split())


def block(text: str, screen: Screen = PLAIN, *, indent: str = "", style: str = "", is_visible: bool = False) -> str:
    """Indented lines, wrapped to the screen, their hidden characters visible."""
    if not text:
        return ""
    width = None if screen.width is None else max(screen.width - len(indent), LEAST_WIDTH)
    lines = wrap_text((text if is_visible else visible(text, newlines=True)).removesuffix("\n"), width)
    return "".join(f"{indent}{screen.styled(line, style)}\n" for line in lines)


def rows_text(head: Sequence[str], rows: Iterable[Sequence[str]], screen: Screen = PLAIN) -> str:
    """A table as wide as the screen; without a width, one line a row."""
    shown = [[one_line(cell) for cell in row] for row in rows]
    return table(head, shown, width=screen.width or _UNCUT, colour=screen.colour)


def tools_text(tools: Iterable[Tool], screen: Screen = PLAIN) -> str:
    """A table of tools as wide as the screen, with their number."""
    from pegboard.cli.tool_texts import listing_rows

    return tool_table(listing_rows(tools), width=screen.width or _UNCUT, colour=screen.colour)


def json_line(value: Any) -> str:
    """JSON on one line."""
    return visible_json(_compact(value)) + "\n"


def json_pretty(value: Any) -> str:
    """Indented JSON; values that JSON lacks (dates of TOML) as text."""

    def in_json(value: Any) -> Any:
        return {**value} if isinstance(value, Mapping) else str(value)  # pyright: ignore[reportUnknownVariableType]

    return visible_json(json.dumps(value, ensure_ascii=False, indent=2, default=in_json))


def json_rows(key: str, values: Iterable[Any]) -> str:
    """A JSON object with one key, a list, written one value per line."""
    lines = ",\n".join(json_line(value)[:-1] for value in values)
    return f'{{"{key}":[\n{lines}\n]}}\n' if lines else f'{{"{key}":[]}}\n'


def result_text(result: ToolResult, screen: Screen = PLAIN) -> str:
    """The text of a result; for a terminal, with hidden characters visible."""
    texts = [text for text in _texts(result) if text]
    if screen.is_terminal:  # \r\n is a line end, not a hidden character
        return "".join(block(text.replace("\r\n", "\n"), Screen(colour=screen.colour)) for text in texts)
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts)


def image_escapes(result: ToolResult, screen: Screen, environ: Mapping[str, str] = os.environ) -> str:
    """Escape sequences that display a result's images, or `""` if the terminal can't.

    Kitty and Ghostty take PNG by kitty's graphics protocol; iTerm2, WezTerm and others any format by iTerm2's.
    """
    images: list[Any] = [one for one in result.content if one.type == "image"]
    program = environ.get("TERM_PROGRAM", "")
    if not (images and screen.is_terminal) or "TMUX" in environ:  # tmux supports neither protocol
        return ""
    if "KITTY_WINDOW_ID" in environ or program == "ghostty":
        shown: list[str] = []
        for data in (b64encode(one.data).decode() for one in images if one.mime_type == "image/png"):
            starts = range(0, len(data), _CHUNK)  # each chunk says whether more follow
            pieces = (f"m={int(start != starts[-1])};{data[start : start + _CHUNK]}" for start in starts)
            shown.append("\x1b_Ga=T,f=100," + "\x1b\\\x1b_G".join(pieces) + "\x1b\\\n")
        return "".join(shown)
    if program in _SHOW_IMAGES or environ.get("LC_TERMINAL") == "iTerm2":
        return "".join(
            f"\x1b]1337;File=inline=1;size={len(one.data)}:{b64encode(one.data).decode()}\a\n" for one in images
        )
    return ""


def failure_text(result: ToolResult, screen: Screen = PLAIN) -> str:
    """The error of a failed call, in red: its kind and the text for the model."""
    head = f"error ({result.kind}): " if result.kind else "error: "
    return block(head + "\n".join(_texts(result)), screen, style="red")


def _texts(result: ToolResult) -> list[str]:
    if result.display is not None:
        return [result.display]
    data = result.structured_content
    texts = [_content_text(item) for item in result.content if data is None or not _is_json_of(item, data)]
    if texts or data is None:
        return texts
    # A lone `result` is unwrapped, and a string in it printed without quotes.
    value = data["result"] if is_object(data) and list(data) == ["result"] else data
    return [value if isinstance(value, str) else json_pretty(value)]


def _is_json_of(item: object, data: Any) -> bool:
    try:
        return json.loads(getattr(item, "text", "")) == data
    except (ValueError, RecursionError):
        return False


def _content_text(item: Any) -> str:
    """The text of a text part; a placeholder with type and size for other parts."""
    if item.type == "text":
        return item.text
    if item.type == "resource_link":
        return f"[link {_join(item.name)} {_join(item.uri)}]"
    head = f"file {_join(item.uri)}" if item.type == "resource" else item.type
    if isinstance(item.data, str):
        return f"[{head}]\n{item.data}"
    return f"[{head} {_join(item.mime_type or '')}, {size_text(len(item.data))}]"


def report_error(error: Exception, options: Options) -> int:
    """Reports an error on standard error, with `--debug` including its traceback.

    Returns:
        The exit code: 2 for usage errors, 1 for all others.
    """
    if options.debug:
        import traceback

        traceback.print_exception(error)
    match error:
        case click.exceptions.NoArgsIsHelpError():
            write_note(error.format_message())
        case click.UsageError():
            command = error.ctx.command_path if error.ctx else "registry"
            complain(f"{error.format_message()}\nTry '{command} --help'.")
        case click.ClickException():
            complain(error.format_message())
        case UnknownToolError():
            complain(f"{error}\n'registry list' lists the tools.")
        case OSError(filename=None, errno=errno.ENOSPC | errno.EFBIG | errno.EIO):
            complain(f"can't write to standard output: {error.strerror}")
        case OSError() if error.filename is not None:
            complain(f"{error.filename}: {error.strerror}")
        case PegboardError() | OSError():
            complain(str(error))
        case _:
            bug = "This is a bug in pegboard; --debug shows the traceback."
            complain(f"unexpected {type(error).__name__}: {error}\n{bug}")
    return 2 if isinstance(error, (click.ClickException, *MISUSES)) else 1


def write_error(text: str) -> None:
    """Writes a text to standard error, without colours if it doesn't take them."""
    click.echo(text, nl=False, err=True, color=stderr_screen().colour)


def complain(text: str) -> None:
    """Writes an error to standard error, in red."""
    write_error(block(f"error: {text}", stderr_screen(), style="red"))


def write_note(text: str, *, is_visible: bool = False) -> None:
    """Writes a notice to standard error."""
    write_error(block(text, stderr_screen(), is_visible=is_visible))
