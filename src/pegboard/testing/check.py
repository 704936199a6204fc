"""`check_plugin`: one call that puts a plugin through the contract."""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self

from attrs import define, field

import pegboard
from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.errors import FatalToolError, PluginError, cause_of
from pegboard.plugins.manager import LOAD_SECONDS, LoadedPlugin, gather, manifest_of, within
from pegboard.plugins.manifest import PluginManifest, read_manifest
from pegboard.schema.json import is_object
from pegboard.schema.references import References
from pegboard.schema.validator import second_opinion
from pegboard.testing.argument_checks import Findings, Report, check_arguments
from pegboard.testing.calls import Subject, plugin_registry, subject_of
from pegboard.tools.content import ToolResult
from pegboard.tools.spec import ToolSpec
from pegboard.typing import JsonSchema

if TYPE_CHECKING:
    from pegboard.plugins.discovery import FoundPlugin
    from pegboard.registry import ToolRegistry
    from pegboard.tools.tool import Tool

_BLOCKED: Final = 0.1
"""Seconds from which on other calls in the loop are noticeably late."""
_BEAT: Final = 0.01
_LOOP: Final = (os.path.dirname(asyncio.__file__), os.path.dirname(pegboard.__file__), selectors.__file__)  # noqa: PTH120
"""Where the code that runs tools lies: below it stands a tool's own."""
HEAVY: Final = (
    "PIL",
    "aiohttp",
    "anthropic",
    "boto3",
    "cattrs",
    "httpx",
    "jsonschema",
    "matplotlib",
    "numpy",
    "openai",
    "pandas",
    "pydantic",
    "requests",
    "scipy",
    "sklearn",
    "sqlalchemy",
    "tensorflow",
    "torch",
    "transformers",
)
"""Packages that take a tenth of a second and more, or megabytes, and that a plugin needs at a call, not before."""
_IMPORT_SECONDS: Final = 60.0
_SCRIPT: Final = """
import sys, json, importlib
from pegboard import Tool, ToolRegistry, hookimpl, tool
before = set(sys.modules)
try:
    importlib.import_module(sys.argv[1])
except BaseException as error:
    answer = {"cause": f"{type(error).__name__}: {error}"}
else:
    answer = {"modules": sorted(set(sys.modules) - before)}
sys.__stdout__.write("\\n" + json.dumps(answer) + "\\n")
"""
_NAMES = ("hooks", "toolsets", "predicates", "processors", "exporters", "executors", "models", "commands")
_BREAKS: Final = ("invalid_output", "timeout", "crashed", "callback_failure", "aborted")
"""Kinds of error that no call with valid arguments may end in."""


@define(eq=False)
class LoopMonitor:
    """Watches the running loop, from inside and from a thread beside it, while its `async with` lasts.

    The loop is blocked while its beat stays out. Where the watching thread was kept waiting too and the process
    got no processor time, the machine was busy, and that time isn't counted.

    Attributes:
        blocked: The longest time in seconds for which the loop stood still.
        place: Where its thread was then (`"file.py:12 in function"`), or `""`.
    """

    blocked: float = 0.0
    place: str = ""
    _last: float = field(factory=time.monotonic, init=False)
    _lost: float = field(default=0.0, init=False)
    _thread: int = field(factory=threading.get_ident, init=False)
    _ended: threading.Event = field(factory=threading.Event, init=False)
    _task: asyncio.Task[None] | None = field(default=None, init=False)

    async def __aenter__(self) -> Self:
        self._last = time.monotonic()
        self._task = asyncio.get_running_loop().create_task(self._beat())
        threading.Thread(target=self._watch, name="pegboard-loop-monitor", daemon=True).start()
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)  # a beat that is due is counted
        self._measure()
        self._ended.set()
        assert self._task is not None
        self._task.cancel()

    async def _beat(self) -> None:
        while True:
            self._measure()
            await asyncio.sleep(_BEAT)

    def _measure(self) -> None:
        now = time.monotonic()
        self.blocked = max(self.blocked, now - self._last - _BEAT - self._lost)
        self._last, self._lost = now, 0.0

    def _watch(self) -> None:
        """Runs in the thread beside: counts what the machine took away, and looks where the loop's thread stands."""
        while not self._ended.is_set():
            before, used = time.monotonic(), time.process_time()
            self._ended.wait(_BEAT)
            late = time.monotonic() - before - _BEAT
            self._lost += max(0.0, late - (time.process_time() - used))
            if not self.place and time.monotonic() - self._last > _BLOCKED / 2:
                self.place = _place(sys._current_frames().get(self._thread))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  (documented, for debuggers)


def _place(frame: FrameType | None) -> str:
    """Where the tool's own code stands: the last of what it called is of no use to its author."""
    place = ""
    while frame is not None and not frame.f_code.co_filename.startswith(_LOOP):
        code = frame.f_code
        place = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"  # noqa: PTH119
        frame = frame.f_back
    return place


def _check_budget(
    subject: Subject, findings: Findings, *, heavy: Iterable[str] = HEAVY, most_modules: int | None = None
) -> None:
    """Imports the plugin's module, if it has one, in a fresh process and counts what came with it beyond pegboard."""
    heavy = tuple(heavy)
    if subject.module is None or (not heavy and most_modules is None):
        return
    answer = _modules_of(subject.module)
    if "cause" in answer:
        findings.note(f"its import couldn't be measured in a process of its own: {answer['cause']}")
        return
    loaded: list[str] = answer["modules"]
    for package in heavy:
        if package in loaded:
            findings.error(
                f"importing {subject.module} loads {package!r}, which is heavy and delays all other tools: "
                f"import it inside the function that needs it, or pass heavy=... without it"
            )
    if most_modules is not None and len(loaded) > most_modules:
        findings.error(
            f"importing {subject.module} loads {len(loaded)} modules, more than {most_modules}: "
            "import at use what a call needs"
        )


def _modules_of(module: str) -> dict[str, Any]:
    """`{"modules": [...]}`, or `{"cause": ...}` where it couldn't be imported."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        done = subprocess.run(  # noqa: S603  this interpreter, a module that is imported here already
            [sys.executable, "-c", _SCRIPT, module],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_IMPORT_SECONDS,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
        return json.loads(done.stdout.rstrip("\n").rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        return {"cause": f"it took longer than {_IMPORT_SECONDS:g} s"}
    except ValueError:
        return {"cause": "the process ended while it was imported"}


def _check_spec(spec: ToolSpec, findings: Findings) -> None:
    """Reads a tool's description, its marks and the descriptions of its parameters."""
    called = f"tool {spec.name!r}"
    if not spec.description.strip() and spec.kind != "provider":
        findings.error(f"{called} has no description: a model can't tell what it is for; give it a docstring")
    if spec.annotations.read_only_hint and spec.annotations.destructive_hint:
        findings.error(f"{called} is marked both read-only and destructive: take one of the marks off")
    for what, schema, examples in (
        ("input", spec.input_schema, spec.examples),
        ("output", spec.output_schema, ()),
    ):
        if schema is not None and (opinion := second_opinion(schema, examples)) is not None:
            findings.warn(f"{called}: validators don't agree on its {what} schema: {opinion}; say it more plainly")
    undescribed = list(_undescribed(spec.input_schema)) if spec.kind == "function" else []
    if undescribed:
        findings.warn(
            f"{called}: no description for {', '.join(map(repr, undescribed))}; give one in the docstring (Args:), "
            "or as Annotated[..., 'text']"
        )


def _undescribed(schema: JsonSchema) -> Iterator[str]:
    """The parameters that neither a description nor a list of options speaks for."""
    references = References(schema)
    for name, rule in schema.get("properties", {}).items():
        if not is_object(rule) or "const" in rule or any(map(rule.get, ("description", "title", "enum"))):
            continue
        if not any(is_object(target) and "description" in target for target in references.targets(rule)):
            yield name


def _check_loading(subject: Subject, settings: Mapping[str, Any], findings: Findings) -> LoadedPlugin | None:
    """What the plugin brings, asked for as a registry does; `None` where it failed as a whole."""
    try:
        loaded = within(LOAD_SECONDS, gather, subject.name, subject.thing, settings)
        manifest = within(LOAD_SECONDS, manifest_of, loaded, None, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        findings.error(f"it doesn't load: {cause_of(error)}")
        return None
    for fault in loaded.faults:
        findings.error(f"it loads in part only: {fault}")
    if not loaded.implementations:
        findings.error(
            "it brings nothing: no hook implementation was found; "
            "mark a function pegboard_register_tools(register) with @hookimpl"
        )
    elif not loaded.faults:
        _check_again(subject, settings, manifest, findings)
    return loaded


def _check_again(subject: Subject, settings: Mapping[str, Any], manifest: PluginManifest, findings: Findings) -> None:
    """Asks a second time, as a second registry in the same process would."""
    try:
        again = manifest_of(gather(subject.name, subject.thing, settings), None, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        findings.error(f"it loads once only: a second registry in the same process gets {cause_of(error)}")
        return
    for difference in _differences(manifest, again):
        findings.error(
            f"it isn't the same each time it loads: {difference}; what it registers must not depend on what was "
            "registered before, on the clock or on chance"
        )


def _check_manifest(subject: Subject, settings: Mapping[str, Any], findings: Findings) -> None:
    """Holds the manifest in the plugin's package, if there is one, and a fresh process's answer against the code."""
    found = subject.found
    if found is None:
        return
    _check_fresh(found, subject, settings, findings)
    try:
        manifest = read_manifest(found)
        if manifest is None:
            return
        code = manifest_of(gather(subject.name, subject.thing, {}), found.distribution, found.version)
    except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
        findings.error(f"its manifest can't be held against its code, which is loaded without settings: {error}")
        return
    for difference in _differences(manifest, code):
        findings.error(f"its manifest isn't what its code says: {difference}; run 'registry manifest write'")


def _check_fresh(found: FoundPlugin, subject: Subject, settings: Mapping[str, Any], findings: Findings) -> None:
    """Asks a new process: sets and hashes come out in another order there."""
    from pegboard.plugins.probe import probe

    manifest = manifest_of(gather(subject.name, subject.thing, settings), found.distribution, found.version)
    for probed in probe([found], {found.name: settings}):
        if probed.manifest is None:
            findings.error(f"it doesn't load in a process of its own: {probed.cause}")
            continue
        for difference in _differences(manifest, probed.manifest):
            findings.error(
                f"another process gets something else: {difference}; "
                "sort what comes from sets, and leave out times, ids and paths"
            )


def _differences(one: PluginManifest, other: PluginManifest) -> list[str]:
    """In what two manifests differ, a few words each; the order of tools and names doesn't count."""
    first, second = ({spec.name: spec for spec in manifest.tools} for manifest in (one, other))
    changed = [
        f"tool {name!r} {'is gone' if name not in second else 'is new' if name not in first else 'has changed'}"
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]
    kinds = (kind for kind in _NAMES if sorted(getattr(one, kind)) != sorted(getattr(other, kind)))
    return changed + [f"its {kind} differ" for kind in kinds]


def _check_examples(subject: Subject, settings: Mapping[str, Any], findings: Findings) -> None:
    """Runs each example of each tool that says it only reads."""
    try:
        registry = plugin_registry(settings={subject.name: settings}, **{subject.name: subject.thing})
    except PluginError as error:
        findings.error(f"it can't be registered for its examples: {error.cause}")
        return
    registry.permissions = Permissions(mode="bypass")  # the examples are the author's own, and there is no one to ask
    asyncio.run(_run_examples(registry, findings))


async def _run_examples(registry: ToolRegistry, findings: Findings) -> None:
    async with registry:
        for tool in registry.tools():
            if tool.spec.annotations.read_only_hint and tool.handler is not None:
                if not tool.spec.examples:
                    findings.note(f"tool {tool.name!r} declares no examples (examples=[...]), so it wasn't run")
                for place, example in enumerate(tool.spec.examples):
                    await _run_example(registry, tool, f"tool {tool.name!r}, example {place + 1}", example, findings)
            elif tool.spec.examples:
                findings.note(f"tool {tool.name!r} isn't marked read-only, so its examples weren't run")


async def _run_example(
    registry: ToolRegistry, tool: Tool, called: str, example: Mapping[str, Any], findings: Findings
) -> None:
    findings.ran += 1
    try:
        result, monitor = await _watched(registry, tool, example)
        if monitor.blocked > _BLOCKED:  # measured again: the first call may load what later ones have
            _, monitor = await _watched(registry, tool, example)
    except FatalToolError as error:
        findings.error(f"{called}: it ends the turn: {error}")
        return
    if monitor.blocked > _BLOCKED:
        where = f" ({monitor.place})" if monitor.place else ""
        findings.error(
            f"{called}: it blocks the event loop for {monitor.blocked:.1f} s{where}, and no other call goes on "
            "meanwhile; await what it waits for, or make it a plain function, which runs in a thread"
        )
    _judge(result, called, findings)


async def _watched(registry: ToolRegistry, tool: Tool, example: Mapping[str, Any]) -> tuple[ToolResult, LoopMonitor]:
    async with LoopMonitor() as monitor:
        result = await registry.call(tool.name, example)
    return result, monitor


def _judge(result: ToolResult, called: str, findings: Findings) -> None:
    if not result.is_error:
        return
    if result.kind in _BREAKS or (result.kind == "tool_failure" and "retryable" not in result.metadata):
        detail = (result.detail or "").strip().rpartition("\n")[2]
        findings.error(
            f"{called}: its result is an error of kind {result.kind}: {result.text}{f' ({detail})' if detail else ''}; "
            "raise ToolError for what a model shall read, and correct the rest"
        )
    else:
        findings.note(f"{called}: it answered with an error ({result.kind}): {result.text[:200]}")


def check_plugin(
    plugin: Any,
    *,
    settings: Mapping[str, Any] | None = None,
    run_examples: bool = True,
    heavy: Iterable[str] = HEAVY,
    most_modules: int | None = None,
) -> Report:
    """Puts a plugin through what a registry relies on; for its author's tests.

    It loads whole and says the same each time, in every process; its manifest, where its package has one, says what
    its code says; every tool has a description and valid schemas; each tool's check takes its examples and arguments
    made from its schema, ordinary ones and those at the bounds, and refuses those that break one of the schema's
    rules. The examples of its read-only tools run without a fault and never block the event loop. Importing it loads
    nothing heavy. Nothing is left to chance.

    Args:
        plugin: The name of an installed plugin (its entry point's), or its module, class or object.
        settings: Its settings, as `[plugins.NAME]` in a pegboard.toml gives them.
        run_examples: Whether to run the declared examples of the tools that are marked read-only. None may crash,
            give what its output schema forbids, run into its time limit, or block the event loop for more than 0.1 s.
        heavy: Packages that importing the plugin's module must not load; `()` allows all. For a plugin that is given
            by name or as a module.
        most_modules: How many modules importing it may load beyond pegboard's, its own included; `None` sets no limit.

    Returns:
        What was checked, with warnings and notes.

    Raises:
        AssertionError: The contract is broken; the text lists everything that was found, and what to do.
    """
    __tracebackhide__ = True  # pytest shows the author's line, not ours
    given = plugin if isinstance(plugin, str) else getattr(plugin, "__name__", type(plugin).__name__)
    try:
        subject = subject_of(plugin)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        findings = Findings(given)
        findings.error(error.cause if isinstance(error, PluginError) else f"it can't be imported: {cause_of(error)}")
        return findings.report()
    findings = Findings(subject.name)
    own = settings or {}
    loaded = _check_loading(subject, own, findings)
    if loaded is not None:
        for tool in loaded.tools:
            findings.tools.append(tool.name)
            _check_spec(tool.spec, findings)
            check_arguments(tool, findings)
        for toolset in loaded.toolsets:
            findings.note(f"toolset {toolset.name!r} is asked for its tools at run time only; they weren't checked")
        if not loaded.faults:
            _check_manifest(subject, own, findings)
            if run_examples:
                _check_examples(subject, own, findings)
    _check_budget(subject, findings, heavy=heavy, most_modules=most_modules)
    return findings.report()
