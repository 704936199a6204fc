"""`PluginManifest`: what a plugin brings, as data: its tools' specs, and the names of everything else.

A plugin's package contains it as `pegboard-manifest.json` (a plugin that is one module has it next to it, as
`MODULE.pegboard-manifest.json`), so that its tools are listed before any of its code is imported. One file serves all
plugins of a distribution in that package:

    {"format": 1, "distribution": "pegboard-files", "version": "0.1.0",
     "plugins": {"files": {"tools": [...], "hooks": [...], ...}}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any, Final, TypeAlias

from attrs import asdict, evolve, field

from pegboard.callbacks import accept_keywords
from pegboard.catalogue import EXTRAS, PublishedTools
from pegboard.config import normalised
from pegboard.errors import ManifestError, PegboardError
from pegboard.files import os_error_text, read_bounded, write_atomic
from pegboard.json import MAX_VALUES, is_object, plain_copy, strict_json
from pegboard.plugins.discovery import FoundPlugin
from pegboard.schema.converter import Allowed, read_by, read_record, read_table
from pegboard.tools.handler import LazyHandler
from pegboard.tools.spec import Origin, Policy, ToolSpec
from pegboard.tools.tool import Tool
from pegboard.toolsets.toolset import call_foreign
from pegboard.typing import JsonObject, frozen

FILE_NAME: Final = "pegboard-manifest.json"
_FORMAT: Final = 1
_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_TOOLS: Final = 100_000
_MOST_NAMES: Final = 1_000
_MOST_CHARACTERS: Final = 1_000
_MOST_INSTRUCTIONS: Final = 100_001  # one more than a request allows, which then refuses them by the tool's name
_MOST_LEVELS: Final = 100
_OF_TOOLS: Final = frozenset(("pegboard_register_tools", "pegboard_register_toolsets"))
OFFERED: Final = ("exporters", "executors", "models", "services")  # found by name, which loads the plugin
_KINDS: Final = ("toolsets", *EXTRAS)  # what a plugin brings by name, besides tools and commands
_NAMED: Final = ("hooks", *_KINDS, "commands", "faults")


def _limit(most: int, what: str) -> Allowed:
    return Allowed(f"at most {most:,} {what}", lambda value: len(value) <= most)


_Text: TypeAlias = Annotated[
    str, Allowed(f"of 1 to {_MOST_CHARACTERS:,} characters", lambda text: 0 < len(text) <= _MOST_CHARACTERS)
]
_Texts: TypeAlias = Annotated[tuple[_Text, ...], _limit(_MOST_NAMES, "texts")]
_Objects: TypeAlias = Annotated[tuple[JsonObject, ...], _limit(_MOST_TOOLS, "tools")]
_Instructions: TypeAlias = Annotated[str, _limit(_MOST_INSTRUCTIONS, "characters")]
read_by(Policy, Policy.of_runs)


def _read(kind: Any, value: Any, place: str) -> Any:
    """A value of one of these types; a `ManifestError` has its place."""
    try:
        return read_record(kind, value, "")
    except ValueError as error:
        raise ManifestError(f"{place}{error}") from None


@frozen
class RequestFacts:
    """Facts of a tool that concern requests and calls, known before its plugin's code is imported."""

    offered: bool = True  # whether models may be offered it
    processes: bool = False  # whether it processes requests
    instructions: _Instructions | None = None  # for the model
    may_read_only: bool = False  # whether some calls of it are read-only, by their arguments
    prepares: bool = False  # whether it prepares the arguments of its calls
    policy: Policy = Policy()  # where its calls run, and within which limits

    @classmethod
    def of(cls, tool: Tool) -> RequestFacts:
        """The facts of a live tool."""
        instructions: object = tool.instructions
        text = instructions[:_MOST_INSTRUCTIONS] if isinstance(instructions, str) and instructions else None
        processes, may_read_only = tool.process_request is not None, "read_only" in tool.by_arguments
        prepares = tool.prepare_arguments is not None
        return cls(bool(tool.offered), processes, text, may_read_only, prepares, Policy.of_runs(tool.policy.runs))

    def on(self, tool: Tool, lazy: LazyHandler) -> Tool:
        """A listed tool with these facts; if it processes requests, the first request imports its plugin."""
        process = partial(_process, lazy) if self.processes else None
        reads = {"read_only": _unknown} if self.may_read_only else {}
        prepare = _leave_unprepared if self.prepares else None
        facts = {"offered": self.offered, "instructions": self.instructions, "policy": self.policy}
        return tool.evolve(process_request=process, by_arguments=reads, prepare_arguments=prepare, **facts)

    def to_json(self) -> JsonObject:
        """`{"offered": false, "processes": true, "policy": {"timeout": 5.0}, ...}`, without defaults."""
        facts = asdict(self, recurse=False, filter=lambda field, value: value != field.default)
        return {**facts, "policy": self.policy.runs} if "policy" in facts else facts


def _unknown(_arguments: Any) -> None:
    """Whether a call is read-only, which only the tool's code can tell."""


def _leave_unprepared(arguments: JsonObject) -> JsonObject:
    """The arguments of a call, which only the tool's code prepares: each call imports it."""
    return arguments


async def _process(lazy: LazyHandler, request: Any, context: Any, services: Any) -> Any:
    """The request as the live tool processes it; a plain function runs off the loop, as the import does."""
    tool = await call_foreign(lazy.load)
    if tool.process_request is None:
        return None  # its code differs from its manifest, which is reported as a problem
    function = accept_keywords(tool.process_request, ("request", "context", "services"))
    return await call_foreign(function, request, context, services)


@frozen
class PluginManifest:
    """Manifest of a plugin: everything that it brings."""

    plugin: str
    distribution: str | None = None
    version: str | None = None  # the distribution's
    tools: tuple[ToolSpec, ...] = ()  # the specs of its static tools
    hooks: tuple[str, ...] = ()  # the names of those that it implements
    names: Mapping[str, Sequence[str]] = field(factory=dict[str, Sequence[str]])  # of what else it brings, by kind
    commands: Mapping[str, str] = field(factory=dict[str, str])  # name -> a line of help; `""` where it isn't known
    requests: Mapping[str, RequestFacts] = field(factory=dict[str, RequestFacts])  # of tools without the defaults
    # What loading it shows; a manifest in a package has none of it.
    faults: tuple[str, ...] = ()  # what was refused, a sentence each
    notes: tuple[str, ...] = field(default=(), eq=False)  # what it changed in the process, a few words each
    published: PublishedTools | None = field(default=None, eq=False)  # what its toolsets have published
    failure: str | None = None  # why it failed, in one line; of what it brings, only hooks are known then

    @property
    def of_toolsets(self) -> PublishedTools | None:
        """What its toolsets have published; nothing where it brings none, and `None` where it isn't known."""
        return self.published or (None if self.names.get("toolsets") else PublishedTools())

    @property
    def brings_only_tools(self) -> bool:
        """Whether it only offers tools, and doesn't guard, limit or record anything."""
        has_others = not _OF_TOOLS.issuperset(self.hooks) or any(facts.processes for facts in self.requests.values())
        return self.failure is None and not has_others

    @property
    def brings_nothing(self) -> bool:
        """Whether it has only register hooks, none of toolsets (often those of settings), and registered nothing."""
        brings = any((self.tools, self.commands, "pegboard_register_toolsets" in self.hooks, *self.names.values()))
        return not brings and all(hook.startswith("pegboard_register_") for hook in self.hooks)

    @property
    def offers(self) -> frozenset[tuple[str, str]]:
        """The exporters, models, executors and services that are found by name, as (kind, name)."""
        return frozenset((kind, name) for kind in OFFERED for name in self.names.get(kind, ()))

    def differences(self, earlier: PluginManifest) -> list[str]:
        """The differences from an earlier one, a few words each; the order of tools and names doesn't count."""
        tools = ({spec.name: spec for spec in each.tools} for each in (self, earlier))
        now, then = self.to_json(), earlier.to_json()
        kinds = [kind for kind in _NAMED if sorted(now.get(kind, ())) != sorted(then.get(kind, ()))]
        kinds += ["tools' requests"] if self.requests != earlier.requests else []
        return [*compare_tools(*tools).values(), *(f"its {kind} differ" for kind in kinds)]

    def to_json(self) -> JsonObject:
        """What it brings, without plugin and distribution: `{"tools": [...], "hooks": [...], ...}`."""
        data: JsonObject = {
            "tools": [spec.to_json() for spec in self.tools],
            "hooks": [*self.hooks],
            **{kind: [*self.names.get(kind, ())] for kind in _KINDS},
            "commands": {name: text[:_MOST_CHARACTERS] for name, text in self.commands.items()},
            "faults": _cut_texts(self.faults),
            "notes": _cut_texts(self.notes),
            "requests": {name: facts.to_json() for name, facts in sorted(self.requests.items())},
            "published": None if self.published is None else _publication_json(self.published),
            "failure": self.failure and self.failure[:_MOST_CHARACTERS],
        }
        return {key: value for key, value in data.items() if value or key == "tools"}

    @classmethod
    def from_json(cls, data: Any, found: FoundPlugin, place: str = "the manifest") -> PluginManifest:
        """Reads what `to_json` writes of a plugin, from an untrusted source; a `ManifestError` names what is wrong."""
        own: dict[str, Any] = {"names": {}}
        for key, value in _read(dict, data, place).items():
            where = f"{place}: {key}"
            if key in _KINDS:
                own["names"][key] = _read(_Texts, value, where)
            elif key == "published":
                own[key] = _read_publication(value, found.origin, where)
            elif key in _READERS:
                own[key] = _READERS[key](value, where)
            else:
                raise ManifestError(f"{place}: {key!r} is unknown")
        return cls(found.name, found.distribution, found.version, **own)


def _cut_texts(texts: Iterable[str]) -> list[str]:
    """A plugin's texts: as many and as long as can be read back."""
    return [text[:_MOST_CHARACTERS] or "?" for text in islice(texts, _MOST_NAMES)]


def compare_tools(now: Mapping[str, ToolSpec], then: Mapping[str, ToolSpec]) -> dict[str, str]:
    """The names of the tools that are gone, new or changed, sorted, each with a description of the change."""
    return {
        name: f"tool {name!r} {'is gone' if name not in now else 'is new' if name not in then else 'has changed'}"
        for name in sorted({*now, *then})
        if now.get(name) != then.get(name)
    }


def _publication_json(published: PublishedTools) -> JsonObject:
    tools: list[JsonObject] = []
    for tool in published.tools:
        facts = {name: getattr(tool.origin, name) for name in ("toolset", "trusted", "source")}
        tools.append({**facts, "spec": tool.spec.to_json(), "policy": tool.policy.runs})
    files, identities = dict(published.files), dict(published.identities)
    return {"tools": tools, "files": files, "failed": published.failed, "identities": identities}


def _read_publication(data: Any, owner: Origin, place: str) -> PublishedTools:
    """What the cache has of published tools."""
    tools: list[Tool] = []
    members = _read(dict, data, place)
    for item in _read(_Objects, members.get("tools"), place):
        spec, toolset = _read_spec(item.get("spec"), place), _read(_Text, item.get("toolset"), place)
        try:
            policy = Policy.of_runs(_read(dict, item.get("policy", {}), place))
            origin = evolve(owner, toolset=toolset, trusted=item.get("trusted") is True, source=item.get("source"))
        except (TypeError, ValueError) as error:
            raise ManifestError(f"{place}: {error}") from None
        tools.append(Tool(spec, origin=origin, policy=policy))
    files, identities = (_read(dict, members.get(key, {}), place) for key in ("files", "identities"))
    stamps = {name: _read(_Text, stamp, place) for name, stamp in files.items()}
    return PublishedTools(tuple(tools), stamps, members.get("failed") is True, identities)


def _read_requests(value: Any, place: str) -> dict[str, RequestFacts]:
    named = _read(dict, value, place)
    try:
        return {name: read_table(RequestFacts, facts, f"{place}.{name:.80}") for name, facts in named.items()}
    except ValueError as error:
        raise ManifestError(f"{error!s:.{_MOST_CHARACTERS}}") from None


def _read_commands(value: Any, place: str) -> dict[str, str]:
    """Commands' help by their names; manifests of 0.1 have names alone."""
    if isinstance(value, list):
        return dict.fromkeys(_read(_Texts, value, place), "")
    named = _read(dict, value, place)
    helps = {name: text if text == "" else _read(_Text, text, f"{place}.{name:.80}") for name, text in named.items()}
    return {_read(_Text, name, place): text for name, text in helps.items()}


def _read_specs(value: Any, place: str) -> tuple[ToolSpec, ...]:
    specs: dict[str, ToolSpec] = {}
    for index, item in enumerate(_read(_Objects, value, place)):
        spec = _read_spec(item, f"{place}[{index}]")
        if specs.setdefault(spec.name, spec) is not spec:
            raise ManifestError(f"{place}[{index}]: tool {spec.name!r} is listed twice")
    return tuple(specs.values())


def _read_spec(item: Any, place: str) -> ToolSpec:
    members = _read(dict, item, place)
    try:
        return ToolSpec.from_json(plain_copy(members, _MOST_LEVELS, [MAX_VALUES]))
    except (ValueError, TypeError, PegboardError) as error:
        raise ManifestError(f"{place}: {error}") from None


_READERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "tools": _read_specs,
    "commands": _read_commands,
    "requests": _read_requests,
    "failure": partial(_read, _Text),
    **dict.fromkeys(("hooks", "faults", "notes"), partial(_read, _Texts)),
}


def manifest_path(found: FoundPlugin) -> Path:
    """The path of a plugin's manifest, existing or not; imports nothing. `ManifestError`: there is no such package."""
    place = found.place()
    if place is None:
        raise ManifestError(f"plugin {found.name!r}: can't find the file of module {found.module!r}")
    return place.with_name(f"{place.stem}.{FILE_NAME}") if place.suffix == ".py" else place / FILE_NAME


def find_manifest(found: FoundPlugin, *, even_stale: bool = False) -> Path | None:
    """The path of a plugin's manifest; `None` where it has none.

    If its distribution has a RECORD, that names it. Otherwise it is next to the sources, and ignored if one of them was
    written after it, unless `even_stale`: an author who edits a tool sees the edit.
    """
    record = found.record()
    if record is not None and found.root is not None:
        return _find_in_record(found, found.root, record)
    try:
        path = manifest_path(found)
        written = path.stat().st_mtime_ns
    except (ManifestError, OSError):
        return None
    if even_stale:
        return path
    sources = found.sources()
    return None if sources is None or any(_is_newer(source, written) for source in sources) else path


def _find_in_record(found: FoundPlugin, root: str, record: bytes) -> Path | None:
    """The first of the possible paths that RECORD (`path,digest,size` a line) has."""
    lines, folders = b"\n" + record, accumulate(found.module.split("."), "{}/{}".format)
    names = (f"{folder}{mark}{FILE_NAME}" for folder in folders for mark in "/.")
    return next((Path(root, name) for name in names if f"\n{name},".encode() in lines), None)


def _is_newer(source: str, written: int) -> bool:
    try:
        facts = Path(source).stat()
    except OSError:  # it was removed
        return False
    return S_ISREG(facts.st_mode) and facts.st_mtime_ns > written


def read_manifest(found: FoundPlugin, *, even_stale: bool = False) -> PluginManifest | None:
    """Reads a plugin's manifest, found as by `find_manifest`; `None` where it has none. Nothing is imported.

    Raises `ManifestError` if it can't be read, is invalid, or was written for another version.
    """
    path = find_manifest(found, even_stale=even_stale)
    if path is None:
        return None
    try:
        return manifest_in(read_manifest_file(path), found)
    except ManifestError as error:
        raise ManifestError(f"{path}: {error}") from None


def stale_manifest(found: FoundPlugin) -> PluginManifest:
    """A plugin's manifest, however old; an empty one where there is none that can be read."""
    with suppress(ManifestError):
        return read_manifest(found, even_stale=True) or PluginManifest(found.name)
    return PluginManifest(found.name)


def read_manifest_file(path: Path) -> JsonObject:
    """The object in a manifest file; a `ManifestError` if it can't be read, is too large, or has an unknown format."""
    try:
        members = _read(dict, strict_json(read_bounded(str(path), _MOST_BYTES)), "the manifest")
    except OSError as error:
        raise ManifestError(f"can't be read: {os_error_text(error)}") from None
    except ValueError as error:
        raise ManifestError(f"isn't JSON: {error}") from None
    if members.get("format") != _FORMAT:
        raise ManifestError(f"format {members.get('format')!r} isn't known here, only {_FORMAT}: update pegboard")
    return members


def manifest_in(members: JsonObject, found: FoundPlugin) -> PluginManifest | None:
    """A plugin's manifest in the object of a file, or `None`; `ManifestError` if invalid or of another version."""
    whose, version = (_read(_Text, members.get(key), key) for key in ("distribution", "version"))
    if (normalised(whose), version) != (normalised(found.distribution), found.version):
        raise ManifestError(
            f"it is void: it was written for {whose} {version}, and {found.distribution} {found.version} is installed; "
            "its author runs 'registry manifest write' before each release"
        )
    plugins = _read(dict, members.get("plugins"), "plugins")
    if found.name not in plugins:
        return None
    place = f"plugins.{found.name}"
    for key in ("notes", "published", "failure"):
        if key in _read(dict, plugins[found.name], place):
            raise ManifestError(f"{place}: {key!r} is found out by loading a plugin, and isn't allowed in a package")
    return PluginManifest.from_json(plugins[found.name], found, place)


def manifest_text(manifests: Sequence[PluginManifest]) -> str:
    """The text of the manifest file of one distribution, without faults; equal manifests give equal bytes."""
    whose = {(manifest.distribution, manifest.version) for manifest in manifests}
    if len(whose) != 1 or None in next(iter(whose)):
        raise ManifestError("a manifest file is of one distribution and version")
    for manifest in manifests:
        if manifest.faults:
            raise ManifestError(f"plugin {manifest.plugin!r} has faults: {'; '.join(manifest.faults)}")
    ((distribution, version),) = whose
    plugins = {manifest.plugin: _sort(manifest) for manifest in sorted(manifests, key=lambda item: item.plugin)}
    data = {"format": _FORMAT, "distribution": distribution, "version": version, "plugins": plugins}
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def _sort(manifest: PluginManifest) -> JsonObject:
    """Tools and names sorted. The keys inside a spec are not: their order reaches the model."""
    contents = evolve(manifest, notes=(), published=None).to_json()
    tools = sorted(contents.pop("tools"), key=lambda tool: tool["name"])
    names = {kind: dict(sorted(each.items())) if is_object(each) else sorted(each) for kind, each in contents.items()}
    return {"tools": tools, **names}


def write_manifest(path: Path, manifests: Sequence[PluginManifest]) -> None:
    """Writes the manifests of one distribution's plugins into its package, atomically; raises `ManifestError`."""
    try:
        write_atomic(str(path), manifest_text(manifests).encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise ManifestError(f"{path}: can't be written: {os_error_text(error)}") from None
