"""`ToolOptions`: the options of tools, and their validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Literal, TypedDict

import attrs
from attrs import evolve

from pegboard.callbacks import CallableKind, accept_keywords
from pegboard.errors import DefinitionError, did_you_mean, suggest, with_name
from pegboard.tools.handler import Checker, Confirmer, ErrorWriter, Preparer, Previewer, RuleValues, Sharer, WorkDir
from pegboard.tools.limits import ResultLimits
from pegboard.tools.signature import inspect_signature, is_method, takes_context
from pegboard.tools.spec import NO_HINTS, ArgumentKind, Concurrency, Policy, ToolAnnotations, ToolSpec, concurrency_of
from pegboard.typing import JsonSchema


class CommonOptions(TypedDict, total=False):
    """Options of any tool; everything has a default, which `None` means too, except for `output_schema`.

    Attributes:
        description: For the model; by default the docstring up to its sections.
        title: For people.
        tags: For predicates.
        annotations: Hints about behaviour; the flags below override it.
        read_only: The tool changes nothing, or a function of the arguments that decides it for a call.
        destructive: The tool may destroy data, or a function of the arguments that decides it for a call.
        idempotent: Repeating the same call has no further effect.
        open_world: The tool interacts with the outside world.
        edit: The tool edits files.
        examples: Example arguments; validated at definition.
        strict: Whether providers enforce the schema; by default the exporter decides.
        long_running: The tool returns an id first and its result later.
        deferred: Offered only after a search has found it.
        concurrency: Which calls may run at the same time, or a function of the arguments that decides it for a call;
            `"shared"` by default.
        permission: The name of the permission that a call needs.
        permission_arguments: The arguments that rules match, by kind: `{"path": "path", "command": "command"}`; the
            kinds are `"text"`, `"command"`, `"path"` and `"url"`.
        permission_values: Returns the values that rules match instead of the arguments, such as the files that a
            patch names, by the names in `permission_arguments`: `(arguments, context)`.
        work_dir: Returns the base folder of relative paths, if not the call's: `(arguments, context)`. Rules resolve
            paths by it, too.
        requires_confirmation: Whether a person confirms each call, or a predicate that selects the calls.
        version: The tool's own version.
        provider_options: Passed through by exporters, by provider.
        meta: Other data, passed through.
        output_schema: Overrides the schema derived from the return type; `None` for none.
        preview: Shows a person what a call would do; a parameter called `context` gets the request's.
        prepare_arguments: Corrects the arguments, such as those by a former schema, before they are converted and
            validated: `(arguments)`, a copy, returns the new ones. Called once per call; must have no effects.
        check: The tool's own check of validated arguments.
        format_validation_error: The tool's own message for invalid arguments.
        timeout: The time limit of a call in seconds; by default the registry's.
        coerce: Whether arguments may be converted to the schema's types; by default the registry decides.
        skip_patterns: Whether a pattern of a raw input schema that no engine here can run is skipped, with a warning in
            the log; else the tool is refused.
        expose_errors: Whether the text of unexpected exceptions reaches the model; by default the registry decides.
        retries: How often a failed call of an idempotent tool is retried; 0 by default.
        max_concurrency: The maximum number of concurrent calls of the tool, at least 1; no limit by default.
        executor: Where it runs: `"loop"`, `"thread"`, `"process"` (a child process, by pegboard-processes), or the name
            of another executor; by default in the event loop if it is async, else in a thread.
        queue: The queue of that executor that its calls go to; by default the executor's own.
        sends: What of the context is sent to that executor: `"state"`, `"extra"`, `"values"`, or single members, as in
            `"state.cart"`. By default nothing, but all to one that runs on this machine, as that of pegboard-processes.
        memory_limit: Bytes of memory for a call in a child process, at least 64 MiB; no limit by default.
        result_limits: Limits on the result that the model gets; by default the registry's.
        blocking: `False` for a plain function that never blocks: it runs on the event loop, without a thread.
        process_request: Changes the model request that the tool is resolved for.
        instructions: Instructions for the model before the conversation, while the tool is resolved.
        offered: `False` for a tool that only processes requests and is never offered to a model.
    """

    description: str | None
    title: str | None
    tags: Iterable[str] | None
    annotations: ToolAnnotations | None
    read_only: bool | Confirmer | None
    destructive: bool | Confirmer | None
    idempotent: bool | None
    open_world: bool | None
    edit: bool | None
    examples: Iterable[Mapping[str, Any]] | None
    strict: bool | None
    long_running: bool | None
    deferred: bool | None
    concurrency: Concurrency | Literal["shared", "exclusive"] | Sharer | None
    permission: str | None
    permission_arguments: Mapping[str, ArgumentKind] | None
    permission_values: RuleValues | None
    work_dir: WorkDir | None
    requires_confirmation: bool | Confirmer | None
    version: str | None
    provider_options: Mapping[str, Any] | None
    meta: Mapping[str, Any] | None
    output_schema: JsonSchema | None
    preview: Previewer | None
    prepare_arguments: Preparer | None
    check: Checker | None
    format_validation_error: ErrorWriter | None
    timeout: float | None
    coerce: bool | None
    skip_patterns: bool | None
    expose_errors: bool | None
    retries: int | None
    max_concurrency: int | None
    executor: str | None
    queue: str | None
    sends: Iterable[str] | None
    memory_limit: int | None
    result_limits: ResultLimits | None
    blocking: bool | None
    process_request: Callable[..., Any] | None
    instructions: str | None
    offered: bool | None


class ToolOptions(CommonOptions, total=False):
    """Options of a tool made from a function.

    Attributes:
        name: 1-64 of `[A-Za-z0-9_-]`, a letter or `_` first; the function's own name by default.
        input_schema: Overrides the schema derived from the types; the parameters must fit it.
        flatten: Whether the fields of a function's only parameter are the tool's arguments; by default if it is of a
            class with fields. `False` makes it one argument by its name; `True` refuses a function without one.
    """

    name: str | None
    input_schema: JsonSchema | None
    flatten: bool | None


_COMMON: Final = CommonOptions.__optional_keys__
_HINTS: Final = ("read_only", "destructive", "idempotent", "open_world", "edit")
_CONVERTED: Final = {"annotations", "concurrency", "examples", "output_schema", "requires_confirmation"}
_SPEC: Final = {each.alias for each in attrs.fields(ToolSpec)}
_AS_GIVEN: Final = (_COMMON & _SPEC) - _CONVERTED
_POLICY: Final = attrs.fields_dict(Policy).keys()
OUTSIDE_SPEC: Final = _COMMON - _SPEC - _POLICY - {*_HINTS, "check", "blocking"}  # attributes of the tool itself
_BY_ARGUMENTS: Final = ("read_only", "destructive", "concurrency")
_MAY_BE_FUNCTIONS: Final = (*_BY_ARGUMENTS, "requires_confirmation")
_MAY_TAKE_CONTEXT: Final = ("preview", "requires_confirmation", "read_only", "destructive")
_POSITIONAL: Final[Mapping[str, tuple[str, ...]]] = {  # arguments of the functions that are called synchronously
    **dict.fromkeys(("work_dir", "permission_values"), ("arguments", "context")),
    **dict.fromkeys(("preview", "prepare_arguments", "check", *_MAY_BE_FUNCTIONS), ("arguments",)),
    "format_validation_error": ("problems",),
}
_TYPES: Final[Mapping[str, tuple[Any, str]]] = {  # option -> its class, and the text for errors; others are functions
    name: (cls, text)
    for cls, text, names in (
        (str, "a string", "name description title permission version executor queue instructions"),
        (bool, "True or False", "idempotent open_world edit strict long_running deferred coerce skip_patterns"),
        (bool, "True or False", "expose_errors blocking offered flatten"),
        (bool, "True, False or a function of the arguments", "read_only destructive requires_confirmation"),
        (int, "a whole number", "retries max_concurrency"),
        (int, "a whole number of bytes", "memory_limit"),
        ((int, float), "a number of seconds", "timeout"),
        (Mapping, "a mapping", "permission_arguments provider_options meta input_schema output_schema"),
        (Iterable, "a collection of strings", "tags sends"),
        (Iterable, "a collection of mappings", "examples"),
        (ToolAnnotations, "ToolAnnotations(...)", "annotations"),
        (ResultLimits, "ResultLimits(...)", "result_limits"),
        ((Concurrency, str), "'shared', 'exclusive', a Concurrency or a function of the arguments", "concurrency"),
    )
    for name in names.split()
}


def check_options(options: Mapping[str, Any], *, tool: str, of_function: bool = False) -> dict[str, Any]:
    """The options that are set, of `ToolOptions` or `CommonOptions`; refuses unknown options and wrong types."""
    known = ToolOptions.__optional_keys__ if of_function else _COMMON
    if unknown := options.keys() - known:
        name = min(unknown)
        raise DefinitionError(f"unknown option {name!r}.{did_you_mean(suggest(name, known))}", tool=tool)
    given = {name: value for name, value in options.items() if value is not None or name == "output_schema"}
    for name, value in given.items():
        cls, text = _TYPES.get(name, (Callable, "a function"))
        if callable(value) and (name not in _TYPES or name in _MAY_BE_FUNCTIONS):
            _check_function(name, value, tool)
        elif value is not None and (not isinstance(value, cls) or (isinstance(value, bool) and cls is not bool)):
            raise DefinitionError(f"{name} must be {text}, got {value!r:.100}", tool=tool)
    elsewhere = [name for name in ("memory_limit", "queue") if name in given]
    if elsewhere and given.get("executor") in (None, "loop", "thread"):
        hint = "Pass executor='process', too, or the name of an executor that has it."
        raise DefinitionError(f"there is no {elsewhere[0]} in this process", tool=tool, hint=hint)
    return given


def _check_function(name: str, function: Callable[..., Any], tool: str) -> None:
    """Refuses a function that can't be called with its arguments; a method is bound to its instance later."""
    positional = _POSITIONAL.get(name)
    if positional and CallableKind.of(function) in (CallableKind.ASYNC, CallableKind.ASYNC_GENERATOR):
        hint = "Write it with def; awaiting belongs in the tool itself."
        raise DefinitionError(f"{name} must not be async: it is called synchronously", tool=tool, hint=hint)
    bound = partial(function, None) if is_method(function) else function
    try:
        if positional is None:
            accept_keywords(bound, ("request", "context", "services"))  # raises TypeError, as `bind` does
        else:
            more = {"context": None} if name in _MAY_TAKE_CONTEXT and takes_context(bound) else {}
            inspect_signature(bound).bind(*positional, **more)
    except TypeError as error:
        takes = " and ".join(positional) if positional else "request, context and services, or some of them"
        raise DefinitionError(f"{name} must take {takes}: {error}", tool=tool) from None
    except ValueError:  # some builtins have no signature
        return


def spec_facts(options: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of the spec that the options set, except name, schemas and examples."""
    facts = {name: options[name] for name in _AS_GIVEN if name in options}
    if "annotations" in options or any(hint in options for hint in _HINTS):
        hints = {f"{hint}_hint": options[hint] for hint in _HINTS if hint in options and not callable(options[hint])}
        facts["annotations"] = evolve(options.get("annotations", NO_HINTS), **hints)
    if "concurrency" in options:  # a function of the arguments is listed as the strictest
        declared = "exclusive" if callable(options["concurrency"]) else options["concurrency"]
        facts["concurrency"] = with_name("concurrency", concurrency_of)(declared)
    if options.get("requires_confirmation"):
        facts["requires_confirmation"] = True
    return facts


def tool_facts(options: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of the tool, outside its spec, that the options set."""
    facts: dict[str, Any] = {name: options[name] for name in OUTSIDE_SPEC if name in options}
    if "check" in options:
        facts["checks"] = options["check"]
    if functions := {name: options[name] for name in _BY_ARGUMENTS if callable(options.get(name))}:
        facts["by_arguments"] = functions
    if callable(options.get("requires_confirmation")):
        facts["confirms"] = options["requires_confirmation"]
    if policy := {name: options[name] for name in _POLICY if name in options}:
        facts["policy"] = Policy(**policy)
    return facts
