"""The first load of a plugin without a manifest: in a child process, with a time limit each.

`python -m pegboard.plugins.probe` reads one job a line on standard input and answers one line each. What a plugin
prints goes to standard error. A plugin that crashes, exits or hangs costs the child; the next one gets a new child.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from attrs import define, field, frozen

from pegboard.errors import ManifestError
from pegboard.plugins.manager import LOAD_SECONDS

if TYPE_CHECKING:
    from pegboard.plugins.discovery import FoundPlugin
    from pegboard.plugins.manifest import PluginManifest


@frozen
class Probed:
    """What came of loading one plugin in a child process.

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
    progress: Callable[[int, str], None] | None = None,
) -> Iterator[Probed]:
    """Loads plugins in a child process, one after the other.

    Args:
        plugins: What to load.
        settings: The settings by plugin name.
        seconds: How long one may take.
        progress: Called with the number and the name of each before it is loaded.

    Yields:
        One answer a plugin, in order.
    """
    child: _Child | None = None
    try:
        for number, found in enumerate(plugins):
            if progress is not None:
                progress(number, found.name)
            if child is None or child.ended:
                child = _Child.start()
            yield _probed(child, found, settings.get(found.name, {}), seconds)
    finally:
        if child is not None:
            child.end()


def _probed(child: _Child, found: FoundPlugin, settings: Mapping[str, Any], seconds: float) -> Probed:
    from pegboard.plugins.manifest import PluginManifest

    job = {
        "plugin": found.name,
        "distribution": found.distribution,
        "version": found.version,
        "module": found.module,
        "attribute": found.attribute,
        "settings": dict(settings),
    }
    try:
        answer = child.ask(job, seconds)
        if "cause" in answer:
            return Probed(found, None, str(answer["cause"]))
        return Probed(found, PluginManifest.from_json(answer["manifest"]), None)
    except (TimeoutError, EOFError, ManifestError, ValueError, TypeError, KeyError) as error:
        child.end()
        return Probed(found, None, str(error))


@define(eq=False)
class _Child:
    """A child process that answers jobs."""

    process: subprocess.Popen[bytes]
    answers: queue.SimpleQueue[bytes] = field(factory=queue.SimpleQueue[bytes])
    ended: bool = False

    @classmethod
    def start(cls) -> _Child:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pegboard.plugins.probe"],  # -P: nothing is imported from the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))},
        )
        child = cls(process)
        assert process.stdout is not None
        threading.Thread(target=child.read, args=(process.stdout,), daemon=True).start()
        return child

    def read(self, stream: IO[bytes]) -> None:
        """Passes the child's answers on, and an empty one at its end; runs in a thread of its own."""
        for line in stream:
            self.answers.put(line)
        self.answers.put(b"")

    def ask(self, job: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The answer to one job.

        Raises:
            TimeoutError: None came in time.
            EOFError: The child ended instead.
            ValueError: What came isn't an answer.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
            line = self.answers.get(timeout=seconds)
        except BrokenPipeError:
            line = b""
        except queue.Empty:
            raise TimeoutError(f"took longer than {seconds:g} s to load") from None
        if not line:
            raise EOFError(f"ended the process while it was loaded (exit code {self.process.wait()})")
        return json.loads(line)

    def end(self) -> None:
        """Ends the child; a second time does nothing."""
        if self.ended:
            return
        self.ended = True
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue


def answer_jobs(jobs: IO[str], answers: IO[str]) -> None:
    """The child's side: one answer a job, until there are no more jobs."""
    for line in jobs:
        answers.write(json.dumps(_answered(json.loads(line))) + "\n")
        answers.flush()


def _answered(job: Mapping[str, Any]) -> dict[str, Any]:
    from pegboard.errors import cause_of
    from pegboard.plugins.manager import gather, imported, manifest_of

    try:
        loaded = gather(job["plugin"], imported(job["module"], job["attribute"]), job["settings"])
        return {"manifest": manifest_of(loaded, job["distribution"], job["version"]).to_json()}
    except BaseException as error:  # noqa: BLE001  whatever the plugin raises is its answer
        return {"cause": cause_of(error)}


def main() -> None:
    """Keeps both streams to itself: plugins print to standard error, and have nothing to read."""
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    answer_jobs(jobs, answers)


if __name__ == "__main__":
    main()
