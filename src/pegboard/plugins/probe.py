"""The first load of a plugin without a manifest: in a child process, with limits on time and memory.

`python -m pegboard.plugins.probe` reads one job on standard input and answers on standard output. What a plugin prints
is discarded.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from attrs import asdict, evolve

from pegboard.catalogue import PublishedTools
from pegboard.errors import ManifestError, cause_of, hide, operator_log
from pegboard.plugins.discovery import FoundPlugin
from pegboard.plugins.manifest import PluginManifest, RequestFacts
from pegboard.plugins.plugin import GUARDS, Plugin, load_within
from pegboard.plugins.side_effects import LOAD_SECONDS
from pegboard.plugins.snapshot import stamp_of
from pegboard.tools.spec import Origin
from pegboard.toolsets.toolset import identity_of, published_files
from pegboard.typing import frozen

if TYPE_CHECKING:
    import click

    from pegboard.programs import OutputBuffer, RunningProgram
    from pegboard.toolsets.toolset import OwnedToolset

_MOST_PROCESSES: Final = 4  # at the same time
_MOST_PLUGINS: Final = 20  # that one process loads, of `probe_together`
_PUBLISH_SECONDS: Final = 5.0  # that the toolsets of one plugin have for what they publish
_CLOSE_SECONDS: Final = 3.0
_MOST_ANSWER: Final = 1 << 28  # bytes
_UNFINISHED: Final = "it ended the process, or took too long, once it was imported"
_SILENT: Final = "its toolsets ended the process, or didn't answer, when asked for what they publish"
MOST_MEMORY: Final = 4 << 30  # bytes of data that a plugin may use while it is loaded, where the system enforces it


def probe_plugins(
    plugins: Sequence[FoundPlugin],
    settings: Mapping[str, Mapping[str, Any]],
    *,
    seconds: float = LOAD_SECONDS,
    seconds_for_all: float = math.inf,
    progress: Callable[[int, int, str], None] | None = None,
) -> Iterator[tuple[FoundPlugin, PluginManifest]]:
    """Loads plugins in child processes, a few at a time, each within `seconds`; starts none after `seconds_for_all`.

    Yields the manifest of each, in order, with its `failure` if it failed; nothing for those that weren't started.
    `settings` are by plugin name; `progress` is called with `(number, of how many, name)` before each is loaded.
    """
    started = monotonic()

    def jobs() -> Iterator[Job]:
        for number, found in enumerate(plugins):
            if monotonic() - started > seconds_for_all:
                return
            if progress is not None:
                progress(number, len(plugins), found.name)
            yield Job(__name__, {"found": asdict(found), "settings": dict(settings.get(found.name, {}))})

    with closing(run_jobs(jobs(), seconds)) as answers:
        for found, done in zip(plugins, answers, strict=False):
            yield found, _manifest_from(found, done)


def probe_together(plugins: Sequence[FoundPlugin]) -> dict[FoundPlugin, PluginManifest]:
    """What plugins bring without settings, loaded many to a child process; those that fail there are left out.

    It takes less than half of the processor time of `probe_plugins`, but one plugin can affect others.
    """
    groups = [plugins[start : start + _MOST_PLUGINS] for start in range(0, len(plugins), _MOST_PLUGINS)]
    jobs = (Job(__name__, {"together": [{"found": asdict(one), "settings": {}} for one in group]}) for group in groups)
    loaded: dict[FoundPlugin, PluginManifest] = {}
    with closing(run_jobs(jobs, LOAD_SECONDS)) as answers:
        for group, done in zip(groups, answers, strict=True):
            known = zip(group, done.answer or (), strict=False)
            loaded |= {found: _manifest_from(found, Done(answer)) for found, answer in known}
    return {found: manifest for found, manifest in loaded.items() if manifest.failure is None}


def _manifest_from(found: FoundPlugin, done: Done) -> PluginManifest:
    """The manifest that a child process has answered, or one with the `failure`."""
    if done.cause is not None:
        return PluginManifest(found.name, failure=f"{done.cause} while it was loaded")
    try:
        trace = done.answer.pop("trace", "")
        manifest = PluginManifest.from_json(done.answer, found)
    except (ManifestError, ValueError, TypeError, AttributeError) as error:
        return PluginManifest(found.name, failure=str(error) or type(error).__name__)
    if manifest.failure is not None:
        operator_log().debug("plugin %r failed to load: %s\n%s", found.name, manifest.failure, trace)
    return manifest


@frozen
class Job:
    """Job for a child process.

    Attributes:
        module: What `python -m` runs there; it calls `answer_job`.
        facts: Its input, as JSON data.
        environ: Its environment; this process's by default.
        folder: Its working folder; this process's by default.
    """

    module: str
    facts: Mapping[str, Any]
    environ: Mapping[str, str] | None = None
    folder: str | None = None


@frozen
class Done:
    """Job that has ended.

    Attributes:
        answer: The child process's answer, from JSON.
        cause: Why there is no answer, or `None`.
        left: How many processes it left behind, which were killed; 0 where the system has no `/proc`.
    """

    answer: Any = None
    cause: str | None = None
    left: int = 0


def run_jobs(jobs: Iterable[Job], seconds: float) -> Generator[Done]:
    """Runs jobs in child processes, a few at a time, each for so many seconds at most; yields the results in order.

    The next job is taken as soon as it can be started.
    """
    waiting = iter(jobs)
    running: deque[RunningProgram[OutputBuffer]] = deque()
    try:
        while True:
            for job in islice(waiting, _MOST_PROCESSES - len(running)):
                running.append(_program(job, seconds))
                running[-1].start()
            if not running:
                return
            running[0].join(threading.TIMEOUT_MAX)
            yield _done(running.popleft())
    finally:
        for program in running:
            program.end(now=True)
        for program in running:
            program.join(threading.TIMEOUT_MAX)


def _program(job: Job, seconds: float) -> RunningProgram[OutputBuffer]:
    from pegboard.programs import OutputBuffer, RunningProgram  # asyncio, which most child processes don't need

    path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    return RunningProgram(
        [sys.executable, "-P", "-m", job.module],  # -P: no import from the current folder
        OutputBuffer(_MOST_ANSWER, 0),
        errors=OutputBuffer(0),
        env={**(os.environ if job.environ is None else job.environ), "PYTHONPATH": path},
        folder=job.folder,
        stdin=json.dumps(job.facts, default=str).encode(),  # TOML has dates
        limit=seconds,
        grace=0.0,
    )


def _done(program: RunningProgram[OutputBuffer]) -> Done:
    """The result of a child process that has ended: the last answer that it wrote in full."""
    if program.failure is not None:
        return Done(cause=f"can't be loaded in a child process: {program.failure}")
    left = program.leftovers.ended + len(program.leftovers.running)
    *_, last, _ = b"", *bytes(program.output.tail).split(b"\n")
    if not last:
        took = f"took longer than {program.limit:g} s"
        return Done(None, took if program.timed_out else f"ended the process (exit code {program.code})", left)
    try:
        return Done(json.loads(last), None, left)
    except ValueError as error:
        return Done(None, str(error), left)


def short_helps(commands: Mapping[str, click.Command]) -> dict[str, str]:
    """The first sentence of each command's help."""
    return {name: command.get_short_help_str(limit=200) for name, command in commands.items()}


def _command_helps(loaded: Plugin) -> Mapping[str, str]:
    """A line of help for each command that the plugin adds to `registry`, by name; a hook that raises is a fault."""
    if "pegboard_register_commands" not in loaded.implementations:
        return {}
    import click

    group = click.Group()
    try:
        for each in loaded.implementations["pegboard_register_commands"]:
            each.function(*(group for _ in each.argnames))
        return short_helps(group.commands)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        loaded.faults.append(f"pegboard_register_commands raised {cause_of(error, loaded.secrets)}")
    return dict.fromkeys(group.commands, "")


def manifest_of(loaded: Plugin) -> PluginManifest:
    """The manifest of a loaded plugin: its tools' specs, and the names of everything else."""
    requests = {tool.name: RequestFacts.of(tool) for tool in loaded.tools}
    return PluginManifest(
        loaded.name,
        loaded.origin.distribution,
        loaded.origin.version,
        tools=tuple(tool.spec for tool in loaded.tools),
        hooks=loaded.hooks,
        names={kind: tuple(names) for kind, names in loaded.names.items() if names},
        commands=_command_helps(loaded),
        faults=tuple(loaded.faults),
        requests={name: facts for name, facts in requests.items() if facts != RequestFacts()},
    )


def _answers(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a plugin brings; if it has tools to publish, first without them: listing them may end the process."""
    notes: list[str] = []
    found = FoundPlugin(**job["found"])
    origin = Origin(found.name, found.distribution, found.version)  # trust isn't cached
    loaded = Plugin(origin, lambda: loaded.thing, job["settings"])  # imported below, to know whether it guards calls
    try:
        # In a thread, as where it is used: an import that works only in the main thread fails here.
        loaded.thing = load_within(found.load, notes, threading.TIMEOUT_MAX)
        if loaded.guards:
            yield PluginManifest(found.name, hooks=(GUARDS,), failure=_UNFINISHED).to_json()
        load_within(loaded.load, notes, threading.TIMEOUT_MAX)
        publishers, files = _find_publishers(loaded)
        manifest = evolve(manifest_of(loaded), notes=tuple(notes))
    except BaseException as error:  # noqa: BLE001  whatever the plugin raises is its answer
        failed = PluginManifest(found.name, hooks=(GUARDS,) if loaded.guards else (), failure=cause_of(error))
        yield {**failed.to_json(), "trace": "".join(traceback.format_exception(error))}
        return
    if publishers:
        import asyncio  # most plugins publish nothing

        faults = (*manifest.faults, _SILENT)
        yield evolve(manifest, faults=faults, published=PublishedTools((), files, failed=True)).to_json()
        published = asyncio.run(_query(loaded, publishers, files))
        manifest = evolve(manifest, faults=tuple(loaded.faults), published=published)
    yield manifest.to_json()


def _answers_together(jobs: Iterable[Mapping[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The answers of several jobs so far, after each."""
    done: list[dict[str, Any]] = []
    for job in jobs:
        *_, last = _answers(job)
        done.append(last)
        yield done


def _find_publishers(loaded: Plugin) -> tuple[list[OwnedToolset], dict[str, str]]:
    """The plugin's toolsets that publish tools, and the stamps of the files that these are read from."""
    publishers, files = list["OwnedToolset"](), dict[str, str]()
    for toolset in loaded.toolsets:
        try:
            paths = published_files(toolset)
        except Exception as error:  # noqa: BLE001  reading the attribute of a plugin's object
            loaded.faults.append(f"toolset {toolset.name!r}: {hide(cause_of(error), loaded.secrets)}")
            continue
        if paths is not None:
            publishers.append(toolset)
            files |= {path: stamp_of(os.fsencode(path)).decode() for path in paths}
    return publishers, files


async def _query(loaded: Plugin, publishers: Sequence[OwnedToolset], files: Mapping[str, str]) -> PublishedTools:
    """What these toolsets publish; they are queried once and closed, and failures are among the plugin's faults."""
    import asyncio

    from pegboard.tools.context import EMPTY_CONTEXT
    from pegboard.toolsets.toolset import ask_all, close_all

    try:
        offers = await ask_all(publishers, EMPTY_CONTEXT, _PUBLISH_SECONDS, "--live waits longer")
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(close_all([each]) for each in publishers)), _CLOSE_SECONDS)
    problems = [problem for offer in offers for problem in offer.problems if not problem.note]
    texts = (f"{problem}; {problem.fix}" if problem.fix else str(problem) for problem in problems)
    loaded.faults += [hide(text, loaded.secrets) for text in texts]
    failed = any(offer.has_failed and not offer for offer in offers)
    known = {each.name: identity for each in publishers if (identity := identity_of(each)) is not None}
    return PublishedTools(tuple(tool.evolve(handler=None) for offer in offers for tool in offer), files, failed, known)


def _bound_memory(most: int) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def answer_job(answers: Callable[[dict[str, Any]], Iterable[Any]]) -> None:
    """Runs the job on standard input in this process, and ends the process.

    `answers` does the job and yields its answer, for JSON, after others that count if the process ends before. It may
    use as many bytes of data as the job's `memory`, where the system can enforce it. Both streams are taken from
    plugins: they print to standard error, and have nothing to read.
    """
    job = json.loads(sys.stdin.buffer.read())
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _bound_memory(job.get("memory", MOST_MEMORY))
    own = os.getpid()
    for each in answers(job):
        text = json.dumps(each).encode() + b"\n"
        while text and os.getpid() == own:  # a plugin that forks comes here twice
            text = text[os.write(answer, text) :]
    os._exit(0)  # what a plugin has started isn't waited for


if __name__ == "__main__":
    answer_job(lambda job: _answers_together(job["together"]) if "together" in job else _answers(job))
