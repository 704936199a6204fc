"""Wrappers of a toolset: filtered, prefixed, renamed, described, annotated, prepared, cached, reshaped; as methods."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakValueDictionary

import attrs
from attrs import field, frozen

from pegboard.callbacks import maybe_await
from pegboard.errors import DefinitionError, RegistrationError, near_or_known, with_name
from pegboard.json import JsonText, StructureError, json_text, path_text, problem
from pegboard.schema.references import REFERENCES, schemas
from pegboard.tools.context import ReadonlyContext, ToolContext
from pegboard.tools.handler import Binder, Handler, LazyHandler, own_problems
from pegboard.tools.spec import MAX_LENGTH, Concurrency, Problem, ToolAnnotations, check_name, mapped_name
from pegboard.tools.tool import Tool
from pegboard.toolsets.expression import as_predicate
from pegboard.toolsets.filters import explain_filter, filter_tools
from pegboard.toolsets.predicates import Predicate, PredicateFunction
from pegboard.toolsets.toolset import (
    Reason,
    ToolChange,
    Toolset,
    ToolsetResult,
    WrapperToolset,
    check_result,
    check_tool_schemas,
    first_problems,
)
from pegboard.typing import JsonMapping, JsonObject, JsonSchema

if TYPE_CHECKING:
    import asyncio


Key: TypeAlias = Callable[[ReadonlyContext], Hashable]  # the cache key of a context

Prepare: TypeAlias = Callable[[ReadonlyContext, Sequence[Tool]], Sequence[Tool] | Awaitable[Sequence[Tool]]]
"""Gets the context and the tools; returns the tools to offer, changed, left out or added. Plain or async."""


def whole_identity(context: ReadonlyContext) -> Hashable:
    """User, agent, model, provider and session; not the state, which changes all the time."""
    return (context.user, context.agent, context.model, context.provider, context.session)


class ToolsetBase(ABC):
    """Base class of toolsets with the wrappers as methods; each returns a new toolset around this one.

    `wrap(toolset)` adds them to a toolset of another class.

    Attributes:
        name: Its name; a subclass sets it, on the class or in `__init__`.
    """

    name: str

    @abstractmethod
    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """The tools for this context, now."""

    def filtered(self, predicate: Predicate | PredicateFunction | str) -> _WrappedToolset:
        """Only the tools for which a predicate is true: data, text, or a plain function of tool and context.

        Where it raises for a tool, that tool is out.
        """
        wanted = as_predicate(predicate)

        async def keep_wanted(offer: ToolsetResult, context: ReadonlyContext) -> ToolsetResult:
            kept, faults = await filter_tools(offer, wanted, context)
            gone = dict.fromkeys(offer).keys() - kept
            texts = ((tool.spec.name, explain_filter(wanted, tool, context, faults)) for tool in offer if tool in gone)
            dropped = [Reason("filtered", "out", text, name) for name, text in texts]
            problems = [Problem(f"tool {name!r} can't be filtered: {cause}", name) for name, cause in faults.items()]
            return ToolsetResult(kept, (*offer.problems, *first_problems(problems)), (*offer.dropped, *dropped))

        return _WrappedToolset(self, keep_wanted)

    def prefixed(self, prefix: str) -> _WrappedToolset:
        """Every name with a prefix: `"git"` makes `git_push` of `push`; one that ends with `_` or `-` is used as it is.

        Raises:
            InvalidNameError: No name can start with this prefix.
        """
        check_name(prefix[:MAX_LENGTH])
        rename = partial(prefixed_name, prefix)
        change = ToolChange("prefixed", lambda tool: tool.with_spec(name=rename(tool.name)), rename=rename)
        return _WrappedToolset(self, change)

    def renamed(self, names: Mapping[str, str]) -> _WrappedToolset:
        """Some tools under other names: old -> new; a name that no tool has had is noted among the problems.

        Where another tool has a new name already, the tool that this toolset lists first gets it.

        Raises:
            InvalidNameError: A new name isn't valid.
            RegistrationError: Two tools would get the same name.
        """
        names = dict(names)
        for old, new in names.items():
            first = next(other for other in names if names[other] == check_name(new))
            if first != old:
                raise RegistrationError(f"{first!r} and {old!r} can't both be renamed to {new!r}: choose another name")

        rename: Callable[[str], str] = lambda name: names.get(name, name)  # noqa: E731
        change = ToolChange("renamed", lambda tool: tool.with_spec(name=rename(tool.name)), rename=rename, names=names)
        return _WrappedToolset(self, change)

    def described(self, descriptions: Mapping[str, str]) -> _WrappedToolset:
        """Some tools with other descriptions: name -> description; a name that no tool has had is noted as a problem.

        Raises:
            DefinitionError: A description isn't valid.
        """
        texts = dict(descriptions)
        describe: Callable[[Tool], Tool] = lambda tool: tool.with_spec(description=texts[tool.name])  # noqa: E731
        return _WrappedToolset(self, ToolChange("described", describe, names=texts))

    def prepared(self, prepare: Prepare) -> _WrappedToolset:
        """The tools that `prepare(context, tools)` returns for each context; plain or async.

        Where it raises, the whole toolset fails.
        """

        async def call_prepare(offer: ToolsetResult, context: ReadonlyContext) -> ToolsetResult:
            new = check_result(await maybe_await(prepare(context, tuple(offer))))
            gone = {tool.spec.name for tool in offer}.difference(tool.spec.name for tool in new)
            dropped = [Reason("prepared", "out", "left out by the function", name) for name in sorted(gone)]
            return ToolsetResult(new, (*offer.problems, *new.problems), (*offer.dropped, *dropped, *new.dropped))

        return _WrappedToolset(self, call_prepare)

    def with_annotations(
        self, annotations: ToolAnnotations, where: Predicate | PredicateFunction | str | None = None
    ) -> _WrappedToolset:
        """Overrides hints of the tools that `where` picks; the host vouches for them.

        Of the other hints of an untrusted tool only those that add caution stay (destructive, open world, edit), and
        the tool's hints are trusted from then on.
        """
        given = {name: hint for name, hint in attrs.asdict(annotations).items() if hint is not None}

        def annotate(tool: Tool) -> Tool:
            own, origin = tool.spec.annotations, tool.origin
            if not origin.trusted:
                origin = attrs.evolve(origin, trusted=True)
                cautions = ("destructive_hint", "open_world_hint", "edit_hint")
                own = ToolAnnotations(**{name: getattr(own, name) or None for name in cautions})
            functions = {name: each for name, each in tool.by_arguments.items() if f"{name}_hint" not in given}
            return tool.with_spec(annotations=attrs.evolve(own, **given)).evolve(origin=origin, by_arguments=functions)

        return _WrappedToolset(self, ToolChange("annotated", annotate, None if where is None else as_predicate(where)))

    def requiring_approval(self, predicate: Predicate | PredicateFunction | str | None = None) -> _WrappedToolset:
        """Every call of these tools needs approval; without a predicate, of all tools.

        This overrides a tool's own choice of the calls to confirm.
        """
        confirm: Callable[[Tool], Tool] = lambda tool: tool.with_spec(requires_confirmation=True).evolve(confirms=None)  # noqa: E731
        where = None if predicate is None else as_predicate(predicate)
        return _WrappedToolset(self, ToolChange("made to require approval", confirm, where))

    def reshaped(self, reshapes: Mapping[str, Reshape]) -> _WrappedToolset:
        """Tools whose arguments look different to the model: tool name -> `Reshape`.

        A tool that can't be reshaped is out, and reported.
        """
        own = dict(reshapes)
        change = ToolChange("reshaped", lambda tool: _reshape_tool(tool, own[tool.name]), names=own)
        return _WrappedToolset(self, change)

    def cached(
        self, ttl: float, clock: Callable[[], float] = time.monotonic, key: Key = whole_identity
    ) -> CachedToolset:
        """The tools, queried at most once in `ttl` seconds; arguments as for `CachedToolset`."""
        return CachedToolset(self, ttl, clock, key)


class _WrappedToolset(WrapperToolset, ToolsetBase):
    """Wrapper of any toolset, with the wrappers as methods."""


def wrap(toolset: Toolset) -> _WrappedToolset:
    """Any toolset, with the wrappers as methods."""
    return _WrappedToolset(toolset)


def prefixed_name(prefix: str, name: str) -> str:
    """`"git"` and `"push"` make `"git_push"`; a prefix that ends with `_` or `-` is used as it is.

    A name longer than 64 characters is shortened, with a digest of the whole at its end.
    """
    return mapped_name(prefix + name if prefix.endswith(("_", "-")) else f"{prefix}_{name}")


MOST_KEPT: Final = 256  # keys


class CachedToolset(_WrappedToolset):
    """Cache of a toolset: queries it at most once in `ttl` seconds for each key.

    Of concurrent resolutions the first queries it, and the others wait for the answer. An answer that failed, wholly
    or in part, isn't cached: the next resolution queries it again; one with problems of single tools is. The latest
    256 keys are cached.

    Args:
        inner: Any toolset.
        ttl: Seconds, counted from the answer.
        clock: Returns seconds.
        key: By default user, agent, model, provider and session. A toolset that depends on the state or on `extra`
            needs a key that does so too; one that is the same for all contexts may use `lambda context: None`.

    Raises:
        ValueError: `ttl` isn't above zero.
    """

    def __init__(
        self, inner: Toolset, ttl: float, clock: Callable[[], float] = time.monotonic, key: Key = whole_identity
    ) -> None:
        if not ttl > 0:
            raise ValueError(f"ttl has to be more than 0 seconds, not {ttl!r}")
        super().__init__(inner)
        self._ttl = ttl
        self._clock = clock
        self._key = key
        self._cache: dict[Hashable, tuple[ToolsetResult, float]] = {}  # with its expiry time
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()  # alive while in use

    def clear(self) -> None:
        """Empties the cache; the answer to a query in progress isn't cached."""
        self._cache = {}
        self._locks = WeakValueDictionary()

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The cached offer, or the inner toolset's."""
        import asyncio

        key, cache = self._key(context), self._cache
        # A lock belongs to the event loop in which it was used.
        async with self._locks.setdefault((asyncio.get_running_loop(), key), asyncio.Lock()):
            known = cache.get(key)
            if known is not None and self._clock() < known[1]:
                return known[0]
            offer = await super().tools(context)
            if not offer.has_failed:
                cache.pop(key, None)
                cache[key] = (offer, self._clock() + self._ttl)
                for oldest in list(cache)[:-MOST_KEPT]:
                    cache.pop(oldest, None)
            return offer


_ROOT: Final = frozenset(
    {"$schema", "$defs", "definitions", "$comment", "title", "description", "type"}
    | {"properties", "required", "additionalProperties"}
)
"""The keywords allowed at the root of a schema to reshape; others could refer to arguments by name."""

_LEFT_OUT: Final = frozenset({"default", "examples"})  # whole arguments, by the tool's own names


def _as_texts(values: Mapping[str, Any]) -> dict[str, JsonText]:
    return {name: json_text(value) for name, value in dict(values).items()}


@frozen
class Reshape:
    """Reshaped arguments of one tool, as the model sees them. The keys of every mapping are the tool's own names.

    Values and schemas are given as JSON data and stored as its text.

    The model's arguments, turned back, still have to be valid by the tool's own schema, whatever `retype` allows.
    A user who approves a call sees hidden values and defaults; use a service for secrets.

    Attributes:
        rename: Argument -> the name that the model sees.
        hide: Argument -> the value that it always has; the model sees neither.
        default: Argument -> the value that it has where the model leaves it out.
        retype: Argument -> the JSON Schema that replaces its own.
        describe: Argument -> its description.

    Raises:
        DefinitionError: A hidden argument is in another mapping, too.
        TypeError: A value isn't JSON data.
    """

    rename: Mapping[str, str] = field(factory=dict[str, str], converter=with_name("rename", dict[str, str]))
    hide: Mapping[str, Any] = field(factory=dict[str, Any], converter=with_name("hide", _as_texts))
    default: Mapping[str, Any] = field(factory=dict[str, Any], converter=with_name("default", _as_texts))
    retype: Mapping[str, Any] = field(factory=dict[str, Any], converter=with_name("retype", _as_texts))
    describe: Mapping[str, str] = field(factory=dict[str, str], converter=with_name("describe", dict[str, str]))

    def __attrs_post_init__(self) -> None:
        for name in self.hide:
            if name in {*self.rename, *self.default, *self.retype, *self.describe}:
                raise DefinitionError("it is hidden, so it can't be reshaped in other ways", parameter=name)

    def reshape_schema(self, schema: JsonSchema) -> JsonSchema:
        """The schema that the model sees.

        Raises:
            DefinitionError: It has no such argument, two would get one name, a hidden value or a default isn't valid
                for its argument, or the schema can't be reshaped safely.
        """
        properties: dict[str, Any] = schema.get("properties", {})
        self._check(schema, properties)
        self._check_values(schema, properties)
        shown: JsonSchema = {key: value for key, value in schema.items() if key not in {*_LEFT_OUT, "required"}}
        shown["properties"] = self._properties(properties)
        free = {*self.hide, *self.default}
        required = [self.rename.get(name, name) for name in schema.get("required", ()) if name not in free]
        return {**shown, "required": required} if required else shown

    def original_arguments(self, arguments: Mapping[str, Any]) -> JsonObject:
        """The arguments as the tool takes them.

        Raises:
            StructureError: The own name of a hidden or renamed argument, which the model doesn't see.
        """
        given = self.own_arguments(arguments)
        free = {name: text for name, text in self.default.items() if name not in given}
        return {**given, **{name: json.loads(text) for name, text in {**free, **self.hide}.items()}}

    def own_arguments(self, arguments: Mapping[str, Any]) -> JsonObject:
        """The arguments by the tool's own names, without hidden values and defaults. Raises as `original_arguments`."""
        own = {new: old for old, new in self.rename.items()}
        for name in arguments:
            if name not in own and (name in self.rename or name in self.hide):
                raise StructureError("there is no such argument", (name,))
        return {own.get(name, name): value for name, value in arguments.items()}

    def reshape_arguments(self, given: JsonObject) -> JsonObject:
        """Arguments that the tool takes, as the model would write them."""
        return {self.rename.get(name, name): value for name, value in given.items() if name not in self.hide}

    def _properties(self, properties: Mapping[str, Any]) -> JsonObject:
        shown: JsonObject = {}
        for name, schema in properties.items():
            if name in self.hide:
                continue
            new = self.rename.get(name, name)
            if new in shown:
                raise DefinitionError(f"two arguments would be called {new!r}", parameter=name)
            rule: JsonSchema | bool = json.loads(self.retype[name]) if name in self.retype else schema
            extra: JsonObject = {"description": self.describe[name]} if name in self.describe else {}
            if name in self.default:
                extra["default"] = json.loads(self.default[name])
            shown[new] = {**(rule if isinstance(rule, dict) else {}), **extra} if extra else rule
        return shown

    def _check(self, schema: JsonSchema, properties: Mapping[str, Any]) -> None:
        for name in {**self.rename, **self.hide, **self.default, **self.retype, **self.describe}:
            if name not in properties:
                raise DefinitionError(f"there is no such argument.{near_or_known(name, properties)}", parameter=name)
        for keyword in schema:
            if keyword not in _ROOT | _LEFT_OUT and not keyword.startswith("x-"):
                what = f"a schema with {keyword!r} at its root"
                raise DefinitionError(f"{what} can't be reshaped: it may refer to arguments by name")
        for reference in (part[key] for part in schemas(schema) for key in REFERENCES if key in part):
            if not str(reference).startswith(("#/$defs/", "#/definitions/")):
                raise DefinitionError(f"a schema with the reference {reference!r} can't be reshaped")

    def _check_values(self, schema: JsonSchema, properties: Mapping[str, Any]) -> None:
        from pegboard.schema.validator import validator_of

        root = {key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema}  # for references
        for name, text in {**self.hide, **self.default}.items():
            validator = validator_of(json_text({**root, "allOf": [properties[name]]}))
            if faults := validator.problems(json.loads(text)):
                fault = f"its default doesn't fit: {'; '.join(faults)}"
                if name in self.hide:
                    fault = f"its hidden value doesn't fit: {faults[0].partition(', got ')[0]}"
                raise DefinitionError(fault, parameter=name)


def _reshape_tool(tool: Tool, reshape: Reshape) -> Tool:
    """A tool with reshaped arguments; what is listed and what is called change together."""
    if tool.untransformed is not None:
        tool = tool.evolve(untransformed=_reshape_tool(tool.untransformed, reshape))
    own, before, rename, hide = tool.spec, tool.own_names, reshape.rename, reshape.hide
    if own.kind != "function" or tool.handler is None:
        raise DefinitionError("only function tools that have a handler can be reshaped", tool=tool.name)
    preset = {**reshape.default, **hide}
    concurrency = attrs.evolve(own.concurrency, key=tuple(rename.get(name, name) for name in own.concurrency.key))
    if not preset.keys().isdisjoint(own.concurrency.key):  # the model's arguments no longer determine the key
        concurrency = Concurrency("exclusive")
    permissions = {
        before.get(name, name) if name in hide else rename.get(name, name): kind  # a hidden one's own name, for rules
        for name, kind in own.permission_arguments.items()
    }
    spec = own.evolve(
        input_schema=reshape.reshape_schema(own.input_schema),
        examples=[reshape.reshape_arguments(each) for each in own.examples if reshape.retype.keys().isdisjoint(each)],
        concurrency=concurrency,
        permission_arguments=permissions,
    )
    shown = [name for name in own.input_schema.get("properties", ()) if name not in hide]
    names = {rename.get(name, name): before.get(name, name) for name in shown}
    presets = {**tool.presets, **{before.get(name, name): text for name, text in preset.items()}}
    reshaped = tool.evolve(spec=spec, own_names=names, presets=presets)
    check_tool_schemas(reshaped)
    if isinstance(tool.handler, LazyHandler):
        return reshaped
    return reshaped.evolve(**_Reshaping(tool, reshape).parts(tool.handler))


@frozen(eq=False)
class _Reshaping:
    """Adapter between the names that the model sees and the tool's own."""

    tool: Tool
    reshape: Reshape

    def parts(self, handler: Handler) -> dict[str, Any]:
        """The tool's functions that take arguments, adapted to those that the model sees."""
        hooks = {name: getattr(self.tool, name) for name in ("preview", "confirms", "work_dir", "permission_values")}
        return {
            **{name: self.with_own_names(hook) for name, hook in hooks.items() if hook is not None},
            "handler": attrs.evolve(handler, make_binder=self.binder),
            "by_arguments": {name: self.with_own_names(function) for name, function in self.tool.by_arguments.items()},
            "checks": self.problems,
            "prepare_arguments": self.tool.prepare_arguments and self.prepare,
        }

    def with_own_names(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)  # so that it shows whether it takes the context
        def call(arguments: JsonMapping, *more: Any, **named: Any) -> Any:
            return function(self.reshape.original_arguments(arguments), *more, **named)

        return call

    def prepare(self, arguments: JsonObject) -> JsonObject:
        """What the tool prepares of the given arguments, by the new names; hidden ones aren't the model's."""
        assert self.tool.prepare_arguments is not None
        try:
            given = self.reshape.own_arguments(arguments)
        except StructureError:
            return arguments  # which are refused when they are validated
        return self.reshape.reshape_arguments(dict(self.tool.prepare_arguments(given)))

    def problems(self, arguments: JsonMapping) -> Sequence[str]:
        """The problems that the tool's own schema and check find in arguments that are valid by the shown schema."""
        try:
            given = self.reshape.original_arguments(arguments)
        except StructureError as error:
            return (problem(error.path, error.reason),)
        found = self.tool.validator.problems(given)
        if not found and self.tool.checks is not None:
            found = own_problems(self.tool.checks, given)
        return [self.with_new_names(text) for text in found]

    def binder(self) -> Binder:
        bind = self.tool.bind

        def bind_visible(context: ToolContext, arguments: JsonMapping) -> tuple[Sequence[Any], Mapping[str, Any]]:
            given = self.reshape.original_arguments(arguments)
            try:
                return bind(context, given)
            except StructureError as error:
                if not error.path:
                    raise
                name, *rest = error.path
                self.check_visible(name, error.reason)
                raise StructureError(error.reason, (self.reshape.rename.get(f"{name}", name), *rest)) from None

        return bind_visible

    def with_new_names(self, text: str) -> str:
        """A problem with the new names."""
        for name in (*self.reshape.hide, *self.reshape.rename):
            start = path_text((name,))
            if text.startswith((f"{start}:", f"{start}.", f"{start}[")):
                self.check_visible(name, text)
                return path_text((self.reshape.rename[name],)) + text.removeprefix(start)
        return text

    def check_visible(self, name: str | int, reason: str) -> None:
        """Raises `DefinitionError` for a value that the model neither sees nor can change."""
        if name in self.reshape.hide:
            raise DefinitionError(f"its hidden value is refused: {reason}", tool=self.tool.name, parameter=f"{name}")
