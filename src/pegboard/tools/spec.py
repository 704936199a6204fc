"""`ToolSpec`: a tool's declaration as frozen JSON data; names; `Origin`, `Policy`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

import attrs
from attrs import field
from attrs.converters import optional

from pegboard.errors import InvalidNameError, at_least, one_of, tuple_of, with_name
from pegboard.json import EMPTY_OBJECT, JsonText, digest_of, encodable_text, is_unicode, json_text, surrogate_fault
from pegboard.schema.converter import JsonRecord, json_key, json_name
from pegboard.tools.limits import AT_LEAST_ONE, ResultLimits
from pegboard.typing import JsonMapping, JsonObject, JsonSchema, frozen

ConflictPolicy: TypeAlias = Literal["error", "keep", "replace", "shadow", "prefix"]
"""For two tools of one name: raise an error, use the earlier, use the later, use the later until it is disposed, or
prefix the later's name with its plugin's."""

_DISTRIBUTION: Final = re.compile("[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")


def source_name(source: str | None) -> str | None:
    """The normalised name of an origin's source, or `None`; raises `TypeError` or `ValueError` for anything else."""
    if source is None:
        return None
    if not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        raise TypeError(f"source: a distribution's name must be a string, got {source!r:.100}")
    if not _DISTRIBUTION.fullmatch(source):
        raise ValueError(f"source: {source!r:.100} isn't a distribution's name: 1-128 of A-Z, a-z, 0-9, '.', '_', '-'")
    return re.sub("[-_.]+", "-", source).lower()  # PEP 503


@frozen
class Origin:
    """Origin of a tool: its plugin, distribution and toolset.

    Attributes:
        plugin: The plugin's name (its entry point's), or `None` for the host program.
        distribution: The installed distribution, or `None`.
        version: The distribution's version, or `None`.
        toolset: The toolset that offered the tool at this resolution, or `None`.
        trusted: Whether its annotations are trusted; those of an untrusted origin can only make it stricter.
        source: The distribution that a foreign tool comes from, as its toolset claims, normalised; or `None`.

    Raises:
        TypeError, ValueError: The source isn't a distribution's name.
    """

    plugin: str | None = None
    distribution: str | None = None
    version: str | None = None
    toolset: str | None = None
    trusted: bool = True
    source: str | None = field(default=None, converter=source_name)

    def __str__(self) -> str:
        package = f" ({self.distribution} {self.version or '?'})" if self.distribution else ""
        owner = f"plugin {self.plugin!r}{package}" if self.plugin else "the host"
        source = f", from {self.source}" if self.source else ""
        return f"{owner}{source}, toolset {self.toolset!r}" if self.toolset else f"{owner}{source}"


HOST: Final = Origin()  # origin of what the host itself registers


@frozen
class Problem(JsonRecord):
    """Something that is wrong with one thing; everything else works. It is for the operator, never for the model.

    Attributes:
        subject: The thing, such as `"toolset 'mcp'"`, or `None` where `plugin` and `distribution` say it.
        plugin: The plugin's name, or `None` where it isn't known, or the thing is the host's.
        distribution: The distribution, or `None`.
        cause: What happened, and what to do, unless `fix` says it.
        fix: What to do, or `None`.
        tool: The tool that is missing because of it, or `None`.
        offers: What else is missing because of it, as (kind, name).
        error: What was raised, or `None`.
        note: Whether it is only a note: nothing failed.
    """

    subject: str | None = field(default=None, kw_only=True)
    plugin: str | None = field(default=None, kw_only=True)
    distribution: str | None = field(default=None, kw_only=True)
    cause: str
    fix: str | None = field(default=None, kw_only=True)
    tool: str | None = None
    offers: frozenset[tuple[str, str]] = field(default=frozenset(), kw_only=True, metadata=json_key(""))
    error: BaseException | None = field(default=None, kw_only=True, eq=False, repr=False, metadata=json_key(""))
    note: bool = field(default=False, kw_only=True, metadata=json_key(""))

    @classmethod
    def of(cls, origin: Origin, cause: str, tool: str | None = None, **facts: Any) -> Problem:
        """A problem with a thing of this origin: of its toolset, if it has one."""
        subject = f"toolset {origin.toolset!r}" if origin.toolset else None
        facts = {"subject": subject, "plugin": origin.plugin, "distribution": origin.distribution, **facts}
        return cls(cause, tool, **facts)

    def __str__(self) -> str:
        return f"{self.subject}: {self.cause}" if self.subject else self.cause


LEAST_MEMORY: Final = 64 << 20  # bytes that a child process needs for Python itself and what a tool imports
_QUEUE: Final = re.compile("[A-Za-z0-9_-]{1,64}")


def check_queue(name: str) -> str:
    """The name of an executor's queue, unchanged; raises `ValueError` if it isn't 1-64 of letters, digits, '_', '-'."""
    if not isinstance(name, str) or not _QUEUE.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]  from outside
        raise ValueError(f"queue must be 1 to 64 of A-Z, a-z, 0-9, '_' and '-', got {name!r:.100}")
    return name


def _names_to_send(given: Iterable[str]) -> tuple[str, ...]:
    for name in (names := tuple_of("sends", str)(given)):
        if not re.fullmatch(r"(state|extra|values)(\..+)?", name):
            raise ValueError(f"sends: {name!r:.100} must be 'state', 'extra', 'values', or a member, as 'state.cart'")
    return names


def _check_executor(_policy: Any, _attribute: Any, value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError(f"executor must be the name of an executor, or None, got {value!r:.100}")


@frozen
class Policy:
    """Policy for calls of a tool, by the options of the same names; `None` means the registry's default.

    Raises:
        ValueError: A `max_concurrency` below 1, a `timeout` that isn't above 0, a `memory_limit` below 64 MiB (too
            little for Python itself), negative `retries`, an empty `executor`, or an invalid `queue` or `sends`.
    """

    timeout: float | None = field(default=None, validator=at_least(0, or_none=True, exclusive=True))
    coerce: bool | None = None
    skip_patterns: bool | None = None
    expose_errors: bool | None = None
    retries: int = field(default=0, validator=at_least(0))
    max_concurrency: int | None = field(default=None, validator=AT_LEAST_ONE)
    result_limits: ResultLimits | None = None
    executor: str | None = field(default=None, validator=_check_executor)
    memory_limit: int | None = field(default=None, validator=at_least(LEAST_MEMORY, or_none=True))
    queue: str | None = field(default=None, converter=optional(check_queue))
    sends: tuple[str, ...] | None = field(default=None, converter=optional(_names_to_send))

    @property
    def runs(self) -> JsonObject:
        """Where calls run, what is sent there, and within which limits: JSON data, without what isn't set."""
        facts = {wire: getattr(self, name) for wire, name in _RUNS.items()}
        facts["sends"] = None if self.sends is None else [*self.sends]
        return {wire: value for wire, value in facts.items() if value not in (None, 0)}

    @classmethod
    def of_runs(cls, data: JsonMapping) -> Policy:
        """Reads `runs` from an untrusted source; anything else raises `ValueError` or `TypeError`."""
        for wire in data.keys() - _RUNS.keys():
            raise ValueError(f"{wire:.80}: unknown key")
        return cls(**{_RUNS[wire]: value for wire, value in data.items()})


_SAME: Final = {name: name for name in ("executor", "queue", "sends", "timeout")}
_RUNS: Final = {**_SAME, "memoryLimit": "memory_limit", "retries": "retries"}  # key in `Policy.runs` -> attribute


MAX_LENGTH: Final = 64
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ALIKE: Final = str.maketrans("01i-", "oll_")


def is_valid_name(name: str) -> bool:
    """Whether `name` is 1-64 of `[A-Za-z0-9_-]`, a letter or `_` first, and doesn't begin with `pegboard_`.

    The intersection of the rules of OpenAI, Anthropic, Bedrock (`[A-Za-z0-9_-]{1,64}`) and Gemini (first character).
    """
    fits = len(name) <= MAX_LENGTH and _NAME.fullmatch(name) is not None
    return fits and not name.lower().startswith("pegboard_")  # such as the virtual call that asks for confirmation


def check_name(name: str) -> str:
    """`name` unchanged; raises `InvalidNameError` if it isn't valid."""
    if not isinstance(name, str) or not is_valid_name(name):  # pyright: ignore[reportUnnecessaryIsInstance]  a caller may pass anything
        raise InvalidNameError(name)
    return name


def alike(name: str) -> str:
    """A key that is equal for names that differ only in case, or in characters that look alike."""
    return name.lower().translate(_ALIKE)


def mapped_name(foreign: str) -> str:
    """A valid name for a foreign one: itself if it is valid, else a readable part and a digest of the whole.

    Different foreign names get different names: mapped ones end with a digest of the foreign name (40 bits of SHA-256),
    and a valid name that looks like a mapped one is mapped, too.
    """
    if is_valid_name(foreign) and not re.fullmatch(".+_[0-9a-f]{10}", foreign):
        return foreign
    import hashlib  # not needed for valid names

    digest = hashlib.sha256(foreign.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    readable = re.sub("[^A-Za-z0-9_-]", "_", foreign)
    if not re.match("[A-Za-z_]", readable) or readable.lower().startswith("pegboard_"):
        readable = f"_{readable}"
    return f"{readable[: MAX_LENGTH - 11]}_{digest}"


_Kind: TypeAlias = Literal["function", "freeform", "provider"]
KINDS: Final = get_args(_Kind)
ArgumentKind: TypeAlias = Literal["text", "command", "path", "url"]
"""How a rule reads an argument: as plain text, a shell command line, a file system path, or a URL."""

ARGUMENT_KINDS: Final = get_args(ArgumentKind)


def freeform_schema(description: str | None = None) -> JsonText:
    """The schema of a freeform tool: an object with one string, `input`, and its description."""
    text = {"type": "string"} if description is None else {"type": "string", "description": description}
    return json_text(
        {"type": "object", "properties": {"input": text}, "required": ["input"], "additionalProperties": False}
    )


def schema_text(schema: JsonSchema) -> JsonText:
    """A schema as text, without keywords that are null or OpenAPI's `nullable`; raises as `json_text` does."""
    text = json_text(schema)
    if text is schema or (":null" not in text and '"nullable":true' not in text):
        return text
    from pegboard.schema.references import as_json_schema

    try:
        return json_text(as_json_schema(json.loads(text)))
    except (ValueError, RecursionError):  # too large or too deep, which is refused when it is checked
        return text


# the schema of a tool without arguments
NO_INPUT: Final = json_text({"type": "object", "properties": {}, "additionalProperties": False})


def _unique_strings(what: str, given: Any) -> dict[str, None]:
    strings = dict.fromkeys(tuple_of(what, str)(given))
    for each in strings:
        _check_unicode(what, each)
    return strings


def _check_unicode(what: str, text: str | None) -> None:
    if text is not None and not is_unicode(text):
        raise ValueError(f"{what}: {text!r:.100} must not hold lone surrogates")


def _check_definition(grammar: Grammar, _attribute: Any, definition: object) -> None:
    """Refuses a definition that isn't a string, or for the syntax `"regex"` isn't a pattern."""
    if not isinstance(definition, str):
        raise TypeError(f"the definition of a grammar must be a string, got {definition!r:.100}")
    _check_unicode("definition", definition)
    if grammar.syntax == "regex":
        from pegboard.schema.validator import is_pattern

        if not is_pattern(definition):
            wanted = "no lookaround, no backreferences, of bounded size"
            raise ValueError(f"{definition!r:.100} isn't a regular expression that runs in linear time ({wanted})")


@frozen
class ToolAnnotations(JsonRecord):
    """Hints about behaviour, named as in MCP (`readOnlyHint` in JSON); `None` is unset: neither yes nor no.

    Attributes:
        read_only_hint: The tool changes nothing.
        destructive_hint: The tool may destroy data.
        idempotent_hint: Repeating the same call has no further effect.
        open_world_hint: The tool interacts with the outside world (network, other people).
        edit_hint: The tool edits files. Ours; MCP carries it in `_meta`.
    """

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None
    edit_hint: bool | None = None


NO_HINTS: Final = ToolAnnotations()


@frozen
class Grammar(JsonRecord):
    """The grammar of a freeform tool's text input.

    Attributes:
        syntax: `"lark"` or `"regex"`.
        definition: The grammar's text. A regular expression has the syntax of Rust's `regex`, which providers accept
            and which runs in linear time; Lark grammars aren't checked.

    Raises:
        ValueError: Another syntax, or an invalid regular expression.
        TypeError: A definition that isn't a string.
    """

    syntax: Literal["lark", "regex"] = field(validator=one_of("lark", "regex"))
    definition: str = field(validator=_check_definition)


_Mode: TypeAlias = Literal["shared", "exclusive", "key", "path"]


@frozen
class Concurrency:
    """Concurrency of a tool: which of its calls may run at the same time.

    Attributes:
        mode: `"shared"` with all calls; `"exclusive"`: not with any other call; `"key"`: not with calls of the same
            key; `"path"`: not with calls of the same answer whose path is the same, above or below. Of different
            answers, writers of the same path wait for each other.
        key: For `"key"`: the names of the arguments whose values make the key. For `"path"`: the name of one that is a
            path, relative to the tool's `work_dir` or else the call's.
        access: For these two modes: `"read"` calls share, a `"write"` call is exclusive.
    """

    mode: _Mode = field(default="shared", validator=one_of(*get_args(_Mode)))
    key: tuple[str, ...] = field(default=(), converter=lambda names: tuple(_unique_strings("key", names)))
    access: Literal["read", "write"] = field(default="write", validator=one_of("read", "write"))

    def __attrs_post_init__(self) -> None:
        if self.mode == "path" and len(self.key) != 1:
            raise ValueError(f"mode 'path' takes the name of one argument, as in ('path',); got {self.key!r:.100}")

    def to_json(self) -> JsonObject:
        """`{"mode": ..., "key": [...], "access": ...}`; key and access only for the modes `"key"` and `"path"`."""
        if self.mode not in ("key", "path"):
            return {"mode": self.mode}
        return {"mode": self.mode, "key": list(self.key), "access": self.access}


SHARED: Final = Concurrency()
EXCLUSIVE: Final = Concurrency("exclusive")


def concurrency_of(wanted: Any) -> Concurrency:
    """A `Concurrency` unchanged, or that of `"shared"` or `"exclusive"`; raises `ValueError` for anything else."""
    return wanted if isinstance(wanted, Concurrency) else Concurrency(wanted)


_ENCODED: Final = '"contentEncoding"'


def _kinds_text(given: Mapping[str, Any] | JsonText) -> JsonText:
    if type(given) is JsonText:
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"permission_arguments must be a mapping of names to kinds, got {given!r:.100}")
    for name, kind in given.items():
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  whatever is given comes here
            raise TypeError(f"permission_arguments: {name!r:.100} isn't an argument name")
        if kind not in ARGUMENT_KINDS:
            known = ", ".join(ARGUMENT_KINDS)
            raise ValueError(f"permission_arguments.{name}: unknown kind {kind!r:.100}; must be one of {known}")
    return json_text(dict(given)) if given else EMPTY_OBJECT


def _json_property(name: str) -> Any:
    """A property: the value of an attribute that is stored as JSON text, new at each read."""
    return property(lambda spec: None if (text := getattr(spec, name)) is None else json.loads(text), doc="")


def _examples_text(examples: Any) -> JsonText | None:
    return json_text(list(examples) if isinstance(examples, tuple) else examples) if examples else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


@frozen(eq=False)
class ToolSpec:
    """Specification of a tool: frozen, JSON-serialisable, compared by its digest.

    Schemas, examples, options and meta are stored as JSON text; each read returns a new value, so that changing it
    doesn't change the spec. Attributes that aren't listed are the options of the same names.

    Attributes:
        name: 1-64 of `[A-Za-z0-9_-]`, a letter or `_` first.
        description: For the model. Here and in `title`, lone surrogates become U+FFFD.
        input_schema: The JSON Schema of the arguments, always an object's; as compact JSON text in `input_schema_text`.
        output_schema: The JSON Schema of the structured result, or `None`; as text in `output_schema_text`.
        title: For people, or `None`.
        kind: `"function"`, `"freeform"` (text input, see `grammar`) or `"provider"` (see `provider_id`).
        tags: Sorted, without duplicates.
        grammar: Of a freeform tool's input, or `None` for any text.
        provider_id: Of a provider tool, such as `"openai.web_search"`; else `None`.
        provider_arguments: The arguments of a provider tool.
        permission_arguments: The arguments that rules match, with their kinds.
        original_name: The foreign name that `name` was mapped from, or `None`.
        provider_options: Options that exporters pass through, by provider.
        meta: Other data, passed through (`_meta` in MCP).
        digest: `"sha256:..."` over all attributes, cached.

    Raises:
        InvalidNameError: The name isn't valid.
        ValueError: A provider tool without `provider_id`, or a text that UTF-8 can't encode, with its path.
        TypeError: A value without a JSON form.
    """

    name: str = field(validator=lambda _self, _attribute, value: check_name(value))
    description: str = field(default="", converter=lambda text: encodable_text(text, "description"))
    input_schema_text: JsonText = field(
        default=NO_INPUT, alias="input_schema", converter=with_name("input_schema", schema_text)
    )
    output_schema_text: JsonText | None = field(
        default=None, alias="output_schema", converter=optional(with_name("output_schema", schema_text))
    )
    title: str | None = field(default=None, converter=optional(lambda text: encodable_text(text, "title")))
    kind: _Kind = field(default="function", validator=one_of(*KINDS))
    annotations: ToolAnnotations = NO_HINTS
    tags: tuple[str, ...] = field(default=(), converter=lambda tags: tuple(sorted(_unique_strings("tags", tags or ()))))
    _examples: JsonText | None = field(default=None, alias="examples", converter=with_name("examples", _examples_text))
    grammar: Grammar | None = None
    provider_id: str | None = None
    _provider_arguments: JsonText = field(
        default=EMPTY_OBJECT, alias="provider_arguments", converter=with_name("provider_arguments", json_text)
    )
    strict: bool | None = None
    long_running: bool = False
    deferred: bool = False
    concurrency: Concurrency = SHARED
    permission: str | None = None
    _permission_arguments: JsonText = field(default=EMPTY_OBJECT, alias="permission_arguments", converter=_kinds_text)
    requires_confirmation: bool = False
    version: str | None = None
    original_name: str | None = None
    _provider_options: JsonText = field(
        default=EMPTY_OBJECT, alias="provider_options", converter=with_name("provider_options", json_text)
    )
    _meta: JsonText = field(default=EMPTY_OBJECT, alias="meta", converter=with_name("meta", json_text))

    input_schema: ClassVar[JsonSchema] = _json_property("input_schema_text")
    output_schema: ClassVar[JsonSchema | None] = _json_property("output_schema_text")
    permission_arguments: ClassVar[dict[str, ArgumentKind]] = _json_property("_permission_arguments")
    provider_arguments: ClassVar[JsonObject] = _json_property("_provider_arguments")
    provider_options: ClassVar[JsonObject] = _json_property("_provider_options")
    meta: ClassVar[JsonObject] = _json_property("_meta")

    def __attrs_post_init__(self) -> None:
        if self.kind == "freeform" and self.input_schema_text is NO_INPUT:
            object.__setattr__(self, "input_schema_text", freeform_schema())
        if not self.provider_id and (self.kind == "provider" or self.provider_id is not None):  # it is missing, or ""
            raise ValueError("provider_id: a provider tool needs the provider's own name, such as 'openai.web_search'")
        for what in ("provider_id", "permission", "version", "original_name"):
            _check_unicode(what, getattr(self, what))
        for name, what in _JSON_TEXTS.items():
            text: JsonText | None = getattr(self, name)
            if text is not None and (fault := surrogate_fault(text)) is not None:
                raise ValueError(f"{what}: {fault}")

    def is_encoded(self, argument: str) -> bool:
        """Whether an argument, or a part of it, is encoded, as by base64, so that rules can't match it."""
        if _ENCODED not in self.input_schema_text:
            return False
        schema = self.input_schema
        own = schema.get("properties", {}).get(argument)
        unused = () if '"$ref"' in json_text([own]) else ("$defs", "definitions")
        rest = {name: each for name, each in schema.items() if name not in unused}  # `allOf` and others may apply to it
        return _ENCODED in json_text({**rest, "properties": [own]})

    @property
    def examples(self) -> tuple[JsonObject, ...]:
        """Example arguments, each valid by the input schema."""
        return () if self._examples is None else tuple(json.loads(self._examples))

    @cached_property
    def digest(self) -> str:
        """The digest of its JSON."""
        return digest_of(self.to_json())

    def evolve(self, **changes: Any) -> ToolSpec:
        """A copy with some attributes changed; names as in the constructor."""
        return attrs.evolve(self, **changes)

    def to_json(self) -> JsonObject:
        """The attributes by camelCase name, without defaults; name, description, kind and inputSchema always."""
        data: JsonObject = {}
        for wire, (name, _) in _FACTS.items():
            value = getattr(self, name)
            if name not in _DEFAULTS or value != _DEFAULTS[name]:
                if isinstance(value, ToolAnnotations | Grammar | Concurrency):
                    value = value.to_json()
                data[wire] = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
        return data

    @classmethod
    def from_json(cls, data: JsonMapping) -> ToolSpec:
        """Reads what `to_json` writes, from an untrusted source.

        Raises:
            ValueError: A key is missing, unknown or of the wrong type; the message names it.
            InvalidNameError: The name isn't valid.
        """
        facts: dict[str, Any] = {}
        try:
            for wire, value in data.items():
                if wire not in _FACTS:
                    raise ValueError(f"{wire}: unknown key")
                name, (kind, read) = _FACTS[wire]
                if type(value) is not kind:
                    raise ValueError(f"{wire}: expected {kind.__name__}, found {type(value).__name__}")
                facts[name] = read(value)
            if "name" not in facts:
                raise ValueError("name: missing")
            return cls(**facts)
        except TypeError as error:
            raise ValueError(f"{error}") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolSpec):
            return NotImplemented
        return self is other or (self.name == other.name and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.name)


_JSON_TEXTS: Final = {each.name: each.alias or "" for each in attrs.fields(ToolSpec) if "JsonText" in f"{each.type}"}


_Form: TypeAlias = tuple[type[Any], Callable[[Any], Any]]  # the JSON type of an attribute, and what reads it
_FORMS: Final[Mapping[str, _Form]] = {  # all others are texts
    "JsonText": (dict, dict),
    "bool": (bool, bool),
    "tuple[str, ...]": (list, tuple),
    "ToolAnnotations": (dict, with_name("annotations", ToolAnnotations.from_json)),
    "Grammar": (dict, with_name("grammar", lambda members: Grammar(**members))),
    "Concurrency": (dict, with_name("concurrency", lambda members: Concurrency(**members))),
}
_FACTS: Final[dict[str, tuple[str, _Form]]] = {  # the attributes by their keys in JSON, each with its form
    json_name(JsonRecord, each.evolve(name=each.alias)): (
        each.alias or "",
        _FORMS.get(f"{each.type}".removesuffix(" | None"), (str, str)),
    )
    for each in attrs.fields(ToolSpec)
}
_FACTS["examples"] = ("examples", (list, tuple_of("examples", dict)))

_ALWAYS: Final = ("name", "description", "kind", "input_schema")
_DEFAULTS: Final = {name: getattr(ToolSpec("_"), name) for name, _ in _FACTS.values() if name not in _ALWAYS}
