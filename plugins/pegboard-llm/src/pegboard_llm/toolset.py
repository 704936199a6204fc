"""Toolset with the tools of llm's plugins."""

from __future__ import annotations

import asyncio
import base64
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from attrs import frozen

from pegboard import (
    AudioContent,
    FileContent,
    ImageContent,
    LinkContent,
    Origin,
    PegboardError,
    Problem,
    ReadonlyContext,
    TextContent,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    ToolsetBase,
    ToolsetFunction,
)
from pegboard.config import normalised
from pegboard.errors import cause_of, operator_log
from pegboard.json import unicode_text
from pegboard.text import visible
from pegboard.threads import run_in_thread
from pegboard.toolsets import ToolsetResult, error_text
from pegboard.typing import JsonObject
from pegboard_llm.packages import (
    Cache,
    Package,
    Settings,
    argument_files,
    find_packages,
    site_folders,
    spec_problems,
    specs_of,
)
from pegboard_llm.process import Worker, WorkerError

_WAIT_SECONDS: Final = 4.0  # `registry list` gives a toolset five
_AT_ONCE: Final = 4


@frozen(eq=False)
class _Listing:
    """The tools of the packages that are known, and those that are still to be loaded."""

    offer: ToolsetResult
    missing: Sequence[Package]


class LlmToolset(ToolsetBase):
    """Toolset with the tools of llm's plugins, each loaded and run in a child process of its own.

    What a plugin has is cached: its process starts at the first call of one of its tools.

    Args:
        settings: The plugin's settings.
    """

    name = "llm"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._changed: list[Callable[[], None]] = []
        self._tools: dict[str, Tool] = {}
        self._listing: _Listing | None = None
        self._loading: threading.Thread | None = None
        self._workers: dict[str, Worker] = {}
        self._lock = threading.Lock()

    @property
    def publishes(self) -> list[str]:
        """The files that a change of its tools changes: where packages are installed, their code, its cache."""
        sources = [each.source for each in self._packages() if each.source is not None]
        files = [path for spec in self.settings.toolboxes for path in argument_files(spec)]
        return [*dict.fromkeys([*site_folders(), *sources, *files, Cache().marker])]

    def on_change(self, function: Callable[[], None]) -> None:
        """Subscribes a function to changes of the tools."""
        self._changed.append(function)

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The tools of all packages; those that take long to load for the first time follow later."""
        del context
        listing = self._listing
        if listing is None or listing.missing:
            await run_in_thread(self._load, _WAIT_SECONDS)
            listing = self._listing = await run_in_thread(self._list)
        return listing.offer

    def load(self) -> None:
        """Loads every package that isn't known, and waits for it."""
        self._load(None)

    def _load(self, seconds: float | None) -> None:
        with self._lock:
            if self._loading is None or not self._loading.is_alive():
                self._loading = threading.Thread(target=self._load_missing, daemon=True)
                self._loading.start()
            loading = self._loading
        loading.join(seconds)

    def _load_missing(self) -> None:
        """Loads the packages that aren't known, each in a child process, a few at a time."""
        known = self.packages()
        missing = [package for package, facts in known if facts is None]
        if missing:
            asyncio.run(_load_all(missing, [package for package, _ in known], self.settings))
            Cache().touch(create=False)
            for function in tuple(self._changed) if self._listing is not None else ():
                function()

    def _packages(self) -> list[Package]:
        return [each for each in find_packages() if normalised(each.distribution) not in self.settings.exclude]

    def packages(self) -> list[tuple[Package, JsonObject | None]]:
        """The installed packages, and what was found in each; `None` for one that wasn't loaded yet."""
        cache = Cache()
        return [(each, cache.get(each, self.settings)) for each in self._packages()]

    async def close(self) -> None:
        """Ends the child processes."""
        with self._lock:
            workers, self._workers = [*self._workers.values()], {}
        for worker in workers:
            worker.end()

    # Listing ---------------------------------------------------------------------------------------------------------

    def _list(self) -> _Listing:
        known = self.packages()
        missing = [package for package, facts in known if facts is None]
        found = [(package, facts) for package, facts in known if facts is not None]
        classes = sorted({name for _, facts in found for name in facts.get("classes", ())})
        problems = [Problem(text) for text in spec_problems(self.settings, None if missing else classes)]
        if missing:
            Cache().touch(create=True)
        problems += [Problem(f"{each.label} is still loading: 'registry llm' waits for it") for each in missing]
        for package, facts in found:
            problems += [Problem(f"{package.label}: {visible(text)}") for text in _problems_of(facts)]
            for name in facts.get("needy", ()):
                hint = f"{package.label}: {name} needs arguments: toolboxes = ['{name}(\"...\")'] in [plugins.llm]"
                problems.append(Problem(hint, note=True))
        before, self._tools = self._tools, {}
        tools = [*self._make_all(found, before, problems)]
        return _Listing(ToolsetResult(tools, problems), missing)

    def _make_all(
        self, found: Sequence[tuple[Package, JsonObject]], before: Mapping[str, Tool], problems: list[Problem]
    ) -> Iterable[Tool]:
        """The tools of these packages; the same object for the same tool each time."""
        owners: dict[str, list[str]] = {}
        for package, facts in found:
            for each in facts.get("tools", ()):
                owners.setdefault(each["name"], []).append(package.label)
        for name, packages in owners.items():
            if len(packages) > 1:
                text = f"{name!r:.100} is in {' and '.join(packages)}: each has its package's name before it"
                problems.append(Problem(text, note=True))
        for package, facts in found:
            for each in facts.get("tools", ()):
                name = each["name"]
                offered = _add_prefix(package, name) if len(owners[name]) > 1 else name
                key = f"{offered} {facts['identity']}"
                try:
                    self._tools[key] = before.get(key) or self._make(package, each, offered)
                except (PegboardError, ValueError, TypeError, RecursionError) as error:
                    text = f"{package.label}: tool {visible(name)[:80]!r} is refused: {error_text(error)}"
                    problems.append(Problem(text, offered, error=error))
                else:
                    yield self._tools[key]

    def _make(self, package: Package, facts: JsonObject, name: str) -> Tool:
        own: str = facts["name"]
        description = facts["description"]
        if facts["box"].partition("(")[0].strip() != facts["box"].strip():
            description = f"{description.strip()}\n\nOf {visible(facts['box'])[:200]}".strip()
        tool = Tool.from_schema(
            name,
            facts["schema"] or None,
            partial(self._call, package, own),
            description=description,
            tags=[package.distribution],
            skip_patterns=True,
        )
        trusted = self.settings.trusts(package.distribution, own)
        if name != own:
            tool = tool.with_spec(original_name=own)
        return tool.evolve(origin=Origin(source=package.distribution, trusted=trusted))

    # Calls -----------------------------------------------------------------------------------------------------------

    def _worker(self, package: Package) -> Worker:
        with self._lock:
            worker = self._workers.get(package.key)
            if worker is None or not worker.is_usable:
                facts = Cache().get(package, self.settings) or {}
                worker = self._workers[package.key] = Worker(package, _valid(specs_of(facts, self.settings)))
            return worker

    async def _call(
        self, package: Package, tool: str, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResult:
        worker = await run_in_thread(self._worker, package)
        try:
            answer = await worker.call(tool, arguments, context.call_id)
        except WorkerError as error:
            operator_log().warning("llm's %s: %s\n%s", package.label, error, worker.output_tail)
            text = f"The outcome of {context.tool} is unknown: {package.label} didn't answer ({error})."
            return ToolResult.error("unknown_outcome", text, detail=worker.output_tail)
        if "pause" in answer:
            confirmation = context.confirmation
            if confirmation is not None and not confirmation.confirmed:
                raise ToolError(f"{context.tool} was paused, and the user didn't let it go on.")
            context.suspend(visible(answer["pause"]) or f"{context.tool} has paused. Run it again?")
        if "failure" in answer or "gone" in answer:
            cause = answer.get("failure", "it doesn't have this tool any more")
            raise ToolError(f"{context.tool} was not run: {package.label}: {visible(cause)}")
        if "error" in answer:
            return ToolResult.error("tool_failure", unicode_text(answer["error"]), detail=answer["trace"])
        parts = [_content(each, number) for number, each in enumerate(answer["attachments"])]
        return ToolResult([TextContent(unicode_text(answer["text"])), *parts])  # pyright: ignore[reportArgumentType]


async def _load_all(missing: Sequence[Package], packages: Sequence[Package], settings: Settings) -> None:
    """Loads packages, a few at a time, and stores what was found in each as soon as it is known."""
    cache, turns = Cache(), asyncio.Semaphore(min(os.cpu_count() or 1, _AT_ONCE))

    async def load(package: Package) -> None:
        async with turns:
            worker = Worker(package, _valid(settings.toolboxes))
            try:
                facts = await worker.load()
            except WorkerError as error:
                facts: JsonObject = {"failure": str(error), "trace": worker.output_tail}
            finally:
                worker.end()
        if "failure" in facts:
            trace = facts.pop("trace", "")
            operator_log().debug("llm's %s can't be loaded: %s\n%s", package.label, facts["failure"], trace)
        cache.put(package, settings, facts)
        cache.write(packages)

    await asyncio.gather(*map(load, missing))


def _valid(specs: Iterable[str]) -> list[str]:
    return [each for each in specs if not spec_problems(Settings((each,)), None)]


def _problems_of(facts: Mapping[str, Any]) -> list[str]:
    failure = facts.get("failure")
    return [f"it can't be loaded: {failure}"] if failure is not None else list(facts.get("problems", ()))


def _add_prefix(package: Package, name: str) -> str:
    return f"{normalised(package.label).replace('-', '_')}__{name}"


def _content(attachment: Mapping[str, Any], number: int) -> Any:
    """An attachment as content."""
    kind, url = attachment["type"] or "application/octet-stream", attachment["url"]
    if "data" not in attachment:
        return LinkContent(unicode_text(url), unicode_text(url.rpartition("/")[2] or url), attachment["type"])
    data = base64.b64decode(attachment["data"])
    if kind.startswith("image/"):
        return ImageContent(data, kind)
    if kind.startswith("audio/"):
        return AudioContent(data, kind)
    return FileContent(unicode_text(url or f"attachment:{number + 1}"), data, kind)


def llm_toolset(**settings: Any) -> LlmToolset:
    """The tools of llm's installed plugins, for `registry.register`.

    Args:
        settings: `toolboxes`, `trust` and `exclude`, as in `Settings`.

    Raises:
        ValueError: A setting is unknown or wrong.
    """
    return LlmToolset(Settings.of(settings))


def toolset_from(settings: Mapping[str, Any]) -> ToolsetBase:
    """The toolset of the plugin's settings; one that reports what is wrong with them."""
    try:
        return llm_toolset(**settings)
    except ValueError as error:  # raised here, it would disable the plugin's command
        faults = [Problem(cause_of(error))]
        return ToolsetFunction("llm", lambda: ToolsetResult((), faults), publishes=())
