"""Every hook that a plugin may implement, pluggy project `pegboard`; docs/reference/hooks.md has all rules of each.

A plugin is a module, a class or an object that an entry point names. Of a class, each registry makes its own instance,
and passes it the plugin's `settings`, and `given` (with references to secrets), as far as its `__init__` takes them. An
implementation is marked with `hookimpl` and takes the arguments that it wants, by name; the others may be left out.

**Register hooks** are called once, plugin by plugin, when the plugin is loaded. `register` registers one
thing for the plugin; if it is refused, only that thing is missing, and the plugin is `partial`. `settings` is the
plugin's table in `pegboard.toml` (`[plugins.NAME]`), read-only, and empty where there is none.

**Run-time hooks** are called around calls, models, turns and resolutions, in pluggy's order (`tryfirst`, `trylast`),
before the host's own callbacks. They may be plain or async. `None` means *go on*; anything else is an answer, and the
first answer ends the stage. `context` has the user and the session; around a call it is that of the tool, whose
`values` are shared with the tool and later hooks. `tool` is `None` where the name is unknown, and `arguments` are
read-only: as validated, or after a call as far as they are known. Around models and turns, `request` is the
`ModelRequest` that is asked or starts the turn, `outcome` is the turn's `TurnOutcome`, and `error` a `ModelError` or a
`CallbackError`.

**Versions**: a deprecated hook or argument works for two more minor releases, with a warning that names its successor.
Mark an implementation `@hookimpl(optionalhook=True)` to load on older versions that don't have its hook.
"""

# ruff: noqa: D417  what several hooks take is described above
from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pluggy

if TYPE_CHECKING:
    import click

    from pegboard.config import Config
    from pegboard.dispatch.approval.request import Answer, ApprovalRequest
    from pegboard.dispatch.callbacks import Abort, BeforeAnswer, WrappedCall
    from pegboard.dispatch.events import CallEvent
    from pegboard.dispatch.find import RepairRequest
    from pegboard.messages import Message, ModelResponse
    from pegboard.registry import ToolRegistry
    from pegboard.request.model_request import ModelRequest
    from pegboard.tools.call import ToolCall
    from pegboard.tools.content import ToolResult
    from pegboard.tools.context import ReadonlyContext, ToolContext
    from pegboard.tools.tool import Tool
    from pegboard.toolsets.resolve import ResolvedTools
    from pegboard.toolsets.toolset import Toolset
    from pegboard.turn.events import TurnOutcome

PROJECT: Final = "pegboard"
hookspec: Final = pluggy.HookspecMarker(PROJECT)  # marks every hook, at the end of this file
hookimpl: Final = pluggy.HookimplMarker(PROJECT)


RegisterNamed: TypeAlias = Callable[[str, Any], None]
"""Registers one thing under a name; a name that is taken is refused and reported."""


def pegboard_register_tools(register: Callable[..., None], settings: Mapping[str, Any]) -> None:
    """Registers tools. Since 0.1.

    `register` takes each a `Tool`, `@tool` function, plain function, `TypedTool` or object with `@tool` methods.
    """


def pegboard_register_toolsets(
    register: Callable[[Toolset], None], settings: Mapping[str, Any], config: Config | None
) -> None:
    """Registers toolsets, which are queried for their tools at every resolution. Since 0.1.

    Args:
        register: Takes one `Toolset`.
        config: What the registry was loaded with; `None` where a child process loads the plugin. Since 0.3.
    """


def pegboard_register_predicates(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Registers predicates, for use by name in `--where` and `where=`. Since 0.1.

    `register` takes a name, a bare word of the predicate language, and a plain function `(tool, context) -> bool`.
    """


def pegboard_register_transforms(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Registers transforms, which change tools before their names are settled. Since 0.3.

    A transform is a plain function that is called once for each source of tools: each toolset, the static tools of each
    plugin, and those of the host. It gets the source as a toolset with the wrappers as methods, whose `name` is the
    toolset's, the plugin's or `"host"`, and returns a toolset, such as `tools.renamed({"push": "git_push"})` or what
    it got. A plugin's can't bring tools, and can only make a tool stricter. A plugin that implements it is imported to
    list tools.

    `register` takes a name, which must be free, and a transform.
    """


def pegboard_register_processors(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Registers request processors, which turn a model request into the next. Since 0.1.

    A processor is a function that takes, by name, some of `request` (the `ModelRequest`), `context` (the
    `ReadonlyContext`), `runner` (which calls foreign code within a time limit) and `services` (a `ToolContext`: its
    `memory`, `artifacts` and `use` find what is provided), and returns the next request, or `None` to leave it.

    It comes right after what tools and toolsets add, in the plugins' load order. Register
    `Position(function, before="pack_tools")` or `Position(function, after="tool_requests")` for another place.

    `register` takes a name, which must be free, and a processor, or one that is `Position`.
    """


def pegboard_register_exporters(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Registers exporters, which write a request in one provider's wire format. Since 0.1.

    `register` takes a name, such as a provider's, and an exporter, or a class or function that makes it when used.
    """


def pegboard_register_executors(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Registers executors, which run handlers. Since 0.1.

    `register` takes a name and an executor, or, since 0.3, a class or function that makes it at first use.
    """


def pegboard_register_models(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Registers model providers, for `registry chat -m NAME/MODEL` and `registry.model("NAME/MODEL")`. Since 0.1.

    `register` takes the provider's name, such as `"openai"`, and a function `(model: str, **options) -> Model` that
    makes its client at first use.
    """


def pegboard_register_services(register: Callable[..., None], settings: Mapping[str, Any]) -> None:
    """Registers services, which tools, processors and other plugins find by type. Since 0.3.

    `register` takes a type, a value of it or a factory, and `scope=`, as `registry.provide` does. The host's service
    of a type takes precedence.
    """


def pegboard_register_commands(group: click.Group) -> None:
    """Adds commands to `registry`. Called for a command that isn't pegboard's own, and by `--help`. Since 0.1.

    `group` is the command's click group; a command that it already has can't be replaced.
    """


def pegboard_diagnose(report: Callable[[str, str | None], None], registry: ToolRegistry) -> None:
    """Reports what is wrong with the plugin's data or environment, for `registry doctor`. Since 0.3.

    Args:
        report: Takes a problem, and what to do about it, a sentence each; or a note, and `None`, since 0.3.
        registry: Has the tools of the configuration, and what its plugins provide. Since 0.3.
    """


def pegboard_guards_calls() -> None:
    """Marks a plugin without which no call runs, if it has settings and isn't loaded. Never called. Since 0.3."""


def pegboard_needs_posix() -> None:
    """Marks a plugin that doesn't work on Windows, where it isn't loaded. Never called. Since 0.3."""


def pegboard_before_tool(
    context: ToolContext, tool: Tool, arguments: Mapping[str, Any]
) -> BeforeAnswer | Awaitable[BeforeAnswer]:
    """Called before a tool runs, after its arguments were found valid. Since 0.1.

    Returns:
        `None` to go on; a `ToolResult` to answer instead of the tool; `ChangeArguments` to go on with others; `Ask` to
        require one more permission; `Deny` to refuse; `Abort` to end the turn.
    """


def pegboard_after_tool(
    context: ToolContext, tool: Tool | None, arguments: Mapping[str, Any], result: ToolResult
) -> ToolResult | Abort | Awaitable[ToolResult | Abort | None] | None:
    """Called with every outcome, errors and denials included, and with later results of a call, too. Since 0.1.

    Returns:
        `None` to leave the `result` so far, the `ToolResult` that replaces it, or `Abort` to leave it and end the turn.
        All implementations are called, each with the result of the one before.
    """


def pegboard_on_tool_error(
    context: ToolContext, tool: Tool | None, arguments: Mapping[str, Any], error: BaseException
) -> ToolResult | Abort | Awaitable[ToolResult | Abort | None] | None:
    """Called when a call failed: its tool raised or returned an error, or it is unknown, invalid or denied. Since 0.1.

    `error` is what was raised; for an error that the tool has returned, a `CallError` with its kind and text.

    Returns:
        `None` to leave it, a `ToolResult`, which clears the error, or `Abort` to leave it and end the turn.
    """


def pegboard_wrap_tool(
    context: ToolContext, tool: Tool, arguments: Mapping[str, Any], call_next: Callable[[], Awaitable[Any]]
) -> Any:
    """Wraps the execution of a tool, after approval; the first in order is the outermost. Since 0.1.

    `call_next` runs the next wrapper or the tool; it takes no arguments, so nothing is edited after approval.

    Returns:
        What `await call_next()` returned, or something instead of it.
    """


def pegboard_repair_call(
    request: RepairRequest,
) -> ToolCall | Mapping[str, Any] | Awaitable[ToolCall | Mapping[str, Any] | None] | None:
    """Called once for a call with an unknown name or invalid arguments; `request` says what is wrong. Since 0.1.

    Returns:
        `None` to leave the error, the `ToolCall` that was meant, or its arguments; these pass the same stages again.
    """


def pegboard_approve_call(request: ApprovalRequest, context: ToolContext) -> Answer | Awaitable[Answer | None] | None:
    """Called where a call needs approval, before the host's approver; not for what rules deny. Since 0.3.

    Returns:
        `None` to leave it to the next, and finally to the user; or the answer: `Once`, `Always`, `Reject` or `Later`.
        Anything else, and whatever is raised, denies the call; of an untrusted plugin only `Reject` counts.
    """


def pegboard_wrap_call(
    call: WrappedCall, context: ReadonlyContext, call_next: Callable[[], Awaitable[ToolResult]]
) -> ToolResult | Awaitable[ToolResult] | None:
    """Wraps a whole call, from its lookup to the last callback; the first in order is the outermost. Since 0.3.

    Called for every call, also unknown, invalid and denied ones, and for a suspended call each time it runs; in the
    task and the context variables of the call, unless it is plain and runs in a thread.

    Args:
        call: What is known of the call so far; its `trace` goes along to where the tool runs.
        call_next: Runs the call, once, and returns its result; raises only `asyncio.CancelledError`.

    Returns:
        What `call_next()` returned, or another `ToolResult` instead. Anything else, and whatever is raised, fails a
        call that hasn't run, and is only logged afterwards.
    """


def pegboard_before_model(
    context: ReadonlyContext, request: ModelRequest
) -> ModelResponse | ModelRequest | Awaitable[ModelResponse | ModelRequest | None] | None:
    """Called before a model is asked, in every round of a turn. Since 0.1.

    Returns:
        `None` to go on, the `ModelRequest` to go on with, or a `ModelResponse` that answers instead of the model.
        Anything else, and whatever is raised, is a `CallbackError`.
    """


def pegboard_after_model(
    context: ReadonlyContext, request: ModelRequest, response: ModelResponse, error: Exception | None
) -> ModelResponse | Awaitable[ModelResponse | None] | None:
    """Called with a model's answer, or with the one that replaces it. Since 0.1.

    `response` is the answer, as the callbacks before have left it, and `error` what it replaces, or `None`.

    Returns:
        `None` to leave it, or the `ModelResponse` that replaces it. Anything else, and whatever is raised, is a
        `CallbackError`.
    """


def pegboard_on_model_error(
    context: ReadonlyContext, request: ModelRequest, error: Exception
) -> ModelResponse | Awaitable[ModelResponse | None] | None:
    """Called when a model could not be asked, after all retries, or a callback before it failed. Since 0.1.

    Returns:
        `None` to leave it, or a `ModelResponse`, which clears the error.
    """


def pegboard_wrap_model(
    context: ReadonlyContext, request: ModelRequest, call_next: Callable[[], Awaitable[ModelResponse]]
) -> ModelResponse | Awaitable[ModelResponse] | None:
    """Wraps the request to a model; the first in order is the outermost. Since 0.1.

    Returns:
        The `ModelResponse` of `call_next`, which calls the next wrapper or the model, and may be called again.
    """


def pegboard_before_turn(
    context: ReadonlyContext, request: ModelRequest
) -> ModelRequest | Awaitable[ModelRequest | None] | None:
    """Called before a turn's first request, but not when a turn is resumed. Since 0.1.

    Returns:
        `None` to go on, or the `ModelRequest` that replaces it. Anything else, and whatever is raised, is a
        `CallbackError`.
    """


def pegboard_resume_turn(context: ReadonlyContext, outcome: TurnOutcome) -> Awaitable[None] | None:
    """Called before a turn continues whose calls waited; what it raises is only logged. Since 0.3."""


def pegboard_report_turn(
    context: ReadonlyContext, outcome: TurnOutcome
) -> dict[str, Any] | Awaitable[dict[str, Any] | None] | None:
    """Called when a turn has ended, before `pegboard_after_turn`, to report what the turn did. Since 0.3.

    The outcome has the reports so far: those of the turn that it resumes, and of earlier plugins.

    Returns:
        `None`, or a JSON object of at most 1,000,000 characters, which is an event and the plugin's entry in
        `TurnOutcome.reports`; an empty one removes its entry. Anything else, and what is raised, is only logged.
    """


def pegboard_after_turn(
    context: ReadonlyContext, request: ModelRequest, outcome: TurnOutcome
) -> Awaitable[None] | None:
    """Called when a turn has ended, however it ended; what it raises is only logged. Since 0.1."""


def pegboard_on_stop(
    context: ReadonlyContext, outcome: TurnOutcome
) -> Message | str | Sequence[Message | str] | Awaitable[Any] | None:
    """Called when the model has answered, so that the turn is about to end, with this outcome. Since 0.1.

    Returns:
        `None` to let it end, or messages that continue it, `TurnLimits.continuations` times; a text is the user's.
    """


def pegboard_observe(event: CallEvent) -> Awaitable[None] | None:
    """Called with every `event` of a call's life; what it raises is only logged. Since 0.1."""


def pegboard_check_tools(
    resolved: ResolvedTools, config: Config | None
) -> ResolvedTools | Awaitable[ResolvedTools | None] | None:
    """Called with the tools of each resolution, before predicates, to leave some out. Since 0.3.

    Not called by a listing that imports nothing, such as `registry list`.

    Args:
        resolved: All tools, names resolved; `toolsets` are those that were queried.
        config: What the registry was loaded with; `None` for one that only its host fills.

    Returns:
        `None` to leave them, or what goes on, as of `resolved.without("lock", {"name": "why"})`; `evolve` adds
        `problems` and replaces tools by stricter ones of the same names. Whatever is raised, and an answer with other
        names, is a problem of the resolution; with `[lock] required = true`, no tool is offered.
    """


for _name, _hook in [*globals().items()]:
    if _name.startswith("pegboard_"):
        hookspec(_hook)


def unmarked_hooks(plugin: object) -> list[str]:
    """The functions of a plugin that have a hook's name but no `hookimpl` marker."""
    named = {name: inspect.getattr_static(plugin, name, None) for name in globals() if name.startswith("pegboard_")}
    marks = {f"{PROJECT}_impl", f"{PROJECT}_spec"}  # by pluggy
    return [name for name, thing in named.items() if inspect.isfunction(thing) and marks.isdisjoint(vars(thing))]
