"""`Tool`: a spec with the handler that runs it; `@tool`, and the other ways to define one."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast, overload

import attrs
from attrs import evolve, field

from pegboard.callbacks import CallableKind, maybe_await
from pegboard.errors import DefinitionError, near_or_known
from pegboard.json import JsonText, StructureError, digest_of, problem
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import (
    Binder,
    Checker,
    Confirmer,
    ErrorWriter,
    Handler,
    LazyHandler,
    Preparer,
    Previewer,
    RuleValues,
    WorkDir,
    binder_of,
    binder_of_one,
    input_schema_of,
    own_problems,
    schema_as_text,
    takes_fields,
)
from pegboard.tools.options import OUTSIDE_SPEC, CommonOptions, ToolOptions, check_options, spec_facts, tool_facts
from pegboard.tools.signature import (
    EMPTY,
    STARRED,
    ParameterKind,
    Signature,
    docstring_of,
    is_method,
    name_of,
    names_in_docstring,
    output_of,
    read_return,
    signature_of,
)
from pegboard.tools.spec import HOST, Concurrency, Grammar, Origin, Policy, ToolSpec, concurrency_of, freeform_schema
from pegboard.typing import JsonMapping, JsonObject, JsonSchema, frozen

if TYPE_CHECKING:
    from pegboard.schema.validator import Validator


@frozen(eq=False)
class Tool:
    """A spec plus the handler that runs it.

    A tool without a handler is valid: its calls are returned to the host as `not_executed`. Attributes that aren't
    listed are the options of the same names.

    Attributes:
        spec: The tool's declaration.
        handler: Runs the tool; a `LazyHandler` is loaded at the first call.
        origin: Its plugin, distribution and toolset.
        policy: The policy for its calls.
        work_dir: Returns the base folder of relative paths; `None`: the call's.
        permission_values: Returns the values that rules match; `None`: the arguments themselves.
        confirms: The option `requires_confirmation` that is a predicate; `None`: by `spec.requires_confirmation`.
        by_arguments: The options `read_only`, `destructive` and `concurrency` that are functions of the arguments.
        checks: The option `check`, the tool's own check of validated arguments; the method `check` runs all checks.
        process_request: Changes the model request that the tool is resolved for, as a request processor: takes some of
            `(request, context, services)`, by name, is plain or async, and returns the next request or `None`.
        former_names: The names before it was renamed, the original first: permission rules for them apply, too.
        former_permissions: The permissions that it declared before: rules for them that deny or ask apply, too.
        own_names: Argument name for the model -> the tool's own name, if a `Reshape` has renamed it.
        presets: Argument, by the tool's own name -> JSON text of the value that a `Reshape` fixes or gives by default.
        untransformed: The tool that a plugin's transform is given, while it is transformed; else `None`.
        asks: Permissions that each call needs besides its own, by name, each with what a person reads and rules match.
    """

    spec: ToolSpec
    handler: Handler | LazyHandler | None = None
    origin: Origin = HOST
    policy: Policy = Policy()
    preview: Previewer | None = None
    work_dir: WorkDir | None = None
    permission_values: RuleValues | None = None
    confirms: Confirmer | None = None
    by_arguments: Mapping[str, Callable[[JsonMapping], Any]] = field(factory=dict[str, Any], repr=False)
    prepare_arguments: Preparer | None = None
    checks: Checker | None = None
    format_validation_error: ErrorWriter | None = None
    process_request: Callable[..., Any] | None = None
    instructions: str | None = None
    offered: bool = True
    former_names: tuple[str, ...] = ()
    former_permissions: tuple[str, ...] = ()
    own_names: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    presets: Mapping[str, JsonText] = field(factory=dict[str, JsonText], repr=False)
    untransformed: Tool | None = field(default=None, repr=False)
    asks: Mapping[str, str] = field(factory=dict[str, str], repr=False)

    @property
    def name(self) -> str:
        """The spec's name."""
        return self.spec.name

    @cached_property
    def digest(self) -> str:
        """The digest that approvals and grants are bound to: the spec's, or with presets one that includes them."""
        own = self.spec.digest
        return digest_of({"tool": own, "presets": dict(self.presets)}) if self.presets else own

    def presets_of(self, arguments: JsonMapping) -> JsonObject:
        """The presets for a call with these arguments, by the tool's own names."""
        given = {self.own_names.get(name, name) for name in arguments}
        return {name: json.loads(text) for name, text in self.presets.items() if name not in given}

    @cached_property
    def may_ask(self) -> bool:
        """Whether the tool itself gives a reason to ask the user, at least for some calls.

        It is marked destructive, requires confirmation, has a permission, asks for one, or is of an untrusted origin.
        `registry.may_ask(tool)` also takes rules, the mode and callbacks into account.
        """
        spec, hints = self.spec, self.spec.annotations
        declared = hints.destructive_hint is True or spec.requires_confirmation or spec.permission is not None
        by_function = "destructive" in self.by_arguments or self.confirms is not None
        return declared or by_function or bool(self.asks) or not self.origin.trusted

    @cached_property
    def runs_plainly(self) -> bool:
        """Whether a call only runs its handler: no wait for other calls, no retries, services or other executor."""
        policy, handler = self.policy, self.handler
        return isinstance(handler, Handler) and not (
            self.spec.concurrency.mode != "shared"
            or policy.max_concurrency is not None
            or policy.executor is not None
            or policy.retries
            or self.spec.long_running
            or handler.injects
        )

    @cached_property
    def runs_off_loop(self) -> bool:
        """Whether its function runs in a thread: a plain one that may block."""
        handler = self.handler
        return (
            isinstance(handler, Handler)
            and handler.blocking
            and handler.flavour in (CallableKind.PLAIN, CallableKind.GENERATOR)
            and self.policy.executor != "loop"
        )

    def concurrency(self, arguments: JsonMapping) -> Concurrency:
        """The concurrency of a call with these arguments; exclusive, if the tool's function fails."""
        function = self.by_arguments.get("concurrency")
        try:
            return self.spec.concurrency if function is None else concurrency_of(function(dict(arguments)))
        except (Exception, SystemExit):  # noqa: BLE001  (the tool's own function)
            return Concurrency("exclusive")

    @cached_property
    def validator(self) -> Validator:
        """The validator of this tool's arguments, compiled at first use."""
        from pegboard.schema.validator import validator_of

        return validator_of(self.spec.input_schema_text)

    @cached_property
    def output_validator(self) -> Validator | None:
        """The validator of this tool's structured results, compiled at first use; `None` without an output schema."""
        from pegboard.schema.validator import validator_of

        text = self.spec.output_schema_text
        return None if text is None else validator_of(text)

    @cached_property
    def bind(self) -> Binder:
        """Validated arguments -> `(args, kwargs)` of the handler's function, compiled at first use."""
        assert isinstance(self.handler, Handler)
        return self.handler.make_binder()

    def check(self, arguments: JsonMapping) -> tuple[str, ...]:
        """The problems of these arguments, at most 20, as `"path: reason"`; empty if they are valid.

        Validates by the schema, then by structuring, then by the tool's own check. Loads a lazy handler for these two,
        unless only an event loop can.

        Raises:
            PluginError: The tool's plugin had to be imported, and failed.
        """
        if isinstance(self.handler, LazyHandler):
            loaded = self.handler.load()
            if not isinstance(loaded, Coroutine):
                return self.handler.complete(self, loaded).check(arguments)
            loaded.close()
        if not isinstance(arguments, dict):
            arguments = dict(arguments)
        if problems := self.validator.problems(arguments):
            return problems
        if isinstance(self.handler, Handler):
            try:
                self.bind(ToolContext(), arguments)
            except StructureError as error:
                return (problem(error.path, error.reason),)
        return () if self.checks is None else own_problems(self.checks, arguments)

    def evolve(self, **changes: Any) -> Tool:
        """A copy with some attributes changed; a changed name or permission is added to the `former_*` attributes."""
        tool, own = attrs.evolve(self, **changes), self.spec.permission
        names = () if tool.name == self.name else (self.name,)
        permissions = () if own in (None, tool.spec.permission) else (own,)
        names = tuple(dict.fromkeys((*self.former_names, *names, *tool.former_names)))
        permissions = tuple(dict.fromkeys((*self.former_permissions, *permissions, *tool.former_permissions)))
        if (names, permissions) == (tool.former_names, tool.former_permissions):
            return tool
        return attrs.evolve(tool, former_names=names, former_permissions=permissions)

    def with_spec(self, **changes: Any) -> Tool:
        """A copy with some attributes of its spec changed."""
        return self.evolve(spec=self.spec.evolve(**changes))

    @classmethod
    def from_function(cls, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool:
        """Makes a tool from a function, as `@tool` does, with the same options and errors.

        Args:
            function: A function, a `functools.partial`, a bound method or a callable object; it isn't changed.
            options: See `ToolOptions`.
        """
        return _tool_of_function(function, options, method=False)

    @classmethod
    def from_schema(
        cls,
        name: str,
        input_schema: JsonSchema | None,
        handler: Callable[..., Any] | None = None,
        **options: Unpack[CommonOptions],
    ) -> Tool:
        """Makes a tool from a raw JSON Schema and a handler that takes a mapping.

        Args:
            name: The tool's name.
            input_schema: An object's schema, used unchanged but for null keywords and `nullable`; `None` or `{}` for a
                tool without arguments.
            handler: Called with the arguments as a mapping; a `ToolContext` parameter gets the context.
            options: As `@tool` takes them.

        Raises:
            SchemaError: The schema is invalid, its cost unbounded, or it has a pattern that can't be run here, and
                `skip_patterns=True` isn't given (as a toolset does, whose schemas are others').
        """
        given = check_options(options, tool=name)
        if input_schema is None or input_schema == {}:
            input_schema = {"type": "object", "properties": {}, "additionalProperties": False}
        skip = given.get("skip_patterns") or False
        facts = {"name": name, "input_schema": schema_as_text(input_schema, name, "input_schema", skip_patterns=skip)}
        return _raw_tool(facts, handler, given)

    @classmethod
    def lazy(cls, spec: ToolSpec, load: str | Callable[[], Any]) -> Tool:
        """Makes a lazy tool, whose code is loaded once, at its first call.

        Args:
            spec: The declaration; the code's own types and docstring are ignored.
            load: `"module:function"`, which is imported; or a function without arguments, plain or async, that returns
                the function, perhaps after connecting to a server. If it raises, the call fails, and the next one
                retries. It is called once, whatever event loops the calls run in.
        """
        if not callable(load) and not (isinstance(load, str) and all(load.partition(":"))):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(f"{load!r:.100} is neither 'module:function' nor a function", tool=spec.name)
        from pegboard.threads import run_in_thread
        from pegboard.tools.services import Services

        loaded: list[Handler] = []  # also for later event loops: a service is opened again in each

        async def load_handler() -> Handler:
            if not loaded:
                from pkgutil import resolve_name  # needed for such tools only

                find = functools.partial(resolve_name, load) if isinstance(load, str) else load
                is_async = CallableKind.of(find) is CallableKind.ASYNC
                function = await maybe_await(find() if is_async else await run_in_thread(find))
                if spec.kind == "freeform":
                    made = cls.freeform(spec.name, function)
                else:
                    facts: Any = {name: getattr(spec, name) for name in ("name", "input_schema", "output_schema")}
                    made = cls.from_function(function, **facts)
                loaded.append(cast("Handler", made.handler))
            return loaded[0]

        services = Services()  # concurrent calls wait for the one that loads
        services.provide(Handler, load_handler, scope="registry")
        return cls(spec, LazyHandler(lambda: services.use(Handler, None)))

    @classmethod
    def freeform(
        cls,
        name: str,
        handler: Callable[..., Any] | None = None,
        *,
        grammar: Grammar | None = None,
        **options: Unpack[CommonOptions],
    ) -> Tool:
        """Makes a tool with text input.

        Args:
            name: The tool's name.
            handler: Called with the text; a `ToolContext` parameter gets the context. Its docstring gives the
                descriptions of the tool and of the text.
            grammar: Grammar of the text. Providers enforce it; it isn't checked here.
            options: As `@tool` takes them.
        """
        given = check_options(options, tool=name)
        return _raw_tool({"name": name, "kind": "freeform", "grammar": grammar}, handler, given, argument="input")

    @classmethod
    def provider(
        cls,
        name: str,
        provider_id: str,
        arguments: JsonMapping | None = None,
        handler: Callable[..., Any] | None = None,
        *,
        input_schema: JsonSchema | None = None,
        **options: Unpack[CommonOptions],
    ) -> Tool:
        """Makes a tool that the model's provider defines, and usually runs.

        Args:
            name: The tool's name in the registry.
            provider_id: Such as `"openai.web_search"`.
            arguments: The arguments of the provider's definition.
            handler: Runs it here, such as for a local shell; `None` if the provider runs it.
            input_schema: Of the arguments that the handler gets; any object by default.
            options: As `@tool` takes them.
        """
        given = check_options(options, tool=name)
        schema = schema_as_text(input_schema or {"type": "object"}, name, "input_schema")
        facts = {"provider_id": provider_id, "provider_arguments": dict(arguments or {}), "input_schema": schema}
        return _raw_tool({"name": name, "kind": "provider", **facts}, handler, given)

    @classmethod
    def processor(cls, name: str, function: Callable[..., Any], **options: Unpack[CommonOptions]) -> Tool:
        """Makes a tool that only processes requests: it is resolved as any other, but never offered to a model.

        Args:
            name: The tool's name, for predicates and logs.
            function: As `process_request` of `Tool`: `(request, context, services)`, or some of them.
            options: As `@tool` takes them; by default, the function's docstring is the description.
        """
        if not callable(function):
            raise DefinitionError(f"{function!r:.100} isn't a function", tool=name)
        given = check_options({**options, "process_request": function, "offered": False}, tool=name)
        return make_tool({"name": name, "description": docstring_of(function).description}, given)


def tools_html(tools: Iterable[Tool]) -> str:
    """A table of tools, as HTML for notebooks: name, plugin, first line of the description."""
    from pegboard.text import visible_html  # only for notebooks

    facts = ((tool.name, tool.origin.plugin or "", tool.spec.description.partition("\n")[0]) for tool in tools)
    rows = ("".join(f"<td>{visible_html(fact, again=True)}</td>" for fact in row) for row in facts)
    head = "<tr><th>tool</th><th>plugin</th><th>description</th></tr>"
    return f"<table>{head}{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


ATTRIBUTE: Final = "__pegboard_tool__"  # the attribute of a decorated function with its `Tool` or `Method`
_MAY_BE_METHODS: Final = ("confirms", "checks", *OUTSIDE_SPEC)


@frozen(eq=False)
class Method:
    """The tool of an unbound method, whose handler's function takes the instance first."""

    tool: Tool

    def bind(self, method: Callable[..., Any], instance: object) -> Tool:
        """The tool of `instance.method`."""
        attributes = {name: _bind_if_method(getattr(self.tool, name), instance) for name in _MAY_BE_METHODS}
        functions = {name: _bind_if_method(each, instance) for name, each in self.tool.by_arguments.items()}
        return with_function(self.tool, method).evolve(**attributes, by_arguments=functions)


def with_function(tool: Tool, function: Callable[..., Any]) -> Tool:
    """The tool with its handler calling `function`: a bound method, or the result of a later decorator."""
    assert isinstance(tool.handler, Handler)
    same = getattr(function, "__func__", function) is tool.handler.function
    flavour = tool.handler.flavour if same else CallableKind.of(function)
    return tool.evolve(handler=evolve(tool.handler, function=function, flavour=flavour))


def _bind_if_method(value: Any, instance: object) -> Any:
    """Binds a preview, predicate or check that is a method of the tool's class to the instance; others stay."""
    return value.__get__(instance) if inspect.isfunction(value) and is_method(value) else value


LONG_RUNNING: Final = (  # the end of a long-running tool's description, so that the model waits
    "This tool takes a long time. Its first result only says that it is pending; the final result comes later, "
    "automatically. Do not call it again for the same task in the meantime."
)


def check_schemas(tool: Tool, *, foreign: bool) -> None:
    """Raises `SchemaError` for a tool with an invalid schema, or one of unbounded cost."""
    from pegboard.schema.validator import check_schema

    spec, skip = tool.spec, tool.policy.skip_patterns
    for what, text in (("input_schema", spec.input_schema_text), ("output_schema", spec.output_schema_text)):
        if text is not None:
            check_schema(text, tool=spec.name, what=what, skip_patterns=foreign if skip is None else skip)


def make_tool(
    facts: JsonMapping, options: JsonMapping, make_handler: Callable[..., Handler] | None = None, returns: Any = EMPTY
) -> Tool:
    """Makes a tool from derived attributes of its spec, with its name, and the checked options, which override them.

    `make_handler` gets `blocking` and `wraps_result`, by name; `returns` is the type of its function's result.
    """
    name: str = facts["name"]
    if "output_schema" in options:
        own, is_wrapped = options["output_schema"], False
        output = None if own is None else schema_as_text(own, name, "output_schema")
    else:
        output, is_wrapped = output_of(returns, tool=name)
    blocking = options.get("blocking", True)
    handler = None if make_handler is None else make_handler(blocking=blocking, wraps_result=is_wrapped)
    try:
        declared: dict[str, Any] = {**facts, "output_schema": output, **spec_facts(options)}
        if declared.get("long_running"):
            declared["description"] = f"{declared.get('description', '')}\n\n{LONG_RUNNING}".lstrip()
        spec, attributes = ToolSpec(**declared), tool_facts(options)
    except (TypeError, ValueError) as error:
        raise DefinitionError(str(error), tool=name) from None
    for each in filter(spec.is_encoded, () if "permission_values" in options else spec.permission_arguments):
        text = f"permission_arguments: rules can't match {each!r}, which is encoded as base64; take a str"
        raise DefinitionError(text, tool=name)
    made = Tool(spec, handler, **attributes)
    if "examples" not in options:
        return made
    without_own_check, examples = made.evolve(checks=None), tuple(options["examples"])
    for index, example in enumerate(examples):
        if not isinstance(example, Mapping):
            raise DefinitionError(f"example {index} isn't a mapping of arguments: {example!r:.100}", tool=made.name)
        if problems := without_own_check.check(example):  # pyright: ignore[reportUnknownArgumentType]
            hint = "Correct the example or the types."
            raise DefinitionError(f"example {index} doesn't fit: {'; '.join(problems)}", tool=made.name, hint=hint)
    return made.with_spec(examples=examples)


F = TypeVar("F", bound="Callable[..., Any] | classmethod[Any, ..., Any]")


@overload
def tool(function: F, /, **options: Unpack[ToolOptions]) -> F: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...


def tool(function: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Decorator that makes a tool from a function, which can still be called as before.

    For plain, async, generator and async generator functions; methods, static and class methods. The input schema is
    derived from the parameters' types, the descriptions from the docstring, the output schema from the return type. A
    parameter of type `ToolContext` gets the context and is hidden from the model.

        @tool
        def add(a: int, b: int) -> int:
            "Add two numbers."
            return a + b

        @tool(read_only=True, tags=["files"])
        async def size(path: str) -> int: ...

    Args:
        function: The function; left out if options are given.
        options: See `ToolOptions`.

    Raises:
        DefinitionError: A type or option is invalid; names the parameter, its type and what to do.
        InvalidNameError: The name isn't accepted by every provider.
    """
    if function is None:
        return functools.partial(_decorate, options=options)
    return _decorate(function, options)


def _decorate(decorated: Any, options: ToolOptions) -> Any:
    function = decorated.__func__ if isinstance(decorated, staticmethod | classmethod) else decorated  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    of_class = isinstance(decorated, classmethod)
    method = of_class or (not isinstance(decorated, staticmethod) and is_method(function))  # pyright: ignore[reportUnknownArgumentType]
    made = _tool_of_function(function, options, method=method)  # pyright: ignore[reportUnknownArgumentType]
    try:
        setattr(function, ATTRIBUTE, Method(made) if method else made)  # pyright: ignore[reportUnknownArgumentType]
    except (AttributeError, TypeError):
        hint = "Use Tool.from_function(...), which doesn't change it."
        raise DefinitionError("no attribute can be set on it to store the tool", tool=made.name, hint=hint) from None
    return decorated  # pyright: ignore[reportUnknownVariableType]


def _tool_of_function(function: Callable[..., Any], options: ToolOptions, *, method: bool) -> Tool:
    if isinstance(function, type):
        hint = "Register an instance, or a subclass of TypedTool."
        raise DefinitionError(f"{function.__name__} is a class", hint=hint)
    if not callable(function):
        hint = "Pass options by name: write @tool(name=...) above a function."
        raise DefinitionError(f"{function!r:.100} isn't a function", hint=hint)
    name = options.get("name") or name_of(function)
    given = check_options(options, tool=name, of_function=True)
    signature = signature_of(function, tool=name, method=method)
    of_fields = takes_fields(given, signature.visible, name)
    documented = docstring_of(function, names_in_docstring(function, signature.parameters))
    facts = {
        "name": name,
        "description": documented.description,
        "input_schema": input_schema_of(given, signature.visible, documented.parameters, name, of_fields=of_fields),
    }
    for_rules: Iterable[str] = () if "permission_values" in given else given.get("permission_arguments", ())
    if for_rules and not any(each.kind is ParameterKind.VAR_KEYWORD for each in signature.visible):
        known = json.loads(facts["input_schema"]).get("properties", {})
        for each in for_rules:
            if each not in known:  # rules would never match
                near = near_or_known(each, known)
                raise DefinitionError(f"permission_arguments: there is no argument {each!r}.{near}", tool=name)
    make_binder = functools.partial(binder_of, signature, strict="input_schema" in given, of_fields=of_fields)
    return make_tool(facts, given, *_handler_of(function, signature, make_binder))


def _handler_of(function: Any, signature: Signature, make_binder: Callable[[], Binder]) -> tuple[Any, Any]:
    """What makes the handler of a function, and the type of its result, as `make_tool` takes them."""
    flavour, result_type = read_return(function, signature.returns)
    takes_context = signature.visible != signature.parameters
    injects = tuple(each for each in signature.parameters if each.service is not None)
    make = functools.partial(Handler, function, make_binder, flavour, injects=injects, takes_context=takes_context)
    return make, result_type


def _raw_tool(
    facts: JsonObject, function: Callable[..., Any] | None, options: JsonMapping, *, argument: str | None = None
) -> Tool:
    """Makes a tool whose function takes one parameter: all arguments as a mapping, or the argument of that name."""
    name: str = facts["name"]
    if function is None:
        return make_tool(facts, options)
    signature = signature_of(function, tool=name)
    required = [each for each in signature.visible if each.default is EMPTY] or signature.visible
    if len(required) != 1 or required[0].kind in STARRED:
        hint = "A ToolContext parameter gets the context, Injected[...] ones services; any others need defaults."
        what = "the arguments as a mapping" if argument is None else "the text"
        raise DefinitionError(f"its handler must take exactly one parameter, {what}", tool=name, hint=hint)
    filled = [each for each in signature.parameters if each not in signature.visible or each is required[0]]
    signature = evolve(signature, parameters=tuple(filled))
    make_binder = functools.partial(binder_of_one, signature, argument)
    docstring = docstring_of(function)
    facts = {**facts, "description": docstring.description}
    if argument is not None:
        facts["input_schema"] = freeform_schema(docstring.parameters.get(required[0].name))
    return make_tool(facts, options, *_handler_of(function, signature, make_binder))
