"""click and typer programs as tools: each command is one, with its parameters as arguments, and runs as a process."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, cast

from attrs import frozen

from pegboard import (
    PegboardError,
    Preview,
    Problem,
    ReadonlyContext,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    ToolsetBase,
)
from pegboard.json import strict_json
from pegboard.programs import OutputBuffer, RunningProgram
from pegboard.schema.converter import read_record
from pegboard.threads import run_in_thread
from pegboard.tools import is_valid_name, mapped_name
from pegboard.toolsets import ToolsetResult
from pegboard_commands.command_tools import LATER_SECONDS, PLAIN_OUTPUT, tool_result
from pegboard_commands.file_tools import stamp_of
from pegboard_commands.program import ProgramSettings, result_of, run_program, start_program, trace_variables

READ_SECONDS: Final = 20.0
"""How long to wait for the commands: less than the 30 seconds that a resolution gives its toolsets."""

MOST_READ_SECONDS: Final = 60.0
"""How long importing a program may take."""

_PROGRAM: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_MOST_FILES: Final = 500


@frozen(kw_only=True)
class ClickSettings(ProgramSettings):
    """A click or typer program whose commands are tools.

    Attributes:
        program: `"MODULE:NAME"`: a click command or group, or a `typer.Typer`.
        name: The prefix of the names of its tools; by default the name of the package.
        timeout: Seconds that a call may take.
        permission: The permission that a call needs; `""` is none. Rules see the program and its arguments as a
            command: `shop.cli:app orders --limit=3`.
    """

    program: str
    name: str | None = None
    timeout: float = 60.0
    permission: str = "shell"

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not _PROGRAM.fullmatch(self.program):
            raise ValueError(f'program: {self.program!r:.200} isn\'t the name of a program, as in "module:group"')
        if not 0 < self.timeout <= 86_400:
            raise ValueError(f"timeout: it has to be more than 0 and at most 86,400 seconds, not {self.timeout:g}")
        if not is_valid_name(self.prefix):
            raise ValueError(f"name: {self.prefix!r:.80} can't begin tools' names: use letters, digits, '_' and '-'")

    @property
    def prefix(self) -> str:
        """How the names of its tools begin."""
        return self.program.partition(":")[0].partition(".")[0] if self.name is None else self.name

    def own_environment(self) -> dict[str, str]:
        """Its environment: with the folders that this Python was told to import from, but none of the call."""
        folders = os.pathsep.join(_absolute(os.environ.get("PYTHONPATH", "").split(os.pathsep)))
        more = {"PYTHONPATH": folders} if folders else {}
        return self.environment((), **PLAIN_OUTPUT, **more)

    def python(self, module: str, *arguments: str) -> list[str]:
        """The command that runs a module of this package for the program; nothing of the call's folder is imported."""
        return [sys.executable, "-P", "-m", f"pegboard_commands.{module}", self.program, *arguments]


@frozen(kw_only=True)
class _Parameter:
    name: str
    kind: Literal["flag", "count", "option", "argument"]
    required: bool
    schema: Mapping[str, Any]
    nargs: int = 1
    option: str = ""
    off: str | None = None
    multiple: bool = False

    def words(self, value: Any) -> Iterator[str]:
        """The words that set it. A value that begins with `-` can't become an option."""
        if self.kind == "flag":
            yield from [self.option] if value else filter(None, [self.off])
        elif self.kind == "count":
            yield from [self.option] * value
        else:
            for each in value if self.multiple else [value]:
                yield from self._words_of_one(each)

    def _words_of_one(self, value: Any) -> list[str]:
        texts = [*map(_text_of, value if isinstance(value, list) else [value])]  # pyright: ignore[reportUnknownArgumentType]  validated
        if self.kind == "argument":
            return texts
        if self.nargs == 1 and len(self.option) > 2:
            return [f"{self.option}={texts[0]}"]
        return [self.option, *texts]  # it takes as many words, whatever they begin with


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@frozen(kw_only=True)
class _Level:
    """A command or one of its groups."""

    word: str
    parameters: tuple[_Parameter, ...]

    def words(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        """The options and arguments for a call."""
        given = [(each, arguments[each.name]) for each in self.parameters if each.name in arguments]
        for each, value in given:
            if each.kind != "argument":
                yield from each.words(value)
        operands = [word for each, value in given if each.kind == "argument" for word in each.words(value)]
        yield from ["--", *operands] if operands else []

    def problems(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        """Problems of arguments that can't be given without earlier ones."""
        missing = None
        for each in self.parameters:
            if each.kind == "argument" and each.name in arguments and missing is not None:
                yield f"{missing}: is needed, too, since it comes before {each.name}"
            elif each.kind == "argument" and each.name not in arguments and each.nargs != -1:
                missing = missing or each.name


@frozen(kw_only=True)
class _Command:
    words: tuple[str, ...]
    levels: tuple[_Level, ...]
    description: str

    def line(self, program: str, arguments: Mapping[str, Any]) -> list[str]:
        """The program with the words of a call."""
        return [program, *islice(self._words(arguments), 1, None)]

    def _words(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        for level in self.levels:
            yield level.word
            yield from level.words(arguments)

    def problems(self, arguments: Mapping[str, Any]) -> list[str]:
        """Problems of valid arguments that the program can't be given."""
        found = [problem for level in self.levels for problem in level.problems(arguments)]
        if any("\0" in word for word in self._words(arguments)):
            found.append("an argument has a NUL character, which no program can be given")
        return found

    @property
    def schema(self) -> dict[str, Any]:
        """The tool's input schema."""
        parameters = [each for level in self.levels for each in level.parameters]
        return {
            "type": "object",
            "properties": {each.name: dict(each.schema) for each in parameters},
            "required": [each.name for each in parameters if each.required],
            "additionalProperties": False,
        }


@frozen(kw_only=True)
class _Listing:
    commands: tuple[_Command, ...]
    problems: tuple[str, ...]


def _tool(settings: ClickSettings, command: _Command) -> Tool:
    name = mapped_name("_".join([settings.prefix, *command.words]).replace("-", "_"))
    title = " ".join([settings.prefix, *command.words])

    def line(arguments: Mapping[str, Any]) -> list[str]:
        return command.line(settings.program, arguments)

    def preview(arguments: Mapping[str, Any]) -> Preview:
        return Preview(shlex.join(line(arguments)))

    async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        words = line(arguments)
        try:
            settings.check_files((), context.work_dir)
            finished = await run_program(
                settings.python("run_click", *words[1:]),
                seconds=settings.timeout,
                cwd=settings.folder(context.work_dir),
                env=settings.own_environment() | trace_variables(context),
            )
        except OSError as error:
            raise ToolError(f"{name} can't run: {error}. Continue without this tool, or tell the user.") from error
        return tool_result(title, words, finished)

    return Tool.from_schema(
        name,
        command.schema,
        run,
        description=command.description or f"Runs {title}.",
        title=title,
        concurrency="exclusive",
        permission=settings.permission or None,
        permission_arguments={"command": "command"},
        permission_values=lambda arguments, _context: {"command": line(arguments)},
        preview=preview,
        check=command.problems,
        timeout=settings.timeout + LATER_SECONDS,
    )


class ClickToolset(ToolsetBase):
    """The commands of a click or typer program as tools: read in a child process, and run as processes.

    A child process reads the commands again once files of the program have changed. What is wrong with a program that
    fails, exits or hangs while it is imported is reported.

    Args:
        settings: The program.
    """

    def __init__(self, settings: ClickSettings) -> None:
        self.name = settings.program
        self._settings = settings
        self._stamps: Mapping[str, Any] = {}
        self._reader: RunningProgram[OutputBuffer] | None = None
        self._offer: tuple[RunningProgram[OutputBuffer], ToolsetResult] | None = None  # what a reader has read
        self._changing = threading.Lock()

    @property
    def publishes(self) -> list[str]:
        """The files that its commands are read from: those of its package, which isn't imported."""
        places = self._places()
        if not places:
            return _absolute(sys.path)  # where it may be installed
        found = (path for place in places for path in ([place] if place.is_file() else place.rglob("*.py")))
        return sorted(map(str, islice(found, _MOST_FILES)))

    @property
    def identity(self) -> dict[str, Any]:
        """The program, and where its code is."""
        return {"program": self._settings.program, "code": [*map(str, self._places())]}

    def _places(self) -> list[Path]:
        """The folders of the program's package, or the file of its module; none if it isn't installed."""
        try:
            spec = find_spec(self._settings.program.partition(":")[0].partition(".")[0])
        except ValueError:  # a module without one, such as `__main__`
            return []
        if spec is None:
            return []
        places = [spec.origin or ""] if spec.submodule_search_locations is None else spec.submodule_search_locations
        return [Path(place) for place in _absolute(places)]

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The tools of its commands, once they were read."""
        del context
        try:
            reader = await run_in_thread(self._current_reader)
            if not await reader.until(None, READ_SECONDS):
                return _problem("it is still loading; its tools are added once it has finished")
            if self._offer is None or self._offer[0] is not reader:
                self._offer = reader, self._read(reader)
        except OSError as error:
            return _problem(str(error))
        return self._offer[1]

    def close(self) -> None:
        """Ends the process that reads it."""
        if self._reader is not None:
            self._reader.end(now=True)

    def _current_reader(self) -> RunningProgram[OutputBuffer]:
        """The process that reads the commands from the files as they are now.

        Raises:
            OSError: It can't be run.
        """
        with self._changing:
            stamps = {path: stamp_of(path) for path in self.publishes}
            if self._reader is None or stamps != self._stamps:
                self._settings.check_files(())
                self._stamps = stamps
                self._reader = start_program(
                    self._settings.python("read_click"),
                    seconds=MOST_READ_SECONDS,
                    cwd=self._settings.folder(None),
                    env=self._settings.own_environment(),
                )
            return self._reader

    def _read(self, reader: RunningProgram[OutputBuffer]) -> ToolsetResult:
        finished = result_of(reader)
        if finished.ended is not None:
            return _problem(f"reading its commands {finished.ended}, and was ended")
        if finished.code != 0 or not finished.stdout:
            lines = finished.stderr.decode(errors="replace").strip().splitlines()
            return _problem(f"it ended with exit code {finished.code} while it was loaded: {(lines or [''])[-1]:.500}")
        try:
            listing = read_record(_Listing, strict_json(finished.stdout), "commands")
        except (ValueError, RecursionError) as error:
            return _problem(f"its commands can't be read: {error}")
        tools: list[Tool] = []
        problems = [*map(Problem, listing.problems)]
        for command in listing.commands:
            try:
                tools.append(_tool(self._settings, command))
            except PegboardError as error:
                problems.append(Problem(f"command {' '.join(command.words)!r}: {error}"))
        return ToolsetResult(tools, problems)


def _problem(text: str) -> ToolsetResult:
    return ToolsetResult((), [Problem(text)])


def _absolute(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if os.path.isabs(path)]  # noqa: PTH117  texts


def read_click_settings(item: Any, place: str) -> ClickSettings:
    """The settings of a program: its name, or a table.

    Raises:
        ValueError: They are invalid.
    """
    from pegboard.schema.converter import read_table

    table = {"program": item} if isinstance(item, str) else cast("Mapping[str, Any]", item)
    return read_table(ClickSettings, table, place)
