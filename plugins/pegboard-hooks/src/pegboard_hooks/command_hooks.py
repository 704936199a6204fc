"""`CommandHooks`: programs that run before and after calls of tools.

A program reads one JSON object from standard input, and answers by its exit code and output; names and meanings are
those of codex and Claude Code, so that their hook programs work here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from attrs import define, field, frozen

from pegboard import (
    Abort,
    ApprovalRequest,
    Ask,
    ChangeArguments,
    Deny,
    Once,
    Predicate,
    ReadonlyContext,
    TextContent,
    Tool,
    ToolContext,
    ToolResult,
    hookimpl,
    parse_predicate,
)
from pegboard.errors import ExpressionError, operator_log
from pegboard.json import digest_of, strict_json
from pegboard.schema.converter import json_key, read_table
from pegboard.text import visible
from pegboard_commands.program import Finished, ProgramSettings, check_program, run_program

BEFORE: Final = "PreToolUse"
AFTER: Final = "PostToolUse"
PERMISSION: Final = "hook"
"""The permission that a program's `ask` requires; its pattern is the tool's name and a digest of the arguments."""

MOST_TEXT: Final = 10_000
"""How many characters of a program's text the model reads."""

_HAS_RUN: Final = (None, "tool_failure", "timeout", "aborted", "crashed", "invalid_output", "unknown_outcome")


class HookError(Exception):
    """A hook's program failed, or its answer is invalid."""


@frozen(kw_only=True)
class HookSettings(ProgramSettings):
    """A program that runs before or after calls of tools.

    Attributes:
        command: The program and its arguments.
        where: A predicate on tools, as text, which selects the calls; all by default.
        timeout: Seconds that it may take.
        on_failure: Whether a failure of the program denies the call; by default `"deny"` before a call, and `"allow"`
            after one.
        may_allow: Whether its answer "allow" counts: then the user isn't asked about the call.
    """

    command: tuple[str, ...] = ()
    where: str | None = None
    timeout: float = 10.0
    on_failure: Literal["deny", "allow"] | None = None
    may_allow: bool = False
    predicate: Predicate | None = field(init=False, repr=False, metadata=json_key(""))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self.command or not self.command[0]:
            raise ValueError('command: it has to name a program, as in ["python3", "/home/ann/check.py"]')
        check_program(self.command, self.cwd)
        if not 0 < self.timeout <= 600:
            raise ValueError(f"timeout: it has to be more than 0 and at most 600 seconds, not {self.timeout:g}")
        try:
            predicate = None if self.where is None else parse_predicate(self.where)
        except ExpressionError as error:
            raise ValueError(f"where: {str(error).partition(chr(10))[0]}") from None
        object.__setattr__(self, "predicate", predicate)

    @property
    def words(self) -> list[str]:
        """The program and its arguments, with `~` expanded."""
        return [os.path.expanduser(word) if word.startswith("~/") else word for word in self.command]  # noqa: PTH111  texts are wanted

    def is_about(self, tool: Tool, context: ReadonlyContext) -> bool:
        """Whether it runs for calls of a tool."""
        return self.predicate is None or self.predicate(tool, context)


@frozen(kw_only=True)
class _Specific:
    event: str | None = field(default=None, metadata=json_key("hookEventName"))
    decision: Literal["allow", "deny", "ask"] | None = field(default=None, metadata=json_key("permissionDecision"))
    reason: str | None = field(default=None, metadata=json_key("permissionDecisionReason"))
    arguments: Mapping[str, Any] | None = field(default=None, metadata=json_key("updatedInput"))
    context: str | None = field(default=None, metadata=json_key("additionalContext"))


@frozen(kw_only=True)
class _Output:
    goes_on: bool = field(default=True, metadata=json_key("continue"))
    stop_reason: str | None = field(default=None, metadata=json_key("stopReason"))
    is_quiet: bool = field(default=False, metadata=json_key("suppressOutput"))
    message: str | None = field(default=None, metadata=json_key("systemMessage"))
    decision: Literal["block", "approve"] | None = None
    reason: str | None = None


@frozen
class Answer:
    """Answer of a hook's program.

    Attributes:
        decision: Its decision, or `None`.
        reason: The reason for it.
        arguments: New arguments of the call, or `None`.
        context: Text for the model in addition to the result, or `None`.
        stop: The reason to end the turn, with all that it says about it, or `None`.
        message: Text for the operator, or `None`.
    """

    decision: Literal["allow", "deny", "ask"] | None = None
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    context: str | None = None
    stop: str | None = None
    message: str | None = None

    @classmethod
    def read(cls, run: Finished, event: str) -> Answer:
        """Parses a program's answer to an event.

        Exit code 2 denies, with standard error as the reason. With 0, an object on standard output is the answer;
        other text is ignored.

        Raises:
            HookError: The program failed, or its answer is invalid.
        """
        stderr = run.stderr.decode(errors="replace").strip()
        if run.ended is not None:
            raise HookError(run.ended)
        if run.code == 2:
            return cls("deny", stderr or "no reason was given")
        if run.code != 0:
            raise HookError(f"exited with {run.code}" + (f": {stderr:.500}" if stderr else ""))
        try:
            text = run.stdout.decode().strip()
            if not text.startswith("{"):
                return cls()
            data = strict_json(text.encode())
            own = read_table(_Specific, data.pop("hookSpecificOutput", {}), "hookSpecificOutput")
            return cls._of(read_table(_Output, data, ""), own, event)
        except (ValueError, RecursionError) as error:
            raise HookError(f"returned an invalid answer: {error}") from None

    @classmethod
    def _of(cls, output: _Output, own: _Specific, event: str) -> Answer:
        if own.event not in (None, event):
            raise ValueError(f"hookSpecificOutput.hookEventName: this was {event}, not {own.event!r:.80}")
        if event == AFTER and (own.decision is not None or own.arguments is not None):
            raise ValueError(f"hookSpecificOutput: the tool has run; a {AFTER} hook can't decide on the call")
        old = {"block": "deny", "approve": "allow"}
        decision: Any = own.decision or old.get(output.decision or "")
        reason = own.reason or output.reason or ""
        ends = "\n".join(filter(None, (output.stop_reason, reason, own.context))) or "a hook ended the turn"
        stop = None if output.goes_on else ends
        reason = reason or ("no reason was given" if decision == "deny" else "")
        return cls(decision, reason, own.arguments, own.context, stop, output.message)


@define(eq=False)
class _Verdict:
    """The combined decision of the programs for one call.

    Attributes:
        arguments: The call's arguments.
        changed: Whether a program has changed them.
        allowed: Whether a program that may do so has allowed the call with these arguments.
        asking: The reasons of programs that want the user to be asked.
        notes: Texts for the model in addition to the result.
    """

    arguments: dict[str, Any]
    changed: bool = False
    allowed: bool = False
    asking: list[str] = field(factory=list[str])
    notes: list[str] = field(factory=list[str])

    def take(self, hook: HookSettings, answer: Answer) -> Deny | Abort | None:
        """Adds an answer; returns what ends the call, or `None`."""
        if answer.stop is not None:
            return Abort(_for_the_model(answer.stop))
        if answer.decision == "deny":
            return Deny(_for_the_model("\n".join(filter(None, (answer.reason, *self.notes, answer.context)))))
        if answer.arguments is not None:
            self.arguments, self.changed, self.allowed = dict(answer.arguments), True, False
        if answer.decision == "allow" and hook.may_allow:
            self.allowed = True
        if answer.decision == "ask":
            self.asking.append(answer.reason or "no reason was given")
        if answer.context is not None:
            self.notes.append(answer.context)
        return None


class CommandHooks:
    """Callbacks that run programs before and after calls, in their order.

    Each program gets the arguments as changed by the ones before it, and the first that denies ends the call. Changed
    arguments are validated and judged by the permission rules like those of the model.

    Args:
        before: Run before a call.
        after: Run after a call that was executed.
    """

    def __init__(self, before: Sequence[HookSettings], after: Sequence[HookSettings] = ()) -> None:
        self._before = tuple(before)
        self._after = tuple(after)

    @hookimpl
    async def pegboard_before_tool(
        self, context: ToolContext, tool: Tool, arguments: Mapping[str, Any]
    ) -> ChangeArguments | Ask | Deny | Abort | None:
        """Runs the programs before a call."""
        verdict = _Verdict(ChangeArguments(dict(arguments)).arguments)
        context.values[_verdict_key(context)] = verdict
        for hook in self._before:
            if hook.is_about(tool, context.request):
                answer = await _run_hook(hook, BEFORE, context, tool, verdict.arguments)
                ends = None if answer is None else verdict.take(hook, answer)
                if ends is not None:
                    return ends
        if verdict.asking:
            return _ask(tool, verdict)
        return ChangeArguments(verdict.arguments) if verdict.changed else None

    @hookimpl
    async def pegboard_approve_call(self, request: ApprovalRequest, context: ToolContext) -> Once | None:
        """Approves a call that a program has allowed with exactly these arguments."""
        verdict = context.values.get(_verdict_key(context))
        if verdict is None or not verdict.allowed or verdict.asking or request.subject != "call":
            return None
        own = request.tool is not None and request.permission in {request.tool.spec.permission, request.tool.name}
        return Once() if own and verdict.arguments == request.arguments else None

    @hookimpl
    async def pegboard_after_tool(
        self, context: ToolContext, tool: Tool | None, arguments: Mapping[str, Any], result: ToolResult
    ) -> ToolResult | Abort | None:
        """Runs the programs after a call, and appends their texts to the result."""
        verdict: _Verdict | None = context.values.pop(_verdict_key(context), None)
        if tool is None or result.kind not in _HAS_RUN:
            return None
        notes = [] if verdict is None else verdict.notes
        hooks = [hook for hook in self._after if hook.is_about(tool, context.request)]
        given = ChangeArguments(dict(arguments)).arguments if hooks else {}
        for hook in hooks:
            answer = await _run_hook(hook, AFTER, context, tool, given, tool_response=result.to_json())
            if answer is None:
                continue
            if answer.stop is not None:
                return Abort(_for_the_model(answer.stop))
            notes += [text for text in (answer.decision and answer.reason, answer.context) if text]
        if not notes:
            return None
        return result.evolve(content=(*result.content, *(TextContent(_for_the_model(note)) for note in notes)))


async def _run_hook(
    hook: HookSettings, event: str, context: ToolContext, tool: Tool, arguments: Mapping[str, Any], **more: Any
) -> Answer | None:
    """Runs a program and returns its answer; `None` if it failed and the settings allow that.

    Raises:
        HookError: It failed, and the settings deny the call.
    """
    folder = context.work_dir
    facts = {
        "hook_event_name": event,
        "session_id": context.session,
        "turn_id": context.invocation,
        "cwd": folder or os.getcwd(),  # noqa: PTH109  a text is wanted
        "model": context.model,
        "user": context.user,
        "agent": context.agent,
        "tool_name": tool.name,
        "tool_input": arguments,
        "tool_use_id": context.call_id,
        **more,
    }
    log, name = operator_log().getChild("hooks"), visible(" ".join(hook.command))[:200]
    try:
        hook.check_runs(hook.words, folder)
        run = await run_program(
            hook.words,
            given=json.dumps(facts).encode() + b"\n",
            seconds=hook.timeout,
            cwd=hook.folder(folder),
            env=hook.environment(hook.words),
        )
        answer = Answer.read(run, event)
        if event == BEFORE and answer.arguments is not None and (problems := tool.check(answer.arguments)):
            raise HookError(f"changed the arguments to invalid ones for {tool.name}: {problems[0]}")  # noqa: TRY301  as the rest
    except (HookError, OSError, ValueError) as error:
        text = f"the hook {name!r} {error}" if isinstance(error, HookError) else f"the hook {name!r}: {error}"
        if (hook.on_failure or ("deny" if event == BEFORE else "allow")) == "deny":
            raise HookError(text) from error
        log.warning("%s", text)
        return None
    if answer.message:
        log.warning("message of the hook %r: %s", name, visible(answer.message))
    if answer.decision == "allow" and not hook.may_allow:
        log.info("the hook %r allows a call of %s, which is ignored without may_allow = true", name, tool.name)
    return answer


def _verdict_key(context: ToolContext) -> str:
    """The key of a call's verdict in the values of its turn."""
    return f"pegboard_hooks.{id(context)}"


def _ask(tool: Tool, verdict: _Verdict) -> Ask:
    """The question to the user, with the arguments as changed by programs."""
    pattern = f"{tool.name} {digest_of(verdict.arguments).removeprefix('sha256:')[:16]}"
    changed = verdict.arguments if verdict.changed else None
    return Ask(PERMISSION, (pattern,), (f"{tool.name} *",), {"asked by a hook": verdict.asking}, changed)


def _for_the_model(text: str) -> str:
    shown = visible(text.strip(), newlines=True)
    return shown if len(shown) <= MOST_TEXT else f"{shown[:MOST_TEXT]} [... cut]"
