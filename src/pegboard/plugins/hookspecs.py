"""Every hook that a plugin may implement, pluggy project `pegboard`, entry-point group `pegboard`.

A plugin is a module, a class or an object behind one entry point. Of a class, each registry makes an instance of its
own, and hands it the plugin's `settings` if its `__init__` takes them. An implementation is marked with `hookimpl` and
takes the arguments that it wants, by name; the others may be left out.

**Register hooks** are called once, plugin by plugin, when the plugin is loaded. `register` registers one
thing and is bound to the plugin; what it refuses costs that one thing only, and the plugin is `partial`.

**Run-time hooks** are called round calls, models and turns, in pluggy's order (`tryfirst`, `trylast`), before the
host's own callbacks. They may be plain or async. `None` means *go on*; anything else is an answer, and the first
answer ends the stage.

**Versions**: `HOOKS_VERSION` counts up when a hook or an argument is added. A hook or an argument lives on for two
minor releases after it is deprecated, with a warning that names its successor. Mark an implementation
`@hookimpl(optionalhook=True)` to load on older versions that don't know its hook.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pluggy

if TYPE_CHECKING:
    import click

    from pegboard.dispatch.approval.request import Answer, ApprovalRequest
    from pegboard.dispatch.callbacks import Abort, BeforeAnswer
    from pegboard.dispatch.events import CallEvent
    from pegboard.dispatch.find import RepairRequest
    from pegboard.messages import Message, ModelResponse
    from pegboard.request.model_request import ModelRequest
    from pegboard.tools.call import ToolCall
    from pegboard.tools.content import ToolResult
    from pegboard.tools.context import ReadonlyContext, ToolContext
    from pegboard.tools.tool import Tool
    from pegboard.toolsets.toolset import Toolset
    from pegboard.turn.events import TurnOutcome

HOOKS_VERSION: Final = 1
PROJECT: Final = "pegboard"
hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)


RegisterNamed: TypeAlias = Callable[[str, Any], None]
"""Registers one thing under a name; a name that is taken is refused and reported."""

# Register hooks ---------------------------------------------------------------------------------------------------


@hookspec
def pegboard_register_tools(register: Callable[..., None], settings: Mapping[str, Any]) -> None:
    """Brings tools. Called once, when the plugin is loaded. Since 0.1.

    Args:
        register: Takes each a `Tool`, `@tool` function, plain function, `TypedTool` or object with `@tool` methods.
        settings: The plugin's table in `pegboard.toml` (`[plugins.NAME]`), read-only; empty where there is none.
    """


@hookspec
def pegboard_register_toolsets(register: Callable[[Toolset], None], settings: Mapping[str, Any]) -> None:
    """Brings toolsets, which are asked for their tools at every resolution. Since 0.1.

    Args:
        register: Takes one `Toolset`.
        settings: The plugin's settings.
    """


@hookspec
def pegboard_register_predicates(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Brings predicates that `--where` and `where=` know by name. Since 0.1.

    Args:
        register: Takes a name (a bare word of the predicate language) and a function
            `(tool: Tool, context: ReadonlyContext) -> bool`.
        settings: The plugin's settings.
    """


@hookspec
def pegboard_register_processors(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Brings request processors, which turn a model request into the next. Since 0.1.

    A processor is a function that asks by name for some of `request` (the `ModelRequest`), `context` (the
    `ReadonlyContext`), `runner` (which asks code of others within a time limit) and `services` (a `ToolContext`: its
    `memory`, `artifacts` and `use` find what is provided). It is plain, and then runs in a thread unless it is marked
    `@quick`, or async. It gives the next request, or `None` to leave it. One that raises,
    takes longer than ten seconds or gives something else is left out of that request, whose `problems` name it.

    It stands right behind what tools and toolsets add, and so before the history is repaired, in the plugins' load
    order. `Placed(function, before="pack_tools")` or `Placed(function, after="tool_requests")` in its stead gives
    another place; where there is no such step, it stands where the others do. `registry processors` prints the order.

    Args:
        register: Takes a name, which must be free, and a processor, or one that is `Placed`.
        settings: The plugin's settings.
    """


@hookspec
def pegboard_register_exporters(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Brings exporters, which write a request in one provider's wire format. Since 0.1.

    Args:
        register: Takes a name, such as a provider's, and an exporter, or a class or function that makes it: so its code
            is imported when it is asked for.
        settings: The plugin's settings.
    """


@hookspec
def pegboard_register_executors(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Brings executors, the places where handlers run. Since 0.1.

    Args:
        register: Takes a name and an executor.
        settings: The plugin's settings.
    """


@hookspec
def pegboard_register_models(register: RegisterNamed, settings: Mapping[str, Any]) -> None:
    """Brings providers of models, for `registry chat -m NAME/MODEL` and `registry.model("NAME/MODEL")`. Since 0.1.

    Args:
        register: Takes the provider's name, such as `"openai"`, and a function `(model: str, **options) -> Model` that
            makes its client; it is called when a model is asked for, and imports what it needs then.
        settings: The plugin's settings.
    """


@hookspec
def pegboard_register_services(register: Callable[..., None], settings: Mapping[str, Any]) -> None:
    """Brings services, which tools, processors and other plugins find by type. Since 0.2.

    What the host provides for a type stands before what plugins bring. A plugin that a manifest lists is imported when
    one of its services is asked for.

    Args:
        register: Takes a type, a value of it or what makes one, and `scope=`, as `registry.provide` does.
        settings: The plugin's settings.
    """


@hookspec
def pegboard_register_commands(group: click.Group) -> None:
    """Adds commands to `registry`. Called when a command that pegboard doesn't know is asked for, and by `--help`.

    Since 0.1.

    Args:
        group: The command's click group; a command that it already has can't be replaced.
    """


@hookspec
def pegboard_diagnose(report: Callable[[str, str], None]) -> None:
    """Says what is wrong with what the plugin keeps or needs, such as its database. Called by `registry doctor` alone.

    Since 0.2.

    Args:
        report: Takes what is wrong, and what to do about it, a sentence each.
    """


@hookspec
def pegboard_guards_calls() -> None:
    """Says that no call runs where the plugin has settings and isn't loaded. Never called: it is there, or isn't.

    Since 0.2.
    """


# Round one call of a tool -----------------------------------------------------------------------------------------


@hookspec
def pegboard_before_tool(
    context: ToolContext, tool: Tool, arguments: Mapping[str, Any]
) -> BeforeAnswer | Awaitable[BeforeAnswer]:
    """Called before a tool runs, after its arguments were found valid. Since 0.1.

    Args:
        context: What the call knows of its surroundings; `context.values` is shared with the tool and later hooks.
        tool: The tool.
        arguments: As validated, read-only.

    Returns:
        `None` to go on; a `ToolResult` to answer instead of the tool; `ChangeArguments` to go on with others, which
        are validated again; `Ask` to need a permission more; `Deny` to refuse; `Abort` to end the turn, once every
        call has its result. Anything else fails the call as `callback_failure`.
    """


@hookspec
def pegboard_after_tool(
    context: ToolContext, tool: Tool | None, arguments: Mapping[str, Any], result: ToolResult
) -> ToolResult | Abort | Awaitable[ToolResult | Abort | None] | None:
    """Called with every outcome, errors and denials included. Since 0.1.

    Args:
        context: As for `pegboard_before_tool`.
        tool: The tool, or `None` where the name is unknown.
        arguments: As far as they are known, read-only.
        result: What the call would answer.

    Returns:
        `None` to leave it, the `ToolResult` that replaces it, or `Abort` to leave it and end the turn, once every call
        has its result. Each is called, with the outcome as the one before has left it.
    """


@hookspec
def pegboard_on_tool_error(
    context: ToolContext, tool: Tool | None, arguments: Mapping[str, Any], error: BaseException
) -> ToolResult | Abort | Awaitable[ToolResult | Abort | None] | None:
    """Called when a call failed: its tool raised or gave an error, or it is unknown, invalid or denied. Since 0.1.

    Args:
        context: As for `pegboard_before_tool`.
        tool: The tool, or `None` where the name is unknown.
        arguments: As far as they are known, read-only.
        error: What was raised; of an error that the tool has given, a `CallError` with its kind and text.

    Returns:
        `None` to leave it, a `ToolResult`, which clears the error, or `Abort` to leave it and end the turn.
    """


@hookspec
def pegboard_wrap_tool(
    context: ToolContext, tool: Tool, arguments: Mapping[str, Any], call_next: Callable[[], Awaitable[Any]]
) -> Any:
    """Stands round the running of a tool, after approval; the first in order is the outermost. Since 0.1.

    Args:
        context: As for `pegboard_before_tool`.
        tool: The tool.
        arguments: As approved, read-only.
        call_next: Runs what stands inside; takes no arguments, so nothing is edited after approval.

    Returns:
        What `await call_next()` gave, or something instead of it.
    """


@hookspec
def pegboard_repair_call(
    request: RepairRequest,
) -> ToolCall | Mapping[str, Any] | Awaitable[ToolCall | Mapping[str, Any] | None] | None:
    """Called where a call can't run as the model wrote it: the name is unknown, or the arguments are invalid.

    Called once a call; what it gives passes the same stages again, and isn't repaired once more. Since 0.1.

    Args:
        request: The call, the tools, the schema, the conversation, and what is wrong.

    Returns:
        `None` to leave the error, the `ToolCall` that was meant, or its arguments.
    """


@hookspec
def pegboard_approve_call(request: ApprovalRequest, context: ToolContext) -> Answer | Awaitable[Answer | None] | None:
    """Called where a call asks, before the host's approver is. Since 0.2.

    What rules deny never comes here; of a plugin that isn't trusted only `Reject` counts.

    Args:
        request: What a person would be asked; `request.subject` says whether it is about the whole call.
        context: As for `pegboard_before_tool`.

    Returns:
        `None` to leave it to the next, and at last to a person; or the answer: `Once`, `Always`, `Reject` or `Later`.
        Anything else, and whatever is raised, denies the call.
    """


# Round one answer of a model --------------------------------------------------------------------------------------


@hookspec
def pegboard_before_model(
    context: ReadonlyContext, request: ModelRequest
) -> ModelResponse | ModelRequest | Awaitable[ModelResponse | ModelRequest | None] | None:
    """Called before a model is asked, in every round of a turn. Since 0.1.

    Args:
        context: The user and session of the turn, with the session's state.
        request: What is asked, after all processors and the callbacks before.

    Returns:
        `None` to go on, the `ModelRequest` to go on with, or a `ModelResponse` that answers instead of the model.
        Anything else, and whatever is raised, is a `CallbackError`, which `pegboard_on_model_error` may recover from,
        and which ends the turn if none does.
    """


@hookspec
def pegboard_after_model(
    context: ReadonlyContext, request: ModelRequest, response: ModelResponse, error: Exception | None
) -> ModelResponse | Awaitable[ModelResponse | None] | None:
    """Called with a model's answer, and with what stood in for one. Since 0.1.

    Args:
        context: The user and session of the turn.
        request: What was asked.
        response: The answer, as the callbacks before have left it.
        error: What the answer stands in for, if `pegboard_on_model_error` has recovered; or `None`.

    Returns:
        `None` to leave it, or the `ModelResponse` that replaces it. Anything else, and whatever is raised, ends the
        turn as a `CallbackError`.
    """


@hookspec
def pegboard_on_model_error(
    context: ReadonlyContext, request: ModelRequest, error: Exception
) -> ModelResponse | Awaitable[ModelResponse | None] | None:
    """Called when a model could not be asked, after all retries, or a callback before it failed. Since 0.1.

    Args:
        context: The user and session of the turn.
        request: What was asked.
        error: A `ModelError`, or a `CallbackError`.

    Returns:
        `None` to leave it, or a `ModelResponse`, which clears the error.
    """


@hookspec
def pegboard_wrap_model(
    context: ReadonlyContext, request: ModelRequest, call_next: Callable[[], Awaitable[ModelResponse]]
) -> ModelResponse | Awaitable[ModelResponse] | None:
    """Stands round the asking of a model; the first in order is the outermost. Since 0.1.

    Args:
        context: The user and session of the turn.
        request: What is asked.
        call_next: Asks what stands inside; may be called again.

    Returns:
        The `ModelResponse`.
    """


# Round one turn ---------------------------------------------------------------------------------------------------


@hookspec
def pegboard_before_turn(
    context: ReadonlyContext, request: ModelRequest
) -> ModelRequest | Awaitable[ModelRequest | None] | None:
    """Called before a turn's first request; a turn that goes on after an approval has begun already. Since 0.1.

    Args:
        context: The user and session of the turn.
        request: The `ModelRequest` that starts it.

    Returns:
        `None` to go on, or the `ModelRequest` that replaces it. Anything else, and whatever is raised, ends the turn
        as a `CallbackError`.
    """


@hookspec
def pegboard_after_turn(
    context: ReadonlyContext, request: ModelRequest, outcome: TurnOutcome
) -> Awaitable[None] | None:
    """Called when a turn has ended, however it ended. Since 0.1.

    Args:
        context: The user and session of the turn.
        request: The `ModelRequest` that started it.
        outcome: What came of it; every call in its history has its result.

    Returns:
        Ignored, as is what it raises.
    """


@hookspec
def pegboard_on_stop(
    context: ReadonlyContext, outcome: TurnOutcome
) -> Message | str | Sequence[Message | str] | Awaitable[Any] | None:
    """Called when the model has answered and calls nothing more, so that the turn is about to end. Since 0.1.

    Args:
        context: The user and session of the turn.
        outcome: What would come of it.

    Returns:
        `None` to let it end, or messages that continue it; a text is the user's. A turn goes on so a bounded number of
        times (`TurnLimits.continuations`).
    """


@hookspec
def pegboard_observe(event: CallEvent) -> Awaitable[None] | None:
    """Called with every event of a call's life; it only observes, and what it raises is ignored. Since 0.1.

    Args:
        event: What happened: `CallPending`, `CallRunning`, `CallUpdated`, or how the call ended.

    Returns:
        Nothing that is looked at.
    """


def unmarked(plugin: object) -> list[str]:
    """The functions of a plugin that are called as hooks are, and are marked as no implementation."""
    named = {name: inspect.getattr_static(plugin, name, None) for name in globals() if name.startswith("pegboard_")}
    return [name for name, thing in named.items() if inspect.isfunction(thing) and not vars(thing).keys() & _MARKS]


_MARKS: Final = {"pegboard_impl", "pegboard_spec"}  # by pluggy
