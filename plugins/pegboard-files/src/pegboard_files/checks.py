"""Checks after a change: the user's programs that examine or format each changed file.

A check never fails the change, which has been made: what goes wrong with it is a part of the result.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import define, evolve, frozen

from pegboard import ToolContext, ToolError
from pegboard.errors import operator_log
from pegboard.text import visible
from pegboard_files.editing import EditedText, diff_of
from pegboard_files.patterns import Globs, globs
from pegboard_files.root import Deadline, path_label
from pegboard_files.text import BinaryFileError
from pegboard_files.writing import Change, FileState, Stamp, read_state, stamp_of

if TYPE_CHECKING:
    from pegboard_commands import ToolSettings
    from pegboard_commands.program import Finished

MOST_FINDINGS: Final = 5_000
"""Characters of one program's output that the model reads."""

MOST_TEXT: Final = 20_000
"""Characters of all output of one call's checks, and of the diffs of what they changed."""

_MOST_COMMAND: Final = 300

_SYNTAX_CHECKS: Final = {"sh -n", "bash -n", "zsh -n", "node --check", "php -l", "deno check", "deno fmt", "deno lint"}
"""The first two words of the commands with which an interpreter only examines a file."""

_RUN_A_FILE: Final = {"runpy", "pdb", "cProfile", "profile", "trace"}
"""Modules of Python that run a file."""

_PLACE: Final = "plugins.files.checks"
_SPARED: Final = 3.0  # seconds of the call that remain for ending a program, and for the diffs
_LEAST_SECONDS: Final = 0.1
_DIFF_SECONDS: Final = 1.0  # how long a diff may take
_DEATH_SECONDS: Final = 7.0  # how long a program may take to end after its limit, with its grace
_POLL_SECONDS: Final = 0.1  # between two looks at whether the call was cancelled


@frozen
class Check:
    """A program for the files that match a pattern.

    Attributes:
        files: The pattern.
        command: The program and its arguments, with `{path}`.
    """

    files: Globs
    command: ToolSettings


@frozen
class CheckRun:
    """One program that ran for one changed file, or couldn't run.

    Attributes:
        path: The file, as shown to the model.
        command: The program and its arguments, as one line.
        code: Its exit code; `None`: it didn't run to its end.
        findings: Its output, cut.
        problem: Why it didn't run to its end; empty if it did.
    """

    path: str
    command: str
    code: int | None = None
    findings: str = ""
    problem: str = ""

    @property
    def text(self) -> str:
        """The run, for the model."""
        how = self.problem or f"exit code {self.code}"
        return f"[Check: {self.command}: {how}]" + (f"\n{self.findings}" if self.findings else "")

    def to_json(self) -> dict[str, Any]:
        """The run without its output, for the metadata of a result."""
        return {"path": self.path, "command": self.command, "exit_code": self.code, "problem": self.problem or None}


@frozen
class CheckedFile:
    """A changed file after its checks.

    Attributes:
        runs: The programs that ran.
        change: What they changed of it: from the content that was written; or `None`.
        stamp: Its stamp after that change.
        shown: Whether `text` shows that change as a whole, so that it counts as read.
        text: All of it, for the model.
    """

    runs: Sequence[CheckRun]
    change: Change | None = None
    stamp: Stamp | None = None
    shown: bool = False
    text: str = ""


@frozen
class Checks:
    """The checks of the settings.

    Attributes:
        checks: All of them, in order.
        seconds: How long those of one call may take together.
    """

    checks: Sequence[Check] = ()
    seconds: float = 20.0

    @classmethod
    def of(cls, commands: Mapping[str, Any], seconds: float) -> Checks:
        """The checks of the settings: by pattern, a program with its arguments, or a list of such.

        Raises:
            ValueError: A pattern or a command is invalid, or pegboard-commands isn't installed.
        """
        if not commands:
            return cls()
        try:
            from pegboard_commands import ToolSettings
        except ImportError:
            raise ValueError(
                f"{_PLACE}: programs need pegboard-commands; run: pip install 'pegboard-files[checks]'"
            ) from None
        checks: list[Check] = []
        for pattern, given in commands.items():
            try:
                files = globs([pattern])
                for words in _commands(given):
                    command = ToolSettings(description="", command=words, arguments={"path": {"type": "string"}})
                    _check_examines(command)
                    checks.append(Check(files, command))
            except (ToolError, ValueError) as error:
                reason = error.text if isinstance(error, ToolError) else error
                raise ValueError(f"{_PLACE}.{pattern!r:.100}: {reason}") from None
        return cls(checks, seconds)

    def run(self, changes: Iterable[Change], stamps: Iterable[Stamp | None], call: ToolContext) -> list[CheckedFile]:
        """Runs the checks of changed files, each program once for a file; removed files have none.

        Args:
            changes: The changes that were made.
            stamps: The stamps of the files as they were written.
            call: The call that made them.
        """
        seconds = self.seconds if call.remaining is None else min(self.seconds, call.remaining - _SPARED)
        checking = _CallChecks(call, time.monotonic() + seconds)
        checked: list[CheckedFile] = []
        for change, stamp in zip(changes, stamps, strict=True):
            if change.data is None:
                continue
            path = path_label(change.before.parts)
            commands = {tuple(each.command.command): each.command for each in self.checks if each.files.takes(path)}
            if commands:
                checked.append(checking.check(list(commands.values()), change, change.data, stamp))
        if checking.left_out:
            text = f"[Checks that weren't run, as no time was left: {checking.left_out:,}.]"
            checked.append(CheckedFile((), text=text))
        return checked


def _commands(given: object) -> Iterator[Sequence[Any]]:
    """The commands of one pattern."""
    words = cast("list[Any]", given) if isinstance(given, list | tuple) else []
    if not words:
        raise ValueError(
            'it has to be a program with its arguments, as in ["ruff", "check", "{path}"], or a list of some'
        )
    if not all(isinstance(each, list | tuple) for each in words):
        words = [words]
    for each in words:
        if any(isinstance(word, list | tuple) for word in each):
            raise ValueError("a word of a command has to be a text, not a list")
        yield tuple(each)


def _decode(output: bytes) -> str:
    return output.decode(errors="replace").replace("\r\n", "\n").strip("\n")


def _argument(path: str) -> str:
    """A path that no program reads as an option or as a file of arguments (`@FILE`)."""
    return path if path[0].isalnum() or path[0] in "._" else f"./{path}"


def _programs(words: Sequence[str], folder: str) -> list[str]:
    """The programs on `PATH` that words name, also for a program that runs another: those of a project need trust."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(os.path.join(folder, each) for each in folders)  # noqa: PTH118  texts
    return [found for word in words if "/" not in word and (found := shutil.which(word, path=path))]


def _check_examines(command: ToolSettings) -> None:
    """Raises `ValueError` for an interpreter unless the command says what else than the changed file it runs."""
    from pegboard_commands.interpreters import HOLE, interpreters

    words = command.with_holes
    if " ".join(words[:2]) in _SYNTAX_CHECKS:
        return
    before = dict(zip(words[1:], words, strict=False))
    for each in interpreters(words):
        if each.script is not None:  # unless an option takes it: node --import /x.mjs
            is_fixed = each.script.startswith(("/", "~/")) and HOLE not in each.script
            option = before.get(each.script, "")
            is_fixed = is_fixed and (option == "-f" or not option.startswith("-"))
        elif each.module is not None:
            is_fixed = each.module not in _RUN_A_FILE and HOLE not in each.module
        else:
            is_fixed = bool(each.texts) and not (each.name in {"node", "nodejs"} and "-r" in words)  # -r MODULE
        if not is_fixed:
            raise ValueError(
                f"command: {each.name} would run the changed file; name a program that only examines it, or what "
                f"{each.name} runs: the absolute path of a script, -m MODULE, or -c TEXT"
            )


@define(eq=False)
class _CallChecks:
    """The checks of one call.

    Attributes:
        call: The call.
        end: When it has to end, as of `time.monotonic()`.
        room: How many characters may still be shown.
        left_out: How many checks weren't run, as no time was left.
    """

    call: ToolContext
    end: float
    room: int = MOST_TEXT
    left_out: int = 0

    def check(self, commands: Sequence[ToolSettings], change: Change, data: bytes, stamp: Stamp | None) -> CheckedFile:
        """Checks one file, and compares it with what was written."""
        runs = [run for command in commands if (run := self._run(command, change.before)) is not None]
        texts, state = [run.text for run in runs], change.before
        with suppress(OSError):
            if stamp_of(state.root.status(state.parts)) == stamp:
                return CheckedFile(runs, text="\n".join(texts))
        try:
            after = read_state(state.root, state.parts)
        except ToolError as error:
            return CheckedFile(runs, text="\n".join([*texts, f"[After the checks: {error.text}]"]))
        written = evolve(state, data=data, stamp=stamp, is_link=False)
        diff = _diff(written, after.data, self.room)
        if after.data is None:
            texts.append(f"[A check removed {state.name!r}.]")
        elif diff is None:
            texts.append(f"[The checks changed {state.name!r}; the diff can't be shown: read the file again.]")
        elif diff:
            self.room -= len(diff)
            texts.append(f"[The checks changed {state.name!r}:]\n{diff}".rstrip("\n"))
        return CheckedFile(runs, Change(written, after.data), after.stamp, diff is not None, "\n".join(texts))

    def _run(self, command: ToolSettings, state: FileState) -> CheckRun | None:
        """Runs one program for one file; `None`: no time is left."""
        if time.monotonic() >= self.end or self.call.cancelled:
            self.left_out += 1
            return None
        given = {"path": _argument("/".join(state.parts))}
        words = command.words(given)
        shown = visible(shlex.join(words))[:_MOST_COMMAND]
        try:
            if problems := command.problems(given):
                raise ValueError(problems[0])  # noqa: TRY301  as those below
            ran = self._finish(command, words, state.root.place(()))
        except (OSError, RuntimeError, ValueError) as error:
            why = visible(str(error))
            operator_log().getChild("files").warning("the check %r can't be run: %s", shown, why)
            if isinstance(error, PermissionError):  # how to allow it is for the operator only
                why = "the user hasn't allowed it, or a file that it names"
            return CheckRun(state.name, shown, problem=f"can't be run: {why}")
        findings = visible("\n".join(filter(None, map(_decode, (ran.stdout, ran.stderr)))), newlines=True)
        most = max(min(self.room, MOST_FINDINGS), 0)
        if len(findings) > most:
            findings = f"{findings[:most]}\n[cut: {len(findings) - most:,} more characters]".lstrip("\n")
        self.room -= len(findings)
        if ran.ended is not None:
            return CheckRun(state.name, shown, None, findings, f"was ended, as it {ran.ended}")
        return CheckRun(state.name, shown, ran.code, findings)

    def _finish(self, command: ToolSettings, words: Sequence[str], folder: str) -> Finished:
        """Runs a program to its end, in the root.

        Raises:
            OSError: It is missing, or it or a file that it names isn't trusted.
            RuntimeError: There are too many threads.
            ValueError: An argument has a NUL character.
        """
        from pegboard_commands.command_tools import PLAIN_OUTPUT
        from pegboard_commands.program import result_of, start_program, trace_variables

        own = evolve(command, cwd=folder)  # names without a path are files of the root, too
        own.check_runs(command.with_holes)
        own.check_files(_programs(words, folder))
        environment = command.environment(command.with_holes, **PLAIN_OUTPUT, **trace_variables(self.call))
        seconds = max(round(self.end - time.monotonic(), 1), _LEAST_SECONDS)
        program = start_program(words, seconds=seconds, cwd=folder, env=environment)
        while not program.is_over and time.monotonic() < self.end + _DEATH_SECONDS:
            program.join(_POLL_SECONDS)
            if self.call.cancelled:
                program.end(now=True)
        return result_of(program)


def _diff(written: FileState, after: bytes | None, most: int) -> str | None:
    """The diff of what the checks changed, empty if the content is the same; `None` if it can't be shown."""
    if after == written.data:
        return ""
    try:
        old, new = (None if data is None else EditedText.of(data).text for data in (written.data, after))
        diff = diff_of(old, new, written.name, Deadline(_DIFF_SECONDS)).text
    except (BinaryFileError, ToolError):
        return None
    return diff if len(diff) <= most else None


def as_text(checked: Sequence[CheckedFile]) -> str:
    """The checks of a call, for the model."""
    return "\n".join(file.text for file in checked if file.text)


def as_metadata(checked: Sequence[CheckedFile]) -> dict[str, Any]:
    """The checks of a call for programs: `{"checks": [...]}`, or nothing if there were none."""
    runs = [run.to_json() for file in checked for run in file.runs]
    return {"checks": runs} if runs else {}
