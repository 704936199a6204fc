"""Fault injection for installed plugins, each fault in a child process of its own.

`python -m pegboard_torture.torture` tries one there. A fault is survived if every call got one clear answer, the
registry and the tools of other plugins still work, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import json
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple

from attrs import asdict, define, field, frozen

from pegboard import (
    Origin,
    Permissions,
    ReadonlyContext,
    ResolvedTools,
    ResultLimits,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolResult,
    tool as as_tool,
)
from pegboard.config import NO_CONFIG, Config
from pegboard.errors import cause_of
from pegboard.events import CallEnded, CallRunning
from pegboard.json import is_array, is_object
from pegboard.schema import Validator
from pegboard.schema.converter import JsonRecord
from pegboard.testing import (
    MOST_MEMORY,
    WATCHDOG,
    FoundPlugin,
    Job,
    NoSampleError,
    PluginManager,
    Samples,
    answer_job,
    code_position,
    contract_violation,
    load_plugin,
    manifest_of,
    mutations_of,
    probe_plugins,
    run_jobs,
    short_text,
    watch_side_effects,
)
from pegboard.threads import SHARED
from pegboard.typing import JsonObject

FAULT_SECONDS: Final = 60.0
_CALL_SECONDS: Final = 10.0
_END_SECONDS: Final = 3.0
_LITTLE_MEMORY: Final = 512 << 20
_MOST_VALUES: Final = 60  # of one tool, in one fault
_AT_ONCE: Final = 20
_MOST_CAUSES: Final = 10
_SHOWN: Final = 120
_ON_TOP: Final = 2_000  # bytes of notes on what was left out
_CALLED: Final = "called"  # the file in which a child process names the tools that it calls
_NEIGHBOUR: Final = "torture_neighbour"
_OUTSIDE: Final = "lies outside of the working folder"
_PASSES: Final = (0, 1, 2, 3, 5, 8, 13, 21, 50)  # of the event loop, before a call is cancelled
_HOSTILE: Final = (
    *("", " ", "\x00", "a\x00b", "\x1b[2J\x1b]0;x\x07", "\u202eabc\u2066", "\u200b", "\ud800", "a\udcffb", "e\u0301"),
    *("../secret.txt", "../../../../../../etc/passwd", "/etc/passwd", "link/secret.txt", "~/x", "$HOME", "-rf"),
    *("; touch x #", "$(touch x)", "%s%n", "{0.__class__}", "(" * 500, "[" * 500, "(a+)+$", "\\", "*" * 500, "nan"),
    *("a" * 100_000, "\n" * 10_000, "🙂" * 10_000, "../" * 1_000, "1e400", "-1", "9" * 400, "\r\n", "\ufeff"),
)
_MALFORMED: Final = (
    *("", " ", "{", "}", "null", "1", '"a"', "[]", "{}{}", "{'a': 1}", '{"a":1,"a":2}', '{"a":NaN}', '{"a":1e999}'),
    *('{"\\ud800":"\\udfff"}', '{"a":' + "9" * 5_000 + "}", "[" * 100_000, '{"a":' * 5_000, "\x00", "\ufeff{}"),
    *(b"\xff\xfe", b'{"a":"\xed\xa0\x80"}', "a" * 2_000_000),
)


class _Fault(NamedTuple):
    group: str
    name: str
    function: Callable[..., Any]
    memory: int
    calls: bool


@frozen
class Tried(JsonRecord):
    """The outcome of a fault.

    Attributes:
        plugin: The plugin's name.
        group: The fault's group.
        fault: The fault's name.
        calls: How many calls were made.
        causes: Why it wasn't survived; empty if it was.
        not_called: The tools that weren't called, as they may change something.
    """

    plugin: str
    group: str
    fault: str
    calls: int = 0
    causes: tuple[str, ...] = ()
    not_called: tuple[str, ...] = ()

    @property
    def survived(self) -> bool:
        """Whether the plugin survived the fault."""
        return not self.causes

    def to_json(self) -> JsonObject:
        """All attributes, and `survived`."""
        return {**super().to_json(), "survived": self.survived}


FAULTS: Final[dict[str, _Fault]] = {}
GROUPS: Final = ("import", "registration", "arguments", "cancellation", "limits", "results", "names")


def _fault(group: str, *, calls: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a fault: a function of the trial, and with `calls` also of a registry and the tools to call."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.strip("_").replace("_", " ")
        FAULTS[name] = _Fault(group, name, function, MOST_MEMORY, calls)
        return function

    return add


def torture(
    plugins: Sequence[FoundPlugin],
    settings: Mapping[str, Mapping[str, Any]],
    *,
    include_mutating: bool = False,
    groups: Iterable[str] = (),
    seconds: float = FAULT_SECONDS,
) -> Iterator[Tried]:
    """Tries every applicable fault on each of these plugins.

    The network is blocked, and the working folder, `HOME` and the temporary folder are new ones.

    Args:
        plugins: The plugins.
        settings: The settings by plugin name.
        include_mutating: Whether tools that aren't marked read-only are also called.
        groups: Limits the faults to those of these groups.
        seconds: How long one fault may take.

    Yields:
        The outcome of each, in order; if a plugin doesn't load, only that.
    """
    with tempfile.TemporaryDirectory() as folder:
        todo: list[tuple[FoundPlugin, _Fault]] = []
        for found, brought in probe_plugins(plugins, settings):
            if brought.failure is not None:
                yield Tried(found.name, "import", "loads", 0, (brought.failure,))
                continue
            has_tools = bool(brought.tools or brought.names.get("toolsets"))
            wanted = (each for each in FAULTS.values() if not groups or each.group in groups)
            todo += [(found, each) for each in wanted if has_tools or not (each.calls or each.group == "names")]
        jobs = (
            _job(Path(folder, str(number)), found, fault, settings.get(found.name, {}), include_mutating)
            for number, (found, fault) in enumerate(todo)
        )
        with closing(run_jobs(jobs, seconds)) as answers:
            for number, ((found, fault), done) in enumerate(zip(todo, answers, strict=True)):
                calls, causes, not_called = done.answer or (
                    0,
                    [_death_cause(Path(folder, str(number)), done.cause)],
                    (),
                )
                left = ["it leaves a process behind, which was ended"] if done.left else []
                yield Tried(found.name, fault.group, fault.name, calls, (*causes, *left), tuple(not_called))


def _death_cause(folder: Path, cause: str | None) -> str:
    with suppress(OSError):
        return f"{cause} while these were called: {(folder / _CALLED).read_text()}"
    return f"{cause} while it was loaded"


def _job(folder: Path, found: FoundPlugin, fault: _Fault, settings: Mapping[str, Any], include_mutating: bool) -> Job:
    (folder / "here").mkdir(parents=True)
    (folder / "here" / "sample").write_text("sample\n", encoding="utf-8")
    (folder / "here" / "link").symlink_to(folder)
    (folder / "secret.txt").write_text(f"{_OUTSIDE}\n", encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PEGBOARD_"))}
    environ = {**inherited, "HOME": str(folder), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    facts = {
        "found": asdict(found),
        "settings": dict(settings),
        "fault": fault.name,
        "memory": fault.memory,
        "include_mutating": include_mutating,
    }
    return Job(__spec__.name, facts, environ, str(folder / "here"))


# In the child process -------------------------------------------------------------------------------------------------


@define(eq=False)
class _Guard:
    """Audit hook that blocks the network, and records paths outside of a folder that are written."""

    folder: str
    network: list[str] = field(factory=list[str])
    outside: list[str] = field(factory=list[str])
    read_only: bool = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self._check_write(arguments[0])
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.symlink", "os.truncate", "os.chmod"):
            self._check_write(arguments[0 if event != "os.symlink" else 1])
        elif event in ("os.rename", "os.link"):
            for path in arguments[event == "os.link" : 2]:  # a rename also removes its source
                self._check_write(path)
        elif event in ("socket.connect", "socket.sendto") and not isinstance(arguments[1], tuple):
            return  # a local socket
        elif event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
            self.network.append(f"{arguments[0] if 'get' in event else arguments[1]}")
            raise OSError(errno.ENETUNREACH, "the network is blocked")

    def _check_write(self, path: str | bytes | int) -> None:
        real = "" if isinstance(path, int) else os.fsdecode(os.path.realpath(path))
        if not real or real.startswith("/dev/"):
            return
        if self.read_only:
            raise OSError(errno.EROFS, "Read-only file system", real)
        if not f"{real}/".startswith(f"{self.folder}/"):
            self.outside.append(real)


_Tools = list[tuple[Tool, dict[str, Any]]]


@as_tool(name=_NEIGHBOUR, read_only=True)
async def _neighbour() -> str:
    """Answers, unless a plugin breaks the registry."""
    return "here"


@define(eq=False)
class Trial:
    """One fault tried on one plugin, in the child process."""

    found: FoundPlugin
    settings: Mapping[str, Any]
    guard: _Guard
    include_mutating: bool = False
    causes: list[str] = field(factory=list[str])
    calls: int = 0
    not_called: list[str] = field(factory=list[str])
    context: ReadonlyContext = field(factory=lambda: ReadonlyContext(work_dir=str(Path.cwd())))
    registries: list[ToolRegistry] = field(factory=list[ToolRegistry])

    def broke(self, cause: str) -> None:
        """Records a reason why the fault isn't survived."""
        if cause not in self.causes and len(self.causes) < _MOST_CAUSES:
            self.causes.append(cause)

    def begin(self, tools: Sequence[Tool]) -> None:
        """Counts calls that begin, and records their tools for the parent, in case this process dies."""
        self.calls += len(tools)
        Path(self.guard.folder, _CALLED).write_text(", ".join(sorted({tool.name for tool in tools})))

    def load(self) -> Any:
        """Loads the plugin in this thread, and records its errors."""
        loaded = load_plugin(self.found.origin, self.found.load(), self.settings)
        for fault in loaded.faults:
            self.broke(f"it loads only in part: {fault}")
        return loaded

    def registry(self, config: Config = NO_CONFIG) -> ToolRegistry:
        """A registry with the plugin and a tool of another origin."""
        registry = ToolRegistry(permissions=Permissions(mode="bypass"))
        self.registries.append(registry)
        registry.register(_neighbour)
        manager = registry.contributions.manager = PluginManager(registry, {self.found.name: self.settings}, config)
        record = manager.load(self.found)
        if record.status != "loaded":
            self.broke(f"it doesn't load: {record.cause}")
        return registry

    async def tools(self, registry: ToolRegistry) -> _Tools:
        """The plugin's tools that may be called, each with ordinary arguments."""
        found: list[tuple[Tool, dict[str, Any]]] = []
        for tool in (await registry.resolve(self.context)).tools:
            if tool.name == _NEIGHBOUR or tool.handler is None:
                continue
            if not (self.include_mutating or tool.spec.annotations.read_only_hint):
                self.not_called.append((*tool.former_names, tool.name)[0])
                continue
            known = next(iter(_samples(tool)), None)
            if known is not None:
                found.append((tool, known))
        return found

    async def run(self, registry: ToolRegistry, calls: Iterable[tuple[Tool, Any]], **options: Any) -> list[ToolResult]:
        """Runs calls in batches and checks that each gets one clear answer; returns the results in order.

        Args:
            registry: The registry.
            calls: Tools and arguments.
            options: Options of `ToolRegistry.batch`; and `interrupt`, whether each batch is interrupted as it begins.
        """
        results: list[ToolResult] = []
        waiting = iter(calls)
        resolved = await registry.resolve(self.context)
        while batch := list(islice(waiting, _AT_ONCE)):
            results += await self._batch(registry, resolved, batch, {"timeout": _CALL_SECONDS, **options})
        return results

    async def _batch(
        self, registry: ToolRegistry, resolved: ResolvedTools, batch: list[tuple[Tool, Any]], options: dict[str, Any]
    ) -> Sequence[ToolResult]:
        self.begin([tool for tool, _ in batch])
        interrupt, ended = options.pop("interrupt", False), list[int]()

        def listen(event: Any) -> None:
            if isinstance(event, CallEnded) and event.call_id == asked[event.index].id:  # not a nested call
                ended.append(event.index)
            elif interrupt and isinstance(event, CallRunning):
                running.interrupt("interrupted", "abort")

        asked = [ToolCall(tool.name, arguments, f"call {place}") for place, (tool, arguments) in enumerate(batch)]
        running = await registry.batch(asked, resolved, self.context, listener=listen, **options)
        outcome = await running.run()
        if sorted(ended) != list(range(len(batch))) or len(outcome) != len(batch):
            self.broke(f"{len(batch)} calls were answered {len(outcome)} times, and ended {len(ended)} times")
        if outcome.fatal is not None:
            self.broke(f"a call ends the turn: {outcome.fatal}")
        expected = ("aborted",) if interrupt else ("timeout",) if options["timeout"] < _CALL_SECONDS else ()
        for (tool, arguments), result in zip(batch, outcome.results, strict=True):
            limits = tool.policy.result_limits or options.get("results", registry.limits.results)
            cause = None if result.kind in expected else contract_violation(result) or _fault_of(tool, result, limits)
            if cause is not None:
                self.broke(f"{tool.name}({short_text(arguments)}): {short_text(cause)}")
        return outcome.results


def _fault_of(tool: Tool, result: ToolResult, limits: ResultLimits) -> str | None:
    """The fault of a result that `broken` accepts, or `None`."""
    written = ToolResult.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False)))
    schema, size = tool.spec.output_schema, len(result.text.encode(errors="replace"))
    if written.text != result.text:
        return "its result changes when it is serialized and parsed"
    if schema is not None and not result.is_error and not Validator(schema).accepts(result.structured_content):
        return "its result breaks its output schema"
    if limits.bytes is not None and size > limits.bytes + _ON_TOP:
        return f"its result has {size:,} bytes, more than the limit of {limits.bytes:,}"
    if tool.work_dir is not None and _OUTSIDE in result.text:
        return "it reads a file outside of its working folder"
    return None


def _samples(tool: Tool) -> Iterator[dict[str, Any]]:
    """Arguments that the tool's schema and its own check accept: its examples first."""
    yield from (dict(example) for example in tool.spec.examples)
    with suppress(NoSampleError):
        for sample in Samples(tool.spec.input_schema, tool.validator.accepts).of():
            if not tool.check(sample):
                yield sample


def _with_text(value: Any, text: str) -> Iterator[Any]:
    """Copies of the value, each with another of its texts replaced by this one."""
    if isinstance(value, str):
        yield text
    elif is_object(value):
        yield from ({**value, key: changed} for key, item in value.items() for changed in _with_text(item, text))
    elif is_array(value):
        for place, item in enumerate(value):
            yield from ([*value[:place], changed, *value[place + 1 :]] for changed in _with_text(item, text))


@_fault("import")
def _read_only_folder(trial: Trial) -> None:
    trial.guard.read_only = True
    trial.load()


@_fault("import")
def _hostile_environment(trial: Trial) -> None:
    os.close(0)
    sys.stdin = None
    del os.environ["HOME"]
    os.environ.update(PATH="", LANG="none", LC_ALL="none", TZ="none", TERM="", COLUMNS="x", LINES="x", EDITOR="\n")
    os.environ.update(TMPDIR="/none", http_proxy="::", https_proxy="::", NO_PROXY="[", SSL_CERT_FILE="/none", USER="")
    os.environb[b"\xff\xfe"] = b"\xff" * 10_000
    trial.load()


@_fault("import")
def _side_effects(trial: Trial) -> None:
    notes: list[str] = []
    signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
    known = set(threading.enumerate())
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        with watch_side_effects(notes):  # in the main thread, where it can set signal handlers
            trial.load()
        sys.stdout.flush()
        file.seek(0)
        printed = file.read(_SHOWN)
    notes += [f"printed {printed.decode(errors='replace')!r}"] if printed else []
    notes += [f"handles {signal.Signals(each).name}" for each in signals if signal.getsignal(each) != signals[each]]
    notes += [f"started a thread ({thread.name})" for thread in set(threading.enumerate()) - known]
    notes += [f"uses the network: {address}" for address in trial.guard.network]
    for note in notes:
        trial.broke(f"its import has side effects: it {note}")


@_fault("registration")
async def _twice(trial: Trial) -> None:
    registry = trial.registry()
    names = [tool.name for tool in registry.tools()]
    assert isinstance(registry.contributions.manager, PluginManager)
    thing = trial.found.load()
    registry.contributions.manager.register(thing, Origin(f"{trial.found.name}-again", trial.found.distribution))
    if [tool.name for tool in registry.tools()] != names:
        trial.broke("registered under a second name, it adds or removes tools")
    await trial.run(registry, await trial.tools(registry))


@_fault("registration")
async def _two_registries(trial: Trial) -> None:
    first, second = manifest_of(trial.load()), manifest_of(trial.load())
    for difference in second.differences(first):
        trial.broke(f"a second registry gets something else: {difference}")
    one, other = trial.registry(), trial.registry()
    await trial.run(one, await trial.tools(one))
    await one.aclose()
    await trial.run(other, await trial.tools(other))


def _few(tools: _Tools, most: int = 5) -> Iterator[tuple[Tool, dict[str, Any]]]:
    return ((tool, value) for tool, _ in tools for value in islice(_samples(tool), most))


def _calls(
    group: str, name: str, calls: Callable[[_Tools], Iterable[tuple[Tool, Any]]], memory: int = MOST_MEMORY, **how: Any
) -> None:
    """Registers a fault that only makes calls, with these options of `Trial.run`."""

    async def try_calls(trial: Trial, registry: ToolRegistry, tools: _Tools) -> None:
        await trial.run(registry, calls(tools), **how)

    FAULTS[name] = _Fault(group, name, try_calls, memory, calls=True)


_calls("arguments", "allowed values", lambda tools: _few(tools, _MOST_VALUES))


@_fault("arguments", calls=True)
async def _forbidden_values(trial: Trial, registry: ToolRegistry, tools: _Tools) -> None:
    calls: list[tuple[Tool, Any]] = []
    for tool, known in tools:
        candidates = (value for value in mutations_of(known) if value not in ("", None))  # these count as no arguments
        forbidden = (value for value in candidates if not tool.validator.accepts(value))
        calls += [(tool, value) for value in islice(forbidden, _MOST_VALUES)]
    for (tool, value), result in zip(calls, await trial.run(registry, calls), strict=True):
        if not result.is_error:
            trial.broke(f"{tool.name}({short_text(value)}) runs, though its schema forbids that")


def _hostile(tools: _Tools) -> Iterator[tuple[Tool, Any]]:
    for tool, known in tools:
        for text in _HOSTILE:
            yield from ((tool, changed) for changed in _with_text(known, text))
            yield tool, {**known, text: 1}


def _deep(tools: _Tools) -> Iterator[tuple[Tool, Any]]:
    for tool, known in tools:
        for name in [*tool.spec.input_schema.get("properties", {}), "more"]:
            for depth in (50, 900, 20_000):
                yield tool, {**known, name: json.loads("[" * 50 + "]" * 50)}
                rest = json.dumps(known)[1:-1]
                deep = f"{json.dumps(name)}: {'[' * depth}{']' * depth}"
                yield tool, f"{{{', '.join(filter(None, (rest, deep)))}}}"


_calls("arguments", "hostile texts", _hostile)
_calls("arguments", "malformed JSON", lambda tools: [(tool, text) for tool, _ in tools for text in _MALFORMED])
_calls("arguments", "deep nesting", _deep)


@_fault("cancellation", calls=True)
async def _cancelled_at_moments(trial: Trial, registry: ToolRegistry, tools: _Tools) -> None:
    for tool, known in tools:
        for passes in _PASSES:
            trial.begin([tool])
            call = asyncio.ensure_future(registry.call(tool.name, known, trial.context))
            for _ in range(passes):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call], timeout=_CALL_SECONDS)
            if not call.done():
                trial.broke(f"{tool.name} still runs {_CALL_SECONDS:g} s after it was cancelled")
            elif not call.cancelled() and (error := call.exception()) is not None:
                trial.broke(f"{tool.name}, cancelled after {passes} steps, raises {cause_of(error)}")


_calls("cancellation", "interrupted batch", lambda tools: [each for each in tools for _ in range(4)], interrupt=True)
_calls("limits", "time limit", _few, timeout=0.01)
_calls("limits", "small results", _few, results=ResultLimits(lines=1, bytes=100))
_calls("limits", "little memory", _few, _LITTLE_MEMORY)
_calls("results", "one by one", _few, sequential=True)


@_fault("results", calls=True)
async def _same_calls_at_once(trial: Trial, registry: ToolRegistry, tools: _Tools) -> None:
    for tool, known in tools:
        results = await trial.run(registry, [(tool, known)] * _AT_ONCE)
        if len({result.kind for result in results}) > 1:
            trial.broke(f"{tool.name}: the same call, {_AT_ONCE} times at once, fails only sometimes")


@_fault("names")
async def _renamed(trial: Trial) -> None:
    names = {tool.name: f"renamed_{place}" for place, tool in enumerate(trial.load().tools)}
    registry = trial.registry(Config(rename={f"{trial.found.name}:{old}": new for old, new in names.items()}))
    await trial.run(registry, await trial.tools(registry))


async def _whole(trial: Trial, fault: _Fault) -> None:
    """Tries the fault, then checks what it has left behind."""
    folder, known = Path.cwd(), set(threading.enumerate())
    own = [trial.registry()] if fault.calls else []
    answer = fault.function(trial, *own, *[await trial.tools(registry) for registry in own])
    if inspect.isawaitable(answer):
        await answer
    for registry in trial.registries:
        if (await registry.call(_NEIGHBOUR)).text != "here":
            trial.broke("the tools of other plugins fail afterwards")
        await registry.aclose()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in (await asyncio.wait(tasks, timeout=_END_SECONDS))[1] if tasks else ():
        trial.broke(f"it leaves a task behind in the event loop: {short_text(task.get_coro())}")
    SHARED.close()
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_default_executor(), _END_SECONDS)
    until = monotonic() + _END_SECONDS
    for thread in set(threading.enumerate()) - known:
        thread.join(max(until - monotonic(), 0.0))
        if thread.is_alive() and thread.name != WATCHDOG:
            name = re.sub(r"-\d+", "", thread.name)  # threads of one place are one cause
            trial.broke(f"it leaves a thread behind ({name}){code_position(thread.ident or 0)}")
    if Path.cwd() != folder:
        trial.broke("it changes the working folder")
    for path in trial.guard.outside:
        trial.broke(f"it writes outside of the temporary folder: {path}")


def _try_fault(job: Mapping[str, Any]) -> Iterator[tuple[int, list[str], list[str]]]:
    guard = _Guard(os.path.realpath(os.environ["TMPDIR"]))
    trial = Trial(FoundPlugin(**job["found"]), job["settings"], guard, job["include_mutating"])
    sys.addaudithook(guard)
    try:
        asyncio.run(_whole(trial, FAULTS[job["fault"]]))
    except BaseException as error:  # noqa: BLE001  an exception of the plugin fails only this fault
        trial.broke(cause_of(error))
    yield trial.calls, trial.causes, sorted({*trial.not_called})


if __name__ == "__main__":
    answer_job(_try_fault)
