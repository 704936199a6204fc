"""The warm command: `list`, `search`, `show`, `schema`, `--version` and completion, answered from the listing snapshot.

It imports little beyond what Python's startup loads, and declines everything but the options in `WARM_OPTIONS`; then
the full command answers. Its answers must be exactly those of the full command.
"""

from __future__ import annotations

import os
import sys

from pegboard.plugins.snapshot import Snapshot, open_snapshot, snapshot_place

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    Texts: TypeAlias = tuple[bytes | Iterable[bytes], bytes]  # for standard output, perhaps in pieces, and error

WARM_OPTIONS: dict[str, dict[str, bool]] = {
    "": {"--version": False},
    "list": {"--json": False, "--names": False, "--plugin": True},
    "search": {"--json": False, "--limit": True},
    "show": {"--json": False},
    "schema": {},
}
"""Command -> option -> whether the option takes a value; `""` is `registry` without a command."""
TOOL_COMMANDS = {"list": True, "show": False, "schema": False, "explain": False, "call": False}
"""Commands whose arguments complete to tool names -> whether all of them do, or only the first."""
COMPLETE_VARIABLE = "_REGISTRY_COMPLETE"
SEARCH_LIMIT = 10  # how many tools `search` shows by default


class Declined(Exception):  # noqa: N818  not an error: the full command answers instead
    """The full command has to answer."""


def answer(argv: Sequence[str]) -> int | None:
    """Answers a command line from the snapshot; `None` if the full command has to: then nothing was printed."""
    instruction = os.environ.get(COMPLETE_VARIABLE)
    try:
        request = _read(argv) if instruction is None else None
    except Declined:
        return None
    place = snapshot_place()
    snapshot = None if place is None else open_snapshot(place)
    if snapshot is None:
        return None
    try:
        texts = (
            _complete(snapshot, instruction or "") if request is None else _ANSWERS[request[0]](snapshot, *request[1:])
        )
    except (Declined, OSError, ValueError):  # damaged: it will be rewritten
        return None
    else:
        return _write(*texts)
    finally:
        snapshot.close()


def _read(argv: Sequence[str]) -> tuple[str, dict[str, str], list[str]]:
    """Parses command, options and arguments as click would, or declines."""
    command = argv[0] if argv and not argv[0].startswith("-") else ""
    known = WARM_OPTIONS.get(command)
    if known is None:
        raise Declined
    options: dict[str, str] = {}
    arguments: list[str] = []
    rest = iter(argv[1:] if command else argv)
    for word in rest:
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            arguments.append(word)
        elif name not in known or name in options or (equals and not known[name]):
            raise Declined
        else:
            options[name] = value if equals or not known[name] else next(rest, "")
            if known[name] and not options[name]:
                raise Declined
    return command, options, arguments


def _bare(snapshot: Snapshot, options: dict[str, str], arguments: list[str]) -> Texts:
    if arguments:
        raise Declined
    return (snapshot.section(b"version") + b"\n", b"") if options else _list(snapshot, options, arguments)


def _list(snapshot: Snapshot, options: dict[str, str], arguments: list[str]) -> Texts:
    if "--json" in options and "--names" in options:
        raise Declined
    if "--json" in options and not arguments and "--plugin" not in options:
        return snapshot.pieces(b"json"), b""
    lines = _lines(snapshot)
    places = sorted(_places(lines, set(arguments))) if arguments else list(range(len(lines)))
    if (plugin := options.get("--plugin")) is not None:
        places = [place for place in places if lines[place].split(b"\t", 2)[1] == os.fsencode(plugin)]
    return _listing(snapshot, options, lines, places)


def _lines(snapshot: Snapshot) -> list[bytes]:
    """One line per tool: name, plugin and summary."""
    return snapshot.section(b"plain").splitlines(keepends=True)


def _name(line: bytes) -> bytes:
    return line.partition(b"\t")[0]


def _places(lines: list[bytes], names: Iterable[str]) -> list[int]:
    known = {_name(line): place for place, line in enumerate(lines)}
    try:
        return [known[os.fsencode(name)] for name in names]
    except KeyError:
        raise Declined from None


def _text(snapshot: Snapshot, kind: bytes, arguments: list[str]) -> Texts:
    """The text of one kind of the only tool that is named."""
    if len(arguments) != 1:
        raise Declined
    (place,) = _places(_lines(snapshot), arguments)
    return snapshot.section(kind).split(b"\0")[place], b""


def _listing(snapshot: Snapshot, options: dict[str, str], lines: list[bytes], places: list[int]) -> Texts:
    """The tools at some places, at least one: as JSON, names or lines; for a terminal, as a table."""
    if not places:
        raise Declined  # the full command explains why, and suggests near names
    if "--json" in options:  # the object of `list --json`, without the lines of the others
        head, *tools, tail = snapshot.section(b"json").splitlines()
        listed = b",\n".join([tools[place].removesuffix(b",") for place in places])
        return b"\n".join((head, listed, tail, b"")), b""
    chosen, notice = [lines[place] for place in places], snapshot.section(b"notice")
    if "--names" in options:
        return b"".join(_name(line) + b"\n" for line in chosen), notice
    if not sys.stdout.isatty():
        return b"".join(chosen), notice
    from pegboard.cli.table import terminal_width, tool_table, wants_colour

    rows = [line.decode().rstrip("\n").split("\t") for line in chosen]
    width = terminal_width(sys.stdout.fileno())
    return tool_table(rows, width=width, colour=wants_colour(on_terminal=True)).encode(), notice


def _search(snapshot: Snapshot, options: dict[str, str], arguments: list[str]) -> Texts:
    limit, index = options.get("--limit", str(SEARCH_LIMIT)), snapshot.section(b"index")
    if not index or not arguments or not (limit.isascii() and limit.isdigit() and len(limit) <= 3):
        raise Declined
    names = _rank_names(index, " ".join(arguments), int(limit)) if int(limit) else []
    lines = _lines(snapshot)
    return _listing(snapshot, options, lines, _places(lines, names))


def _rank_names(index: bytes, text: str, limit: int) -> list[str]:
    """The names that match a query, best first; the index is that of `ToolIndex.dump`."""
    import sqlite3

    from pegboard.toolsets.search_table import best

    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(index)
        return [name for name, _ in best(connection, text, limit)]
    except sqlite3.Error:
        return []
    finally:
        connection.close()


_ANSWERS: dict[str, Callable[[Snapshot, dict[str, str], list[str]], Texts]] = {
    "": _bare,
    "list": _list,
    "search": _search,
    "show": lambda snapshot, options, names: _text(snapshot, b"full" if "--json" in options else b"shown", names),
    "schema": lambda snapshot, _options, names: _text(snapshot, b"schema", names),
}


def _complete(snapshot: Snapshot, instruction: str) -> Texts:
    """Answers a shell's completion function: one line per candidate."""
    line = os.environ.get("COMP_WORDS", "")  # up to the cursor
    if instruction != "complete" or any(character in line for character in "\"'\\"):
        raise Declined
    before, word = line.split()[1:], ""
    if before and not line[-1].isspace():
        word = before.pop()
    if word.startswith("-") or any(earlier.startswith("-") for earlier in before):
        raise Declined
    if before and (before[0] not in TOOL_COMMANDS or (len(before) > 1 and not TOOL_COMMANDS[before[0]])):
        raise Declined
    section = snapshot.section(b"plain" if before else b"commands")
    offered = [line.decode().split("\t") for line in section.splitlines()]
    if not offered:
        raise Declined
    items = [f"plain,{name}\t{words[-1]}".rstrip("\t") for name, *words in offered if name.startswith(word)]
    return "\n".join(items).encode() + b"\n", b""


def _write(out: bytes | Iterable[bytes], err: bytes) -> int | None:
    """Writes both outputs, the first perhaps in pieces; a closed pipe isn't an error."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None or sys.stdout.encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
        return None
    try:
        for piece in (out,) if isinstance(out, bytes) else out:
            stream.write(piece)
        stream.flush()
    except BrokenPipeError:
        quiet_stdout()
        return 0
    except OSError as error:
        quiet_stdout()
        if sys.stderr is not None:
            sys.stderr.write(f"error: can't write to standard output: {error.strerror or error}\n")
        return 1
    if err and sys.stderr is not None:
        sys.stderr.write(_notice(err.decode()))
    return 0


def _notice(text: str) -> str:
    """What standard error gets: the lines, wrapped for a terminal."""
    if not sys.stderr.isatty():
        return text
    from pegboard.cli.table import LEAST_WIDTH, terminal_width, wrap_text

    return "\n".join(wrap_text(text, max(terminal_width(sys.stderr.fileno()), LEAST_WIDTH)))


def quiet_stdout() -> None:
    """Redirects standard output, a broken pipe, to the null device: flushing it at exit would raise."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
