"""Runs a program: never by a shell, with named variables only, and as it was trusted."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from attrs import field, frozen

from pegboard import Problem, ReadonlyContext, ToolContext, ToolsetBase, ToolsetResult
from pegboard.config import may_bind, trust_file
from pegboard.programs import OutputBuffer, ProcessTree, RunningProgram
from pegboard_commands.interpreters import HOLE, PYTHONS, code_files, interpreters

_MOST_BYTES: Final = 1_000_000  # that a program may write to each of its outputs before it is ended
_DRAIN_SECONDS: Final = 0.5  # how long its processes may hold its output open once it has exited
_GRACE: Final = 1.0  # seconds between `SIGTERM` and `SIGKILL`
_INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
_BETWEEN: Final = re.compile(rf"{HOLE}[^{HOLE}]*{HOLE}|[\s=:,;@'\"`()<>|&]+")


@frozen(kw_only=True)
class ProgramSettings:
    """Settings of how a program is started.

    Attributes:
        env: Further variables for it; every program gets `HOME`, `PATH` and a few more.
        inherit: Names of variables of this process that it inherits.
        cwd: The folder that it runs in; `None` is the call's folder, else the process's.
    """

    env: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    inherit: tuple[str, ...] = ()
    cwd: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.cwd is not None and not Path(self.cwd).expanduser().is_absolute():
            raise ValueError(
                f"cwd: {self.cwd!r:.200} isn't an absolute path; without cwd, programs run in the folder of the call"
            )
        if not all(isinstance(value, str) for value in cast("Mapping[str, object]", self.env).values()):
            raise ValueError("env: values have to be texts")

    def environment(self, words: Sequence[str], **more: str) -> dict[str, str]:
        """The environment of the program; with it, Python without a script imports nothing from the call's folder."""
        if self.cwd is None and any(each.name in PYTHONS and each.script is None for each in interpreters(words)):
            more["PYTHONSAFEPATH"] = "1"
        return {**_inherit(_INHERITED), **more, **self._own}

    @property
    def _own(self) -> dict[str, str]:
        return {**_inherit(self.inherit), **self.env}

    def folder(self, of_call: str | None) -> str | None:
        """The folder that it runs in."""
        return of_call if self.cwd is None else str(Path(self.cwd).expanduser())

    def files(self, words: Sequence[str], of_call: str | None = None) -> set[str]:
        """The existing files that its words and variables name, and all programs and scripts that it runs."""
        run = _paths(code_files(words), self.folder(None))
        return {*run, *_files_in(words, self.folder(None)), *_files_in(self._own.values(), self.folder(of_call))}

    def check_runs(self, words: Sequence[str], of_call: str | None = None) -> None:
        """Raises `OSError` for a missing program or script, and for a file that isn't trusted as it is.

        That is any file of a project that the words or a variable name, in whole or in part: a script after `sh`,
        `find -exec` or `make -f`, and also one that is only read.
        """
        program_path(words[0])
        self.check_files(words, of_call)

    def check_files(self, words: Sequence[str], of_call: str | None = None) -> None:
        """As `check_runs`, for a program that is known to exist."""
        for file in sorted(self.files(words, of_call)):
            os.stat(file)  # noqa: PTH116  a text
            if not may_bind(file):
                trust = f"review it, then run: registry config trust {shlex.quote(file)}"
                raise PermissionError(f"{file} belongs to a project, and isn't trusted as it is now; {trust}")


def trace_variables(context: ToolContext) -> dict[str, str]:
    """The trace context of a call, by the names that OpenTelemetry has for the environment: `TRACEPARENT`."""
    return {name.upper(): value for name, value in context.trace.items()}


def _inherit(names: Iterable[str]) -> dict[str, str]:
    return {name: value for name in names if (value := os.environ.get(name)) is not None}


def _paths(names: Iterable[str], folder: str | None) -> Iterator[str]:
    paths = (os.path.join(folder or "", os.path.expanduser(name)) for name in names)  # noqa: PTH111, PTH118  texts
    return filter(os.path.isabs, paths)


def _files_in(texts: Iterable[str], folder: str | None) -> Iterator[str]:
    """The files that texts name: in whole, in part, or after the letters of an option."""
    for text in texts:
        words = [text, *_BETWEEN.split(text)]
        words += [word[at:] for word in words if word.startswith(("-", "+")) for at in range(2, 8)]
        yield from (path for path in _paths(words, folder) if os.path.exists(path) and not os.path.isdir(path))  # noqa: PTH110, PTH112  texts


def check_program(words: Sequence[str], cwd: str | None) -> None:
    """Raises `ValueError` for a program or script that would be looked up in the call's folder."""
    if os.sep in words[0] and not words[0].startswith(("/", "~/")):
        raise ValueError(
            f"{words[0]!r:.200} is a relative path; write its absolute path, or the name of a program on PATH"
        )
    for file in code_files(words):
        if cwd is None and not file.startswith(("/", "~/")):
            raise ValueError(
                f"{file!r:.200} would be looked for in each call's folder; write its absolute path, or set cwd"
            )


def program_path(name: str) -> str:
    """The path of a program, looked up in the absolute folders of `PATH`.

    Raises:
        FileNotFoundError: There is none.
    """
    found = shutil.which(os.path.expanduser(name), path=os.pathsep.join(_folders()))  # noqa: PTH111  a text is wanted
    if found is None:
        raise FileNotFoundError(f"there is no program {name!r:.200} that can be run; install it, or correct its name")
    return found


def _folders() -> list[str]:
    return [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each.startswith("/")]


@frozen
class Finished:
    """Result of a program.

    Attributes:
        code: Its exit code; negative for a signal.
        stdout: Its standard output, up to the limit.
        stderr: Its standard error, likewise.
        ended: Why it was ended, such as `"took more than 10 s"`; or `None`.
    """

    code: int | None
    stdout: bytes
    stderr: bytes
    ended: str | None = None


def start_program(
    words: Sequence[str],
    *,
    given: bytes | None = None,
    seconds: float,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> RunningProgram[OutputBuffer]:
    """Starts a program, with its process group, which ends with it; processes that leave the group survive.

    Args:
        words: The program and its arguments.
        given: Its standard input; `None` is empty.
        seconds: How long it may take.
        cwd: The folder that it runs in.
        env: Its environment.

    Raises:
        OSError: There is no such program.
    """
    output, errors = OutputBuffer(_MOST_BYTES, _MOST_BYTES), OutputBuffer(_MOST_BYTES, _MOST_BYTES)
    program = RunningProgram(
        [program_path(words[0]), *words[1:]],
        output,
        errors=errors,
        env=env,
        folder=cwd,
        stdin=given or b"",
        limit=seconds,
        grace=_GRACE,
        linger=_DRAIN_SECONDS,
        ends_floods=True,
        tree=ProcessTree(finds_daemons=False),
    )
    program.start()
    return program


def result_of(program: RunningProgram[OutputBuffer]) -> Finished:
    """The result of a program that has ended, or couldn't be ended.

    Raises:
        OSError: It couldn't be started.
        ValueError: An argument has a NUL character.
    """
    if program.pid is None and program.failure is not None:
        raise program.failure
    ended = None if program.is_over and not program.timed_out else f"took more than {program.limit:g} s"
    if program.flooded:
        ended = f"wrote more than {_MOST_BYTES:,} bytes"
    return Finished(program.code, bytes(program.output.head), bytes((program.errors or program.output).head), ended)


async def run_program(words: Sequence[str], **options: Any) -> Finished:
    """Runs a program to its end; takes what `start_program` does, and raises what `result_of` does."""
    program = start_program(words, **options)
    await program.wait()
    return result_of(program)


class Programs(ToolsetBase):
    """Toolset without tools, which reports the programs of the settings that can't be run.

    Args:
        programs: By the place in the settings, a program's words, with holes, and its settings.
        name: The toolset's name.
        problems: More problems to report.
    """

    def __init__(
        self, programs: Mapping[str, tuple[Sequence[str], ProgramSettings]], name: str, problems: Sequence[str] = ()
    ) -> None:
        self.name = name
        self._programs = programs
        self._causes = problems

    @property
    def publishes(self) -> list[str]:
        """The paths that the problems depend on: folders of `PATH`, files of the programs, and the list of trust."""
        paths = [path for words, settings in self._programs.values() for path in settings.files(words)]
        return [*_folders(), *paths, str(trust_file())]

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """No tools, and a problem for each program that can't be run."""
        del context
        return ToolsetResult((), [*map(Problem, self._causes), *self._problems()])

    def _problems(self) -> Iterator[Problem]:
        for place, (words, settings) in self._programs.items():
            try:
                settings.check_runs(words)
            except OSError as error:
                yield Problem(f"{place}: {error}")
