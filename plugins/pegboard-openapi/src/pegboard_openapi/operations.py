"""The operations of an OpenAPI document: their names, arguments and bodies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import urljoin

from attrs import define, field, frozen

from pegboard import Problem
from pegboard.json import digest_of, is_array, is_object
from pegboard.tools import encodable_text, is_text_type, is_valid_name, plain_type
from pegboard.typing import JsonObject, JsonSchema
from pegboard_openapi.document import Document, DocumentError, Source, is_url, origin_of
from pegboard_openapi.schemas import Definitions

Place: TypeAlias = Literal["path", "query", "header", "cookie", "querystring"]
BodyKind: TypeAlias = Literal["json", "form", "multipart", "text", "file"]

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "QUERY", "TRACE"})
"""Methods that change nothing, by RFC 9110 and OpenAPI 3.2."""

IDEMPOTENT: Final = SAFE | {"DELETE", "PUT"}
"""Methods of which the same request twice has the effect of one, by RFC 9110."""

_STYLES: Final = {  # of which the first is the default
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form", "cookie"),
    "querystring": ("",),
}
_OWN_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "cookie", "expect"}
    | {"host", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that no argument sets: OpenAPI ignores some, and others belong to the connection."""

HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The names of headers and cookies, by RFC 9110, 5.6.2."""

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_MOST_ARGUMENT: Final = 64
_MOST_NAME: Final = 64
_DIGEST_LENGTH: Final = 8
_MOST_DESCRIPTION: Final = 8_000
_MOST_COMPOSED: Final = 200  # schemas in allOf and the like that are searched for files
_BODY_KINDS: Final = ("json", "form", "multipart", "text", "file")  # the earlier, the better for a model


@frozen(eq=False, kw_only=True)
class Parameter:
    """A parameter of an operation.

    Attributes:
        name: Its name in the request.
        argument: The tool's argument.
        place: Where it is in the request.
        style: How a list or an object is written there.
        explode: Whether each item is written by itself.
        reserved: Whether reserved characters aren't encoded.
        media: The media type that its value is written in, in place of a style.
    """

    name: str
    argument: str
    place: Place
    style: str
    explode: bool
    reserved: bool = False
    media: str | None = None


@frozen(eq=False, kw_only=True)
class Body:
    """The body of an operation's request.

    Attributes:
        argument: The tool's argument.
        media: Its media type.
        kind: How it is written.
        files: The properties of a multipart body that are paths of files.
        encoding: How single properties of a form are written, as in the document.
    """

    argument: str
    media: str
    kind: BodyKind
    files: frozenset[str] = frozenset()
    encoding: Mapping[str, JsonObject] = field(factory=dict[str, JsonObject])


@frozen(eq=False, kw_only=True)
class Operation:
    """An operation: what its request needs.

    Attributes:
        name: The tool's name.
        method: In upper case.
        path: The path template.
        server: The address that the path is appended to; `""` if the document has none.
        parameters: Its parameters.
        body: Its body, or `None`.
        security: What it needs: one of several groups of schemes, each with its scopes.
        media: The media types of its answers.
    """

    name: str
    method: str
    path: str
    server: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    security: tuple[Mapping[str, tuple[str, ...]], ...]
    media: tuple[str, ...]

    @property
    def takes_files(self) -> bool:
        """Whether arguments of it are paths of local files."""
        return self.body is not None and (self.body.kind == "file" or bool(self.body.files))


@frozen(eq=False)
class Listing:
    """What a model and people read about an operation.

    Attributes:
        own_name: The document's name for it, or its method and path.
        schema: The schema of the tool's arguments.
        title: A short text for people, or `None`.
        description: For the model.
        tags: The document's.
    """

    own_name: str
    schema: JsonSchema
    title: str | None
    description: str
    tags: tuple[str, ...]


@frozen(eq=False)
class _Candidate:
    """An operation as the document has it, with its path item, and the file that these are in."""

    method: str
    path: str
    operation: JsonObject
    item: JsonObject
    source: Source

    @property
    def route(self) -> str:
        return f"{self.method} {self.path}"


@define(eq=False)
class Reader:
    """Reader of a document's operations.

    Attributes:
        document: The document.
        base_url: Replaces all of the document's servers, if given.
        prefix: The prefix of all tools' names.
        hidden: Parameters that credentials set, as (place, name), which models don't see.
        problems: What is wrong with operations that are left out.
        notes: What the operator should know.
    """

    document: Document
    base_url: str | None = None
    prefix: str = ""
    hidden: frozenset[tuple[str, str]] = frozenset()
    problems: list[Problem] = field(factory=list[Problem], init=False)
    notes: list[str] = field(factory=list[str], init=False)
    definitions: Definitions = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.definitions = Definitions(self.document)

    def operations(self) -> Iterator[tuple[Operation, Listing]]:
        """The operations that can be used; problems of others are collected.

        Raises:
            DocumentError: `paths` isn't an object.
        """
        candidates = list(self._candidates())
        for candidate, (name, own_name) in zip(candidates, self._names(candidates), strict=True):
            try:
                read = self._operation(name, own_name, candidate)
            except (DocumentError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
                self.problems.append(Problem(f"{candidate.route} is left out: {error}", name))
            else:
                yield read

    def _candidates(self) -> Iterator[_Candidate]:
        main = self.document.main
        paths: Any = main.root.get("paths") or {}
        if not is_object(paths):
            raise DocumentError(f"{main.location or 'the document'}: 'paths' isn't an object")
        for path, value in paths.items():
            if path.startswith("x-"):
                continue
            try:
                item, source = self.document.follow(value, main, f"the path {path!r:.100}")
                methods = {key.upper(): item[key] for key in METHODS if key in item}
                if self.document.minor >= 2:
                    methods |= {"QUERY": item["query"]} if "query" in item else {}
                    more: Any = item.get("additionalOperations") or {}
                    if not is_object(more):
                        raise DocumentError("its additionalOperations aren't an object")  # noqa: TRY301
                    methods |= more
            except DocumentError as error:
                self.problems.append(Problem(f"{path:.200} is left out: {error}"))
                continue
            for method, operation in methods.items():
                if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,30}", method) or not is_object(operation):
                    self.problems.append(Problem(f"{method!s:.40} {path:.200} is left out: it isn't an operation"))
                else:
                    yield _Candidate(method, path, operation, item, source)

    # Names ------------------------------------------------------------------------------------------------------

    def _names(self, operations: Sequence[_Candidate]) -> list[tuple[str, str]]:
        """A name for each operation, and the document's own.

        A name depends on the operation alone, unless two would have the same: then all of these but one that needed no
        change end with a digest.
        """
        own: list[tuple[str, str]] = []  # the document's name, and one that no other operation has
        seen: dict[str, str] = {}
        for candidate in operations:
            operation_id: Any = candidate.operation.get("operationId")
            name = encodable_text(operation_id) if isinstance(operation_id, str) else ""
            route = encodable_text(candidate.route)
            if not name.strip():
                own.append((route, route))
            elif name in seen:
                self.notes.append(f"{route} and {seen[name]} have the same operationId, {name!r:.100}")
                own.append((name, f"{name} {route}"))
            else:
                seen[name] = route
                own.append((name, name))
        fitted = [self._fit(name) for name, _ in own]
        users = Counter(name.lower() for name in fitted)
        names: list[tuple[str, str]] = []
        for (name, unique), fit in zip(own, fitted, strict=True):
            is_free = users[fit.lower()] == 1 or fit == self.prefix + unique
            names.append((fit if is_free else self._digest_name(fit, unique), name))
        return names

    def _fit(self, name: str) -> str:
        """A name with the prefix, in the characters and the length that providers accept."""
        words = name
        if re.match(r"[A-Z]+ /", name):  # a method and a path
            words = name.lower().replace("{", "").replace("}", "")
        fit = self.prefix + re.sub(r"[^A-Za-z0-9_-]+", "_", words).strip("_")
        if not re.match("[A-Za-z_]", fit):
            fit = f"_{fit}"
        return fit if is_valid_name(fit) else self._digest_name(fit, name)

    @staticmethod
    def _digest_name(name: str, unique: str) -> str:
        digest = digest_of(unique).rpartition(":")[2][:_DIGEST_LENGTH]
        stem = f"_{name}" if name.lower().startswith("pegboard_") else name
        return f"{stem[: _MOST_NAME - _DIGEST_LENGTH - 1]}_{digest}"

    # Parts ------------------------------------------------------------------------------------------------------

    def _operation(self, name: str, own_name: str, candidate: _Candidate) -> tuple[Operation, Listing]:
        operation, item, source = candidate.operation, candidate.item, candidate.source
        arguments = _Arguments(self.definitions, candidate.route)
        parameters = [
            parameter
            for each, where in self._parameters(operation, item, source)
            if (parameter := self._parameter(each, where, arguments)) is not None
        ]
        described = {parameter.name for parameter in parameters if parameter.place == "path"}
        if missing := sorted({*re.findall(r"\{([^{}]*)\}", candidate.path)} - described):
            raise DocumentError(f"its path has {', '.join(missing)}, which no parameter describes")
        body = self._body(operation, source, arguments)
        summary, description = (_text(operation.get(key)) for key in ("summary", "description"))
        texts = dict.fromkeys(filter(None, (summary, description)))
        text = "\n\n".join(texts) or candidate.route
        deprecated = "Deprecated. " if operation.get("deprecated") is True else ""
        tags = tuple(each for each in operation.get("tags") or () if isinstance(each, str))
        listing = Listing(own_name, arguments.schema(), summary or None, deprecated + text[:_MOST_DESCRIPTION], tags)
        read = Operation(
            name=name,
            method=candidate.method,
            path=candidate.path,
            server=self.base_url or self._server(operation, item),
            parameters=tuple(parameters),
            body=body,
            security=self._security(operation),
            media=self._media(operation, source),
        )
        return read, listing

    def _parameters(
        self, operation: JsonObject, item: JsonObject, source: Source
    ) -> Iterator[tuple[JsonObject, Source]]:
        """The path's parameters and the operation's, of which the latter replace the former of the same name."""
        found: dict[tuple[Any, Any], tuple[JsonObject, Source]] = {}
        for owner in (item, operation):
            for each in owner.get("parameters") or ():
                parameter, where = self.document.follow(each, source, "a parameter")
                found[parameter.get("in"), parameter.get("name")] = parameter, where
        return iter(found.values())

    def _parameter(self, parameter: JsonObject, source: Source, arguments: _Arguments) -> Parameter | None:
        name, place = parameter.get("name"), parameter.get("in")
        if not isinstance(name, str) or place not in _STYLES:
            raise DocumentError(f"a parameter has no name or no known place: {name!r:.80} in {place!r:.40}")
        if place == "header" and not HEADER_NAME.fullmatch(name):
            raise DocumentError(f"no header can have the name {name!r:.80}")
        if place == "header" and name.lower() in _OWN_HEADERS:
            return None
        if (place, name.lower() if place == "header" else name) in self.hidden:
            return None
        media, schema = None, parameter.get("schema", {})
        if is_object(content := parameter.get("content")) and content:
            media, first = next(iter(content.items()))
            entry, source = self.document.follow(first, source, f"the content of {name!r}")
            schema = entry.get("schema", {})
        styles = _STYLES[place]
        style = styles[0] if place == "querystring" else parameter.get("style", styles[0])
        if style not in styles:
            raise DocumentError(f"the parameter {name!r:.80} has the unknown style {style!r:.40} in a {place}")
        explode: Any = parameter.get("explode", style in ("form", "cookie", "deepObject"))
        description = _text(parameter.get("description"))
        required = parameter.get("required") is True or place == "path"
        argument = arguments.add(name, place, schema, source, description, required=required)
        reserved = parameter.get("allowReserved") is True
        return Parameter(
            name=name, argument=argument, place=place, style=style, explode=explode, reserved=reserved, media=media
        )

    def _body(self, operation: JsonObject, source: Source, arguments: _Arguments) -> Body | None:
        if operation.get("requestBody") is None:
            return None
        written, source = self.document.follow(operation["requestBody"], source, "its body")
        content: JsonObject = written.get("content") or {}
        if not content:
            return None
        kinds = {media: _body_kind(media, each) for media, each in content.items()}
        known = [media for media in content if kinds[media] is not None]
        if not known:
            raise DocumentError(f"its body has the media type {next(iter(content))!r:.80}, which isn't supported")
        media = min(known, key=lambda each: _BODY_KINDS.index(cast("str", kinds[each])))
        entry, source = self.document.follow(content[media], source, f"its body, as {media}")
        kind, schema = cast("BodyKind", kinds[media]), entry.get("schema", {})
        if kind == "json" and "*" in media:
            media = "application/json"
        rules: Any = entry.get("encoding") or {}
        encoding: JsonObject = {name: rule for name, rule in rules.items() if is_object(rule)}
        files = _FileSearch(encoding)
        if kind == "multipart":
            schema, source = self._replace_files(schema, source, files)
        elif kind == "file":
            schema = {"type": "string", "description": f"Path of a local file, which is sent as {media}."}
        elif kind == "text":
            schema = {"type": "string", "description": f"Text, which is sent as {media}."}
        description = _text(written.get("description"))
        required = written.get("required") is True
        argument = arguments.add("body", "request", schema, source, description, required=required)
        return Body(argument=argument, media=media, kind=kind, files=frozenset(files.names), encoding=encoding)

    def _replace_files(self, schema: Any, source: Source, files: _FileSearch) -> tuple[Any, Source]:
        """The schema of a multipart body, with files replaced by their paths; `files` collects their names."""
        files.count()
        schema, source = self.document.follow(schema, source, "the schema of its body")
        new = dict(schema)
        for word in ("allOf", "anyOf", "oneOf"):
            if is_array(new.get(word)):
                # Parts that are in another file would need it as their base; such bodies are rare.
                parts = [self._replace_files(part, source, files) for part in new[word]]
                if any(where is not source for _, where in parts):
                    raise DocumentError(f"the schema of its body has parts in another file ({word})")
                new[word] = [part for part, _ in parts]
        if is_object(members := new.get("properties")):
            new["properties"] = {name: self._replace_file(part, name, source, files) for name, part in members.items()}
        return new, source

    def _replace_file(self, part: Any, name: str, source: Source, files: _FileSearch) -> Any:
        """The schema of a property; that of a path, or of a list of paths, if it is a file or a list of files."""
        if not is_object(part):
            return part
        target, where = self.document.follow(part, source, f"the property {name!r}")
        media = files.encoding.get(name, {}).get("contentType", "")
        is_list = target.get("type") == "array" and is_object(target.get("items"))
        item = self.document.follow(target["items"], where, f"the items of {name!r}")[0] if is_list else target
        if not _is_file(item, media):
            if not is_list and is_array(options := item.get("oneOf", item.get("anyOf"))):
                files.count(len(options))
                new = [self._replace_file(each, name, where, files) for each in options]  # several may be texts now
                return {"anyOf": new, **({"description": item["description"]} if "description" in item else {})}
            return part
        files.names.add(name)
        text = _text(target.get("description", item.get("description")))
        schema: JsonObject = {"type": "string", "description": "Path of a local file."}
        if is_list:
            schema = {"type": "array", "items": schema}
        return {**schema, "description": f"{text}\nPath of a local file.".strip()}

    def _server(self, operation: JsonObject, item: JsonObject) -> str:
        """The address of its first server; `""` if that is relative, and the document isn't from a URL."""
        main = self.document.main
        owners = (operation, item, main.root)
        servers: Any = next((owner["servers"] for owner in owners if owner.get("servers")), [{"url": "/"}])
        if not is_array(servers) or not is_object(servers[0]) or not isinstance(servers[0].get("url"), str):
            raise DocumentError("its server has no URL")
        url: str = servers[0]["url"]
        variables: JsonObject = servers[0].get("variables") or {}
        for name, variable in variables.items():
            url = url.replace("{" + name + "}", str(variable.get("default", "")))
        if is_url(main.location):
            url = urljoin(main.location, url)
        if not is_url(url):
            return ""
        origin_of(url)  # refuses what is no address
        return url

    def _security(self, operation: JsonObject) -> tuple[Mapping[str, tuple[str, ...]], ...]:
        written: Any = operation.get("security", self.document.main.root.get("security"))
        if not is_array(written):
            return ()
        return tuple(
            {str(name): tuple(map(str, scopes or ())) for name, scopes in group.items()}
            for group in written
            if is_object(group)
        )

    def _media(self, operation: JsonObject, source: Source) -> tuple[str, ...]:
        """The media types of its answers."""
        found: dict[str, None] = {}
        responses = operation.get("responses")
        for status, response in (responses if is_object(responses) else {}).items():
            if str(status)[:1] in "2d" and is_object(response):  # 2xx, and default
                try:
                    entry, _ = self.document.follow(response, source, "an answer")
                    found |= dict.fromkeys(entry.get("content") or ())
                except DocumentError:  # the request doesn't need it
                    continue
        return tuple(found)


@define(eq=False)
class _FileSearch:
    """Search for the files in a multipart body."""

    encoding: JsonObject  # the body's
    names: set[str] = field(factory=set[str])  # of the properties that are files
    left: int = _MOST_COMPOSED  # how many schemas may follow

    def count(self, number: int = 1) -> None:
        """Counts schemas that the body is composed of.

        Raises:
            DocumentError: They are too many.
        """
        self.left -= number
        if self.left < 0:
            raise DocumentError(f"the schema of its body is composed of more than {_MOST_COMPOSED} schemas")


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _body_kind(media: str, entry: Any) -> BodyKind | None:
    kind = plain_type(media)
    if kind.endswith(("/json", "+json")):
        return "json"
    if kind == "application/x-www-form-urlencoded":
        return "form"
    if kind.startswith("multipart/"):
        return "multipart" if kind in ("multipart/form-data", "multipart/*") else None
    if "*" in kind:
        schema = entry.get("schema") if is_object(entry) else None
        return "file" if not is_object(schema) or _is_file(schema, "") else "json"
    return "text" if is_text_type(kind) else "file"


def _is_file(schema: JsonObject, media: str) -> bool:
    """Whether a property of a form is a file, by 3.0 (`format: binary`) or later (`contentMediaType`, or no type)."""
    kind = schema.get("type")
    if "string" not in (kind if is_array(kind) else (kind or "string",)) or "contentEncoding" in schema:
        return False
    declared = plain_type(str(schema.get("contentMediaType") or media).partition(",")[0])
    is_binary = bool(declared) and not is_text_type(declared)
    return schema.get("format") == "binary" or (is_binary and "enum" not in schema)


@define(eq=False)
class _Arguments:
    """The arguments of one tool: their schema, and distinct names."""

    definitions: Definitions
    owner: str
    _properties: JsonObject = field(factory=dict[str, Any], init=False)
    _required: list[str] = field(factory=list[str], init=False)
    _names: set[str] = field(factory=set[str], init=False)

    def add(  # noqa: PLR0913  the facts of one argument
        self, name: str, place: str, schema: Any, source: Source, description: str, *, required: bool
    ) -> str:
        """Adds an argument; returns its name, which providers accept."""
        plain = _NOT_IN_NAMES.sub("_", name).strip("_")[:_MOST_ARGUMENT] or "argument"
        argument = plain if plain not in self._properties else f"{plain}_{place}"[:_MOST_ARGUMENT]
        number = 2
        while argument in self._properties:
            ending = f"_{number}"
            argument, number = f"{plain[: _MOST_ARGUMENT - len(ending)]}{ending}", number + 1
        converted = self.definitions.convert(schema, source, self.owner)
        self._names |= converted.names
        rule: Any = converted.schema
        if is_object(rule) and description and "description" not in rule:
            rule = {**rule, "description": description[:_MOST_DESCRIPTION]}
        self._properties[argument] = rule
        if required:
            self._required.append(argument)
        return argument

    def schema(self) -> JsonSchema:
        """The schema of all arguments."""
        schema: JsonSchema = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = self._required
        schema["additionalProperties"] = False
        if definitions := self.definitions.collect(self._names):
            schema["$defs"] = definitions
        return schema
