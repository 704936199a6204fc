"""Options of a tool: where each one goes, and what is refused."""

from __future__ import annotations

import functools

import attrs
import pytest

from pegboard import Concurrency, Policy, Tool, ToolAnnotations, tool
from pegboard.errors import DefinitionError


def search(query: str, limit: int = 10) -> str:
    return query * limit


def test_every_option_is_stored():
    def preview(arguments): ...
    def check(arguments): ...
    def write(problems): ...
    def confirm(arguments): ...
    def process(request): ...

    made = Tool.from_function(
        search,
        title="T",
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=True),
        read_only=False,
        destructive=True,
        idempotent=True,
        edit=True,
        strict=True,
        long_running=True,
        deferred=True,
        concurrency="exclusive",
        permission="p",
        permission_arguments={"query": "text"},
        requires_confirmation=confirm,
        version="1",
        provider_options={"a": {}},
        meta={"m": 1},
        preview=preview,
        check=check,
        format_validation_error=write,
        timeout=1.5,
        coerce=True,
        expose_errors=False,
        retries=2,
        max_concurrency=3,
        executor="process",
        queue="heavy",
        memory_limit=1 << 28,
        blocking=False,
        process_request=process,
    )
    spec = made.spec
    assert spec.annotations == ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True, edit_hint=True
    )
    assert (spec.title, spec.strict, spec.long_running, spec.deferred) == ("T", True, True, True)
    assert spec.permission_arguments == {"query": "text"}
    assert (spec.permission, spec.requires_confirmation, spec.version) == ("p", True, "1")
    assert (spec.provider_options, spec.meta, spec.concurrency) == ({"a": {}}, {"m": 1}, Concurrency("exclusive"))
    assert (made.preview, made.checks, made.format_validation_error) == (preview, check, write)
    assert (made.confirms, made.process_request, made.handler.blocking) == (confirm, process, False)
    assert made.policy == Policy(
        timeout=1.5,
        coerce=True,
        expose_errors=False,
        retries=2,
        max_concurrency=3,
        executor="process",
        queue="heavy",
        memory_limit=1 << 28,
    )


def test_empty_options_leave_the_defaults():
    made = Tool.from_function(search, name=None, title=None, timeout=None, requires_confirmation=False)
    assert made.spec == Tool.from_function(search).spec
    assert made.policy == Policy()
    assert made.confirms is None
    by_key = Concurrency("key", ("query",))
    assert Tool.from_function(search, concurrency=by_key).spec.concurrency is by_key
    assert Tool.from_function(search, requires_confirmation=True).confirms is None


async def wait(arguments):
    """What can't be asked from where it is needed."""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readonly": True}, "unknown option 'readonly'. Did you mean 'read_only'?"),
        ({"timeout": 0}, "timeout must be a number above 0"),
        ({"timeout": "5"}, "timeout must be a number of seconds, got '5'"),
        ({"retries": True}, "retries must be a whole number, got True"),
        ({"preview": 5}, "preview must be a function, got 5"),
        ({"check": "no"}, "check must be a function, got 'no'"),
        ({"format_validation_error": []}, "format_validation_error must be a function"),
        ({"process_request": {}}, "process_request must be a function"),
        ({"requires_confirmation": "yes"}, "requires_confirmation must be True, False or a function"),
        ({"read_only": 1}, "read_only must be True, False or a function of the arguments"),
        ({"tags": 5}, "tags must be "),
        ({"instructions": 5}, "instructions must be a string"),
        ({"offered": "no"}, "offered must be True or False"),
        ({"read_only": wait}, "read_only must not be async"),
        ({"destructive": lambda: True}, "destructive must take arguments: "),
        ({"concurrency": lambda: "shared"}, "concurrency must take arguments: "),
        ({"preview": lambda context: None}, "preview must take arguments: "),
        ({"check": wait}, "check must not be async: it is called synchronously. Write it with def"),
        ({"check": lambda: None}, "check must take arguments: too many positional"),
        ({"preview": lambda a, b: None}, "preview must take arguments: missing a required"),
        ({"preview": lambda *, arguments: None}, "preview must take arguments: "),
        ({"requires_confirmation": lambda: True}, "requires_confirmation must take arguments: "),
        ({"format_validation_error": lambda: ""}, "format_validation_error must take problems: "),
        ({"work_dir": lambda arguments: "/"}, "work_dir must take arguments and context: "),
        ({"process_request": lambda it: None}, "process_request must take request, context and services, or some"),
        ({"title": "t", "permission": "\ud800"}, "permission: '\\ud800' must not hold lone surrogates"),
        ({"permission_arguments": ["query"]}, "permission_arguments must be a mapping"),
        ({"permission_arguments": {"query": "file"}}, "permission_arguments.query: unknown kind 'file'"),
        ({"permission_arguments": {"qery": "text"}}, "there is no argument 'qery'. Did you mean 'query'?"),
        ({"permission_arguments": {"x": "text"}}, "there is no argument 'x'. There are query"),
        ({"meta": {"a": ["\ud800"]}}, "meta: a[0]: must not hold lone surrogates"),
        ({"concurrency": "alone"}, "concurrency: mode: unknown value 'alone'"),
        ({"tags": "abc"}, "tags must be "),
        ({"meta": {"a": object()}}, "not JSON serializable"),
        ({"executor": 1}, "executor must be a string"),
        ({"memory_limit": 1 << 28}, "there is no memory_limit in this process. Pass executor='process'"),
        ({"memory_limit": 1 << 28, "executor": "thread"}, "there is no memory_limit in this process"),
        ({"sends": "state"}, "sends must be a collection of str, got 'state'"),
        ({"sends": ["cart"]}, "sends: 'cart' must be 'state', 'extra', 'values', or a member, as 'state.cart'"),
        ({"sends": ["state."]}, "sends: 'state.' must be 'state', "),
        ({"queue": "gpu"}, "there is no queue in this process. Pass executor="),
        ({"queue": "..", "executor": "far"}, "queue must be 1 to 64 of A-Z, a-z, 0-9, '_' and '-', got '..'"),
        ({"queue": "q" * 65, "executor": "far"}, "queue must be 1 to 64 of"),
        ({"memory_limit": 1e9, "executor": "process"}, "memory_limit must be a whole number of bytes"),
        ({"examples": [{"query": 1}]}, "example 0 doesn't fit: query: must be a string"),
        ({"examples": [["q"]]}, "example 0 isn't a mapping of arguments: ['q']"),
        ({"examples": [{"query": "q"}, {}]}, "example 1 doesn't fit: query: required, missing"),
    ],
)
def test_wrong_options_are_refused_at_definition(options, message):
    with pytest.raises(DefinitionError) as caught:
        Tool.from_function(search, **options)
    assert message in str(caught.value)
    assert caught.value.tool == "search"


@attrs.frozen
class Script:
    text: bytes


@pytest.mark.parametrize("type_", [bytes, list[bytes], str | bytes, dict[str, bytes], Script, list[Script] | None])
def test_rules_cannot_match_base64_arguments(type_):
    def shell(line: type_, other: str, script: Script | None = None) -> None: ...

    shell.__annotations__["line"] = type_
    schema = Tool.from_function(shell).spec.input_schema
    with pytest.raises(DefinitionError, match="rules can't match 'line', which is encoded as base64"):
        Tool.from_function(shell, permission_arguments={"line": "command"})
    with pytest.raises(DefinitionError, match="rules can't match 'line', which is encoded as base64"):
        Tool.from_schema("shell", schema, permission_arguments={"line": "command"})
    assert Tool.from_function(shell, permission_arguments={"other": "command"})


@pytest.mark.parametrize(
    "options",
    [
        {"check": lambda arguments, more=1: (), "preview": print, "work_dir": lambda *given: "/"},
        {"check": functools.partial(lambda one, arguments: (), 1), "requires_confirmation": bool},
        {"process_request": lambda context: None},
        {"process_request": lambda request, n=1: None},
    ],
)
def test_option_functions_may_have_more_parameters(options):
    assert Tool.from_function(search, **options).name == "search"


def test_options_of_functions_only_are_refused_elsewhere():
    with pytest.raises(DefinitionError, match="unknown option 'nmae'"):
        Tool.from_schema("raw", {}, nmae="x")


@pytest.mark.parametrize("thing", [5, "name", None])
def test_positional_options_are_refused(thing):
    with pytest.raises(DefinitionError, match=r"isn't a function\. Pass options by name"):
        tool()(thing) if thing is None else tool(thing)


def test_rules_may_match_arguments_of_kwargs():
    def fetch(**rest: str): ...

    assert Tool.from_function(fetch, permission_arguments={"url": "url"}).spec.permission_arguments == {"url": "url"}
