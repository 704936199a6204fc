"""The tools and their results. The model reads the docstrings and parameters of the tools."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from annotated_types import Gt, Le, MaxLen, MinLen
from attrs import Factory, define, field, frozen

from pegboard import (
    Concurrency,
    ModelRequest,
    Preview,
    ReadonlyContext,
    ResultLimits,
    TextContent,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
)
from pegboard.programs import RunningProgram
from pegboard.threads import run_in_thread
from pegboard_shell.effects import destroys, only_reads, overwrites
from pegboard_shell.output import MOST_SHOWN, Output, RunningCommand, TextBuffer
from pegboard_shell.sandbox import Sandbox, may_be_by_sandbox
from pegboard_shell.sessions import Session, Sessions, incomplete_line_of, owner_of
from pegboard_shell.settings import MOST_SECONDS, Settings, environment_of, open_folder, root_place, shell_of

Words = Annotated[list[Annotated[str, MaxLen(30_000)]], MinLen(1), MaxLen(1_000)]
Text = Annotated[str, MinLen(1), MaxLen(30_000)]
Seconds = Annotated[float, Gt(0), Le(MOST_SECONDS)]
_LONGEST_WAIT: Final = 300
Wait = Annotated[float, Gt(0), Le(_LONGEST_WAIT)]
PathText = Annotated[str, MinLen(1), MaxLen(4_096)]
Key = Annotated[str, MinLen(1), MaxLen(40)]
Marker = Annotated[str, MinLen(1), MaxLen(1_000)]

_LEAST_LEFT: Final = 1.0  # seconds of a call's time that are reserved for its answer
_MARGIN: Final = 120.0  # seconds of a tool's time limit beyond that of its command, to start and to end
_RESULT_LIMITS: Final = ResultLimits(keep="middle")
_UNSANDBOXED: Final = "shell_unsandboxed"
_PATCHERS: Final = ("apply_patch", "applypatch")  # models trained on codex run it as a command, too
_PATCH_TIP: Final = "apply_patch is not a command. If you have a tool apply_patch, call it with the patch as its input."
_NOT_FOUND: Final = 127
_TIMED_OUT: Final = 124  # the exit code of a command that was ended at its time limit, as in `timeout`


def _concurrency(arguments: Mapping[str, Any]) -> Concurrency:
    return Concurrency("path", ("folder",), "read" if only_reads(arguments) else "write")


@frozen
class Arguments:
    """The arguments of `shell` and `shell_unsandboxed`."""

    command: str | list[str]
    folder: str
    timeout: float | None
    background: bool
    wait: float
    until: str | None


@define(eq=False)
class ShellTools:
    """The tools, bound to their settings, a sandbox and their sessions.

    Attributes:
        settings: The settings.
        sandbox: The sandbox for commands.
        sessions: The commands in the background.
    """

    settings: Settings = field(factory=Settings)
    sandbox: Sandbox = field(
        default=Factory(lambda self: Sandbox(self.settings.sandbox, self.settings.network), takes_self=True)
    )
    sessions: Sessions = field(default=Factory(lambda self: Sessions(self.settings.sessions), takes_self=True))

    async def shell(  # noqa: PLR0913  (what a model may say)
        self,
        command: Text | Words,
        folder: PathText = ".",
        timeout: Seconds | None = None,  # noqa: ASYNC109  (the command's)
        *,
        background: bool = False,
        wait: Wait = 10.0,
        until: Marker | None = None,
        call: ToolContext,
    ) -> ToolResult:
        """Run a command: a shell line, or a list of a program and its arguments.

        Returns stdout and stderr, interleaved, then [exit code and notes]. The command has no stdin. Child processes
        are killed when the command ends. For a server, set background=true; don't use "&".

        Args:
            command: A shell line, such as "make test 2>&1 | tail -20"; or ["python", "-m", "pytest"], without a shell.
            folder: Folder to run in, relative to the working folder.
            timeout: Time limit in seconds. At the limit the command is killed, and its exit code is 124.
            background: Keep the command running as a session. Returns its output so far and the session id.
            wait: With background: seconds to collect output before returning. Returns earlier if the command ends.
            until: With background: return as soon as the output contains this text, such as "ready".
            call: The running call.
        """
        return await self._run(call, Arguments(command, folder, timeout, background, wait, until), in_sandbox=True)

    async def shell_unsandboxed(  # noqa: PLR0913  (what a model may say)
        self,
        command: Text | Words,
        folder: PathText = ".",
        timeout: Seconds | None = None,  # noqa: ASYNC109  (the command's)
        *,
        background: bool = False,
        wait: Wait = 10.0,
        until: Marker | None = None,
        call: ToolContext,
    ) -> ToolResult:
        """Run a command outside of the sandbox. The user is asked first.

        Use it only for a command that the sandbox doesn't allow, such as one that needs the network. Returns the same
        as shell.

        Args:
            command: A shell line, or a list of a program and its arguments.
            folder: Folder to run in, relative to the working folder.
            timeout: Time limit in seconds. At the limit the command is killed, and its exit code is 124.
            background: Keep the command running as a session. Returns its output so far and the session id.
            wait: With background: seconds to collect output before returning. Returns earlier if the command ends.
            until: With background: return as soon as the output contains this text, such as "ready".
            call: The running call.
        """
        return await self._run(call, Arguments(command, folder, timeout, background, wait, until), in_sandbox=False)

    async def write_stdin(  # noqa: PLR0913  (what a model may say)
        self,
        session: Key,
        text: Text,
        wait: Wait = 1.0,
        until: Marker | None = None,
        *,
        close: bool = False,
        call: ToolContext,
    ) -> ToolResult:
        r"""Write text to the stdin of a session.

        Returns the output since the last call, then [notes]: the exit code, or that the session is still running.

        Args:
            session: The session id, from the result of shell.
            text: The text to write. End it with "\n" to press Enter.
            wait: Seconds to wait for more output before returning. Returns earlier if the command ends.
            until: Return as soon as the output contains this text, such as a prompt.
            close: Close stdin after the text.
            call: The running call.
        """
        found = self.sessions.get(session, owner_of(call))
        data = text.encode()
        try:
            written = found.command.write(data)
        except BrokenPipeError:
            hint = f'Read its output with poll_session(session="{session}").'
            raise ToolError(f"Session {session!r} has closed its stdin, or has ended.", hint=hint) from None
        found.incomplete_line = incomplete_line_of(found.incomplete_line + data[:written].decode(errors="replace"))
        notes: list[str] = []
        if written < len(data):
            notes.append(
                f"Only {written:,} of {len(data):,} bytes were written: the command isn't reading. Send the rest later."
            )
        elif close:
            found.command.close_input()
        return await self._poll(call, found, wait, until, notes)

    async def poll_session(
        self, session: Key, wait: Wait = 10.0, until: Marker | None = None, *, call: ToolContext
    ) -> ToolResult:
        """Read the new output of a session.

        Returns the output since the last call, then [notes]: the exit code, or that the session is still running.

        Args:
            session: The session id, from the result of shell.
            wait: Seconds to wait for more output before returning. Returns earlier if the command ends.
            until: Return as soon as the output contains this text, such as "ready".
            call: The running call.
        """
        return await self._poll(call, self.sessions.get(session, owner_of(call)), wait, until, [])

    async def end_session(self, session: Key, *, call: ToolContext) -> ToolResult:
        """Stop a session: its command and all child processes are killed.

        Returns the output since the last call, then [exit code and notes].

        Args:
            session: The session id, from the result of shell.
            call: The running call.
        """
        found = self.sessions.get(session, owner_of(call))
        found.command.end()
        return await self._poll(call, found, self.settings.grace + _MARGIN, None, [])

    def root(self, _arguments: Mapping[str, Any], _context: ReadonlyContext) -> str:
        """The folder that the argument `folder` is relative to; if it isn't absolute, below the call's `work_dir`."""
        return str(Path(self.settings.root or ".").expanduser())

    # For permissions and approvals -------------------------------------------------------------------------------

    def is_destructive(self, arguments: Mapping[str, Any], context: ReadonlyContext) -> bool:
        """Whether a command may destroy something, including existing files in the folder that it would run in."""
        return destroys(arguments) or overwrites(arguments, root_place(self.settings, context.work_dir))

    def wants_approval(self, _arguments: Mapping[str, Any]) -> bool:
        """Whether a command needs confirmation: if it would run without a sandbox."""
        return self.sandbox.obstacle is not None

    def wants_input_approved(self, arguments: Mapping[str, Any]) -> bool:
        """Whether an input needs confirmation: unless its command is known to run in a sandbox."""
        session = self._session_of(arguments)
        return session is None or not session.in_sandbox

    def preview(self, arguments: Mapping[str, Any]) -> Preview:
        """The command, its folder and its sandbox."""
        obstacle = self.sandbox.obstacle
        if obstacle is not None:
            return _preview_of(arguments, f"without a sandbox, with all your rights: {obstacle}")
        level = "read-only" if _writes_nothing(arguments) else self.settings.sandbox
        return _preview_of(arguments, f"in a sandbox: {level}, {'network' if self.settings.network else 'no network'}")

    def preview_unsandboxed(self, arguments: Mapping[str, Any]) -> Preview:
        """The preview of a command outside of the sandbox."""
        return _preview_of(arguments, "OUTSIDE OF THE SANDBOX, with all your rights")

    def input_values(self, arguments: Mapping[str, Any], _context: ReadonlyContext) -> Mapping[str, Any]:
        """For rules, the input with the incomplete line that it continues, as a word may come in pieces."""
        session = self._session_of(arguments)
        begun = "" if session is None else session.incomplete_line
        return {"text": f"{begun}{arguments.get('text')}"} if begun else {}

    def preview_input(self, arguments: Mapping[str, Any]) -> Preview:
        """The input, and the command that it is for."""
        session = self._session_of(arguments)
        begun, command = ("", "") if session is None else (session.incomplete_line, session.shown)
        place = f" after {begun[-200:]!r}" if begun else ""
        return Preview(f"Write to a running command{place}: {command:.800}", str(arguments.get("text")))

    def _session_of(self, arguments: Mapping[str, Any]) -> Session | None:
        """The named session, of any owner: the call, which isn't known here, is refused if it isn't the owner's."""
        return self.sessions.by_key.get(str(arguments.get("session")))

    async def hide_unsandboxed(self, request: ModelRequest) -> ModelRequest | None:
        """The request without `shell_unsandboxed` if there is no sandbox."""
        if await self._obstacle() is None or request.tools is None:
            return None
        return request.evolve(tools=request.tools.without("shell", {_UNSANDBOXED: "there is no sandbox to leave"}))

    # Running commands --------------------------------------------------------------------------------------------

    async def _run(self, call: ToolContext, arguments: Arguments, *, in_sandbox: bool) -> ToolResult:
        """Runs a command, in the sandbox only if there is one."""
        settings, in_sandbox = self.settings, in_sandbox and await self._obstacle() is None
        if arguments.background:
            self.sessions.make_room(owner_of(call))
            command = self._make_command(call, arguments, arguments.timeout, in_sandbox=in_sandbox)
            command.start()
            return await self._begin(call, arguments, command, in_sandbox=in_sandbox)
        most = settings.longest
        if call.remaining is not None:
            most = min(most, max(call.remaining - settings.grace - _LEAST_LEFT, _LEAST_LEFT))
        limit = min(arguments.timeout or settings.time_limit, most)
        command = self._make_command(call, arguments, limit, in_sandbox=in_sandbox)
        command.start()
        await command.wait(None if call.listener is None else partial(_show, call, command.output))
        return self._result(command, await _take_output(command), [], in_sandbox=in_sandbox, most=most)

    async def _obstacle(self) -> str | None:
        """`Sandbox.obstacle`, which is found off the loop at its first use."""
        if not self.sandbox.is_known:
            await run_in_thread(lambda: self.sandbox.obstacle)
        return self.sandbox.obstacle

    def _make_command(
        self, call: ToolContext, arguments: Arguments, limit: float | None, *, in_sandbox: bool
    ) -> RunningCommand:
        settings, environment = self.settings, environment_of(self.settings)
        environment |= {name.upper(): value for name, value in call.trace.items()}  # as OpenTelemetry reads it
        command, background = arguments.command, arguments.background
        folder = open_folder(settings, call.work_dir, arguments.folder)
        try:
            if isinstance(command, str):
                argv = [shell_of(settings), "-c", command]
            else:
                argv = _find_program(command, environment["PATH"], folder.path)
            entry = folder.entry
            if in_sandbox:
                reads = _writes_nothing({"command": command, "background": background})
                argv = self.sandbox.wrap(argv, folder.root, folder.path, reads=reads)
                entry = "/"  # bubblewrap enters the folder
            return RunningProgram(
                argv,
                TextBuffer(settings.output_limit),
                env=environment,
                folder=entry,
                stdin=None if background else b"",
                limit=limit,
                grace=settings.grace,
                holds=folder.descriptor,
            )
        except BaseException:
            os.close(folder.descriptor)
            raise

    async def _begin(
        self, call: ToolContext, arguments: Arguments, command: RunningCommand, *, in_sandbox: bool
    ) -> ToolResult:
        """Makes a started command a session, and returns its first output."""
        try:
            await command.until(lambda: command.pid is not None, None)
            await call.use_or(Sessions, lambda: self.sessions)  # from now on the registry's close ends the sessions
            session = self.sessions.add(command, owner_of(call), _text_of(arguments.command), in_sandbox=in_sandbox)
            try:
                return await self._poll(call, session, arguments.wait, arguments.until, [])
            except BaseException:
                self.sessions.remove(session)
                raise
        except BaseException:  # the model wouldn't know of the session
            command.end(now=True)
            raise

    async def _poll(
        self, call: ToolContext, session: Session, wait: float, until: str | None, notes: list[str]
    ) -> ToolResult:
        """The new output of a session, once it has ended or has written `until`, or after `wait`."""
        command = session.command
        if call.remaining is not None:
            wait = max(min(wait, call.remaining - _LEAST_LEFT), 0.0)
        await command.until(None if until is None else partial(command.output.holds, until.encode()), wait)
        if command.is_over:
            self.sessions.remove(session)
            return self._result(command, await _take_output(command), notes, in_sandbox=session.in_sandbox)
        key = session.key
        calls = f'poll_session(session="{key}") reads more, end_session(session="{key}") stops it'
        notes = [*notes, f"Session {key} is still running: {calls}."]
        metadata = {"session": key, "sandbox": self.settings.sandbox if session.in_sandbox else None}
        return _with_notes(await _take_output(command), notes, metadata)

    def _result(
        self, command: RunningCommand, output: Output, notes: list[str], *, in_sandbox: bool, most: float | None = None
    ) -> ToolResult:
        """The result of a command that has ended, or should have.

        `most` is the longest limit that the call could have set; `None` for a session, which needs none.
        """
        if command.pid is None:
            raise ToolError(f"The command couldn't be started: {_reason(command.failure)}.") from command.failure
        in_time, left, limit = command.is_over and not command.timed_out, command.leftovers, command.limit or 0.0
        code = _exit_code(command) if in_time else _TIMED_OUT
        seconds = command.seconds if command.is_over else time.monotonic() - command.started
        notes = [f"Exit code {code}{_signal_name(code) if in_time else ''}, {seconds:.1f} s.", *notes]
        if not command.is_over:
            notes.append(f"Process {command.pid} couldn't be killed at its time limit of {limit:g} s. Tell the user.")
        elif not in_time:
            notes.insert(1, f"It was killed at its time limit of {limit:g} s.")
        if left.ended and not in_sandbox:
            notes.append(f"Killed {_processes(left.ended)} that it left running.")
            notes.append("To keep one running, start it as a command of its own with background=true.")
        if left.running:
            ids = ", ".join(map(str, left.running))
            notes.append(f"{_processes(len(left.running))} that it started can't be killed: {ids}.")
        if left.holds_output:
            notes.append("A process that it started is still running and can't be killed. Tell the user.")
        if not in_time:
            notes.append(_advice(limit, most))
        elif in_sandbox and code and may_be_by_sandbox(output.text):
            where = "" if self.settings.sandbox == "read-only" else " outside of the working folder"
            net = "" if self.settings.network else " and no network"
            notes.append(f"It ran in a sandbox with its own /tmp{net}, and can't change files{where}.")
            notes.append(f"If that is why it failed, call {_UNSANDBOXED}; the user is asked first.")
        sandbox = self.settings.sandbox if in_sandbox else None
        metadata = {"exit_code": code, "seconds": round(seconds, 3), "sandbox": sandbox}
        return _with_notes(output, notes, metadata)


def _text_of(command: str | Sequence[str]) -> str:
    return command if isinstance(command, str) else shlex.join(command)


def _writes_nothing(arguments: Mapping[str, Any]) -> bool:
    """Whether the sandbox allows a command no change; a session may change files, as its input isn't known yet."""
    return not arguments.get("background") and only_reads(arguments)


def _preview_of(arguments: Mapping[str, Any], isolation: str) -> Preview:
    background = ", in the background" if arguments.get("background") else ""
    return Preview(f"Run in {arguments.get('folder') or '.'}{background}, {isolation}", _text_of(arguments["command"]))


def _find_program(argv: Sequence[str], path: str, folder: str) -> list[str]:
    """The program's path and its arguments.

    Raises:
        ToolError: There is no such program.
    """
    program = argv[0]
    found = os.path.join(folder, program) if "/" in program else shutil.which(program, path=path)  # noqa: PTH118
    if not program or found is None or not os.access(found, os.X_OK) or Path(found).is_dir():
        usage = "A list is a program and its arguments. Pass a string to run a shell line."
        hint = _PATCH_TIP if program in _PATCHERS else usage
        raise ToolError(f"The program {program!r:.200} was not found.", hint=hint)
    return [found, *argv[1:]]


def _show(call: ToolContext, output: TextBuffer) -> None:
    """Emits new output, or, for very long output, only its length."""
    if text := output.new_text():
        call.emit(text)
    elif (size := output.size) > MOST_SHOWN:
        call.report(size, None, f"{size:,} bytes of output")


async def _take_output(command: RunningCommand) -> Output:
    """The output of a command; converted off the loop if it is longer than what is emitted."""
    output = command.output
    return output.take() if output.size <= MOST_SHOWN else await run_in_thread(output.take)


def _with_notes(output: Output, notes: Sequence[str], metadata: Mapping[str, Any]) -> ToolResult:
    """A result of the output, and the notes in brackets."""
    notes = [*notes, f"{output.lost:,} bytes in the middle of the output were dropped."] if output.lost else notes
    if metadata.get("exit_code") == _NOT_FOUND and any(f"{name}: " in output.text[-500:] for name in _PATCHERS):
        notes = [*notes, _PATCH_TIP]
    if output.odd:
        notes = [*notes, f"{output.odd:,} characters are not text and are shown as U+FFFD."]
    end = "" if not output.text or output.text.endswith("\n") else "\n"
    text = f"{output.text}{end}[{' '.join(notes)}]"
    lost = {"lost_bytes": output.lost} if output.lost else {}
    return ToolResult(TextContent(text), metadata={**metadata, "output_bytes": output.size, **lost})


def _exit_code(command: RunningCommand) -> int | None:
    """The exit code as a shell reports it: 128 plus the number of the signal that ended the command."""
    code = command.code
    return 128 - code if code is not None and code < 0 else code


def _signal_name(code: int | None) -> str:
    """The signal that this exit code stands for, in parentheses; `""` if none."""
    with suppress(ValueError):
        return f" ({signal.Signals((code or 0) - 128).name})"
    return ""


def _advice(limit: float, most: float | None) -> str:
    """How a command that was killed at its limit gets more time."""
    if most is None:
        return "Start it again without timeout to run it without a limit."
    if limit < most:
        return f"Set a longer timeout (at most {most:g} s), or background=true."
    return "A longer timeout isn't possible. Set background=true."


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def _reason(failure: BaseException | None) -> str:
    text = getattr(failure, "strerror", None) or str(failure)
    return f"{text:.500}"


def make_tools(tools: ShellTools) -> Sequence[Tool]:
    """The tools, with their annotations, permissions and limits."""
    common: dict[str, Any] = {"open_world": True, "result_limits": _RESULT_LIMITS, "output_schema": None}
    of_command: dict[str, Any] = {
        **common,
        "tags": ("shell",),
        "read_only": only_reads,
        "destructive": tools.is_destructive,
        "concurrency": _concurrency,
        "permission_arguments": {"command": "command"},
        "work_dir": tools.root,
        "timeout": MOST_SECONDS + _MARGIN,
    }
    of_session: dict[str, Any] = {
        **common,
        "concurrency": Concurrency("key", ("session",)),
        "timeout": _LONGEST_WAIT + _MARGIN,
        "tags": ("shell", "needs-tool:shell", "needs-tool:shell_unsandboxed"),
    }
    make = Tool.from_function
    return (
        make(
            tools.shell,
            title="Run a command",
            requires_confirmation=tools.wants_approval,
            preview=tools.preview,
            **of_command,
        ),
        # With a former permission: rules for `shell` that deny or ask also apply to it; those that allow don't.
        make(
            tools.shell_unsandboxed,
            title="Run a command outside of the sandbox",
            permission=_UNSANDBOXED,
            preview=tools.preview_unsandboxed,
            process_request=tools.hide_unsandboxed,
            **of_command,
        ).evolve(former_permissions=("shell",)),
        make(
            tools.write_stdin,
            title="Write to a running command",
            requires_confirmation=tools.wants_input_approved,
            permission_arguments={"text": "command"},
            permission_values=tools.input_values,
            preview=tools.preview_input,
            **of_session,
        ).evolve(former_permissions=("shell",)),
        make(tools.poll_session, title="Read a running command's output", read_only=True, **of_session),
        make(tools.end_session, title="End a running command", **of_session),
    )
