"""The first load of a plugin without a manifest: in a child process of its own, with limits on time and memory.

`python -m pegboard.plugins.probe` reads one job on standard input and answers on standard output; both are files, so
that nothing which a plugin starts or forks can be waited for. What a plugin prints goes nowhere.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Final

from attrs import define, evolve, field, frozen

from pegboard.errors import ManifestError, cause_of, hide
from pegboard.plugins.side_effects import LOAD_SECONDS
from pegboard.plugins.snapshot import stamp_of

if TYPE_CHECKING:
    from pegboard.catalogue import PublishedTools
    from pegboard.plugins.discovery import FoundPlugin
    from pegboard.plugins.manager import LoadedPlugin
    from pegboard.plugins.manifest import PluginManifest
    from pegboard.toolsets.toolset import Offer, OwnedToolset

_AT_ONCE: Final = 4
_PUBLISH_SECONDS: Final = 5.0  # that the toolsets of one plugin have for what they publish
_CLOSE_SECONDS: Final = 3.0
_MOST_MEMORY: Final = 4 << 30
"""Bytes of data that a plugin may take while it is loaded, where the system can hold it to that."""


@frozen
class Probed:
    """Outcome of loading one plugin in a child process.

    Attributes:
        found: The plugin.
        manifest: What it brings, or `None` where it failed as a whole.
        cause: Why it failed, or `None`.
    """

    found: FoundPlugin
    manifest: PluginManifest | None
    cause: str | None


def probe(
    plugins: Sequence[FoundPlugin],
    settings: Mapping[str, Mapping[str, Any]],
    *,
    seconds: float = LOAD_SECONDS,
    seconds_for_all: float = math.inf,
    progress: Callable[[int, str], None] | None = None,
) -> Iterator[Probed]:
    """Loads plugins in child processes, a few at a time.

    Args:
        plugins: What to load.
        settings: The settings by plugin name.
        seconds: How long one may take.
        seconds_for_all: For how long another is begun.
        progress: Called with the number and the name of each before it is loaded.

    Yields:
        One answer a plugin, in order; none for those that weren't begun.
    """
    waiting = deque(enumerate(plugins))
    started = monotonic()
    running: deque[_Child | Probed] = deque()
    try:
        while waiting or running:
            if monotonic() - started > seconds_for_all:
                waiting.clear()
            while waiting and len(running) < _AT_ONCE:
                number, found = waiting.popleft()
                if progress is not None:
                    progress(number, found.name)
                try:
                    running.append(_Child.start(found, settings.get(found.name, {})))
                except OSError as error:  # no temporary file, or no process
                    running.append(Probed(found, None, f"can't be loaded in a child process: {error}"))
            if running:
                first = running[0]
                yield first if isinstance(first, Probed) else first.answered(seconds)
                running.popleft()
    finally:
        for child in running:
            if isinstance(child, _Child):
                child.end()


@define(eq=False)
class _Child:
    """A child process that loads one plugin."""

    found: FoundPlugin
    process: subprocess.Popen[bytes]
    answer: IO[bytes]
    started: float = field(factory=monotonic)

    @classmethod
    def start(cls, found: FoundPlugin, settings: Mapping[str, Any]) -> _Child:
        job = {
            "plugin": found.name,
            "distribution": found.distribution,
            "version": found.version,
            "module": found.module,
            "attribute": found.attribute,
            "settings": dict(settings),
        }
        answer = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        with tempfile.TemporaryFile() as jobs:
            jobs.write(json.dumps(job, default=str).encode())  # TOML has dates
            jobs.seek(0)
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pegboard.plugins.probe"],  # -P: no import from the current folder
                stdin=jobs,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))},
                start_new_session=True,
            )
        return cls(found, process, answer)

    def answered(self, seconds: float) -> Probed:
        """What came of it, at most so many seconds after its start."""
        from pegboard.plugins.manifest import PluginManifest

        try:
            code = self.process.wait(max(self.started + seconds - monotonic(), 0.0))
            self.answer.seek(0)
            text = self.answer.read()
            if not text:
                return Probed(self.found, None, f"ended the process while it was loaded (exit code {code})")
            answer = json.loads(text)
            if "cause" in answer:
                return Probed(self.found, None, str(answer["cause"]))
            return Probed(self.found, PluginManifest.from_json(answer["manifest"]), None)
        except subprocess.TimeoutExpired:
            return Probed(self.found, None, f"took longer than {seconds:g} s to load")
        except (ManifestError, ValueError, TypeError, KeyError) as error:
            return Probed(self.found, None, str(error))
        finally:
            self.end()

    def end(self) -> None:
        """Ends the child and whatever its plugin has started."""
        with suppress(OSError):  # it may have ended, with all its own
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait()
        self.answer.close()


def _answered(job: Mapping[str, Any]) -> dict[str, Any]:
    from pegboard.plugins.manager import gathered, imported, manifest_of
    from pegboard.tools.spec import Origin

    notes: list[str] = []
    try:
        # in a thread, as where it is used: an import that works in the main thread only is found out here
        fetch = partial(imported, job["module"], job["attribute"])
        origin = Origin(job["plugin"], job["distribution"], job["version"])
        loaded = gathered(origin, fetch, job["settings"], notes, threading.TIMEOUT_MAX)
        published = _published(loaded)
        return {"manifest": evolve(manifest_of(loaded), published=published, notes=tuple(notes)).to_json()}
    except BaseException as error:  # noqa: BLE001  whatever the plugin raises is its answer
        return {"cause": cause_of(error)}


def _published(loaded: LoadedPlugin) -> PublishedTools | None:
    """What the plugin's toolsets publish, asked once and closed; what goes wrong is among its faults."""
    from pegboard.catalogue import PublishedTools
    from pegboard.toolsets.toolset import published_files

    files: dict[str, str] = {}
    publishing: list[OwnedToolset] = []
    for toolset in loaded.toolsets:
        try:
            paths = published_files(toolset)
        except Exception as error:  # noqa: BLE001  reading the attribute of a plugin's object
            loaded.faults.append(f"toolset {toolset.name!r}: {hide(cause_of(error), loaded.secrets)}")
            continue
        if paths is not None:
            publishing.append(toolset)
            files |= {path: stamp_of(os.fsencode(path)).decode() for path in paths}
    if not publishing:
        return None
    import asyncio  # most plugins have nothing to ask

    offers = asyncio.run(_asked(publishing))
    problems = [problem for offer in offers for problem in offer.problems if not problem.note]
    loaded.faults += [hide(str(problem), loaded.secrets) for problem in problems]
    failed = any(offer.has_failed and not offer for offer in offers)
    return PublishedTools(tuple(tool.evolve(handler=None) for offer in offers for tool in offer), files, failed)


async def _asked(toolsets: Sequence[OwnedToolset]) -> list[Offer]:
    import asyncio

    from pegboard.tools.context import EMPTY_CONTEXT
    from pegboard.toolsets.toolset import ToolsetAdapter, ask_all, close_all

    try:
        return await ask_all([ToolsetAdapter(toolset) for toolset in toolsets], EMPTY_CONTEXT, _PUBLISH_SECONDS)
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(close_all(toolsets), _CLOSE_SECONDS)


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _MOST_MEMORY if hard == resource.RLIM_INFINITY else min(_MOST_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def main() -> None:
    """Keeps both streams to itself: plugins print to standard error, and have nothing to read."""
    job = json.loads(sys.stdin.buffer.read())
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _bound_memory()
    own = os.getpid()
    text = json.dumps(_answered(job)).encode()
    if os.getpid() == own:  # a plugin that forks comes here twice
        while text:
            text = text[os.write(answer, text) :]
    os._exit(0)  # what a plugin has started isn't waited for


if __name__ == "__main__":
    main()
