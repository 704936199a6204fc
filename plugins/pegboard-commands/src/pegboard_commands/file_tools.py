"""`FileToolset`: the tools of Python files in folders of the user, reloaded when they change."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from attrs import field, frozen

from pegboard import Problem, ReadonlyContext, Tool, ToolsetBase, ToolsetResult
from pegboard.errors import DefinitionError, PegboardError, cause_of, log_failure
from pegboard.files import read_bounded
from pegboard.threads import run_in_thread
from pegboard.tools import ATTRIBUTE, is_valid_name, tools_from

NAME: Final = "files_of_tools"
FOLDERS: Final = ("tool", "tools")
"""Names of the subfolders with the files."""

LOAD_SECONDS: Final = 3.0
"""How long to wait for all changed files: less than the 5 seconds that a first load gives its toolsets."""

MOST_FILES: Final = 500
_MOST_BYTES: Final = 1_000_000
_LOOK_MS: Final = 2_000
_RUNNING: Final = (
    "it is still loading; its tools are added once it has finished; have its functions import what takes long"
)


@frozen(eq=False)
class _File:
    """A loaded file.

    Attributes:
        stamp: Its times and size, to detect changes.
        module: The name of its module, or `None`.
        tools: Its tools.
        problem: Why it has no tools, or `None`.
        outcome: The file with its tools, once it has ended.
    """

    stamp: tuple[int, ...]
    module: str | None = None
    tools: tuple[Tool, ...] = ()
    problem: str | None = None
    outcome: list[_File] = field(factory=list["_File"])


class FileToolset(ToolsetBase):
    """The tools of the files `{tool,tools}/*.py` in some folders; of two tools of one name, the first counts.

    A tool that is named `default`, or like its file, gets the file's name; others are named `FILE_NAME`, or as in
    `@tool(name=...)`. Files are checked at each listing, and those that have changed are reloaded, in parallel; the
    tools of one that fails are left out, and those of a slow one are added once it has ended.

    Args:
        folders: Absolute paths; `~` is expanded.
        watches: Whether to announce changes as they happen, without a listing.

    Raises:
        ValueError: A folder isn't absolute: the working folder isn't trusted.
    """

    def __init__(self, folders: Sequence[str], *, watches: bool = False) -> None:
        self.name = NAME
        self.folders = tuple(Path(folder).expanduser() for folder in folders)
        for folder in self.folders:
            if not folder.is_absolute():
                raise ValueError(f"folders: {str(folder)!r:.200} isn't an absolute path; begin it with / or ~/")
        self._watches = watches
        self._files: dict[Path, _File] = {}
        self._subscribers: list[Callable[[], None]] = []
        self._end: threading.Event | None = None
        self._looking = threading.Lock()

    @property
    def publishes(self) -> list[str]:
        """The files and the folders that they are in."""
        return [*map(str, self._places()), *map(str, self._find_files())]

    @property
    def identity(self) -> dict[str, list[str]]:
        """The folders with the code of its tools."""
        return {"code": [str(each) for folder in self.folders for name in FOLDERS if (each := folder / name).is_dir()]}

    @property
    def broken(self) -> dict[Path, str]:
        """The files without tools, and why."""
        return {path: file.problem for path, file in self._files.items() if file.problem}

    async def tools(self, context: ReadonlyContext) -> ToolsetResult:
        """The current tools of all files."""
        del context
        await self.refresh()
        files = self._files
        causes = [f"{path}: {problem}" for path, problem in self.broken.items()]
        missing = [folder for folder in self.folders if not folder.is_dir()]
        causes += [f"{folder} is not a folder; create it, or remove it from 'folders'" for folder in missing]
        problems = [Problem(cause) for cause in causes]
        tools: dict[str, Tool] = {}
        for path, file in files.items():
            for tool in file.tools:
                if tools.setdefault(tool.name, tool) is not tool:
                    text = f"{path}: another file also has a tool {tool.name!r}; rename one of them"
                    problems.append(Problem(text, tool.name))
        return ToolsetResult(tools.values(), problems)

    async def refresh(self) -> bool:
        """Reloads changed files; returns whether there were any."""
        return await run_in_thread(self._refresh)

    def _refresh(self) -> bool:
        with self._looking:
            stamps = {path: stamp for path in self._find_files() if (stamp := stamp_of(path)) is not None}
            before = self._files
            files: dict[Path, _File] = {}
            threads: list[threading.Thread] = []
            for path, stamp in stamps.items():
                if path in before and before[path].stamp == stamp:
                    files[path] = before[path]
                else:
                    files[path] = file = _File(stamp, problem=_RUNNING)
                    threads.append(threading.Thread(target=_load, args=[path, file], name=NAME, daemon=True))
            _wait(threads)
            self._files = {path: file.outcome[0] if file.outcome else file for path, file in files.items()}
            if self._files == before:
                return False
            modules = {file.module for file in self._files.values()}
            for file in before.values():
                if file.module is not None and file.module not in modules:
                    sys.modules.pop(file.module, None)
            return True

    def on_change(self, function: Callable[[], None]) -> None:
        """Subscribes a function to changes of the files; the first starts watching if `watches` is set."""
        self._subscribers.append(function)
        if self._watches:
            self.watch()

    def watch(self) -> None:
        """Calls the subscribers whenever a file was added, changed or removed, until it is closed."""
        if self._end is None:
            self._end = threading.Event()
            threading.Thread(target=self._watch, args=[self._end], name=NAME, daemon=True).start()

    def close(self) -> None:
        """Stops watching."""
        if self._end is not None:
            self._end.set()
            self._end = None

    def _watch(self, stop: threading.Event) -> None:
        from watchfiles import watch  # loads anyio

        try:
            while not stop.is_set():
                places = [place for place in self._places() if place.is_dir()]
                if not places:
                    stop.wait(_LOOK_MS / 1_000)
                    continue
                for _ in watch(
                    *places,
                    recursive=False,
                    watch_filter=None,
                    stop_event=stop,
                    debounce=100,
                    step=20,
                    rust_timeout=_LOOK_MS,
                    yield_on_timeout=True,  # detects changes that the system doesn't report
                ):
                    if self._refresh():
                        for subscriber in tuple(self._subscribers):
                            subscriber()
                    if places != [place for place in self._places() if place.is_dir()]:
                        break
        except Exception as error:  # noqa: BLE001  a thread has no caller to raise it to
            log_failure("watching files of tools", error)

    def _places(self) -> Iterator[Path]:
        for folder in self.folders:
            yield folder
            yield from (folder / name for name in FOLDERS)

    def _find_files(self) -> list[Path]:
        found = (path for folder in self.folders for name in FOLDERS for path in sorted((folder / name).glob("*.py")))
        return [path for path in found if not path.name.startswith((".", "_"))][:MOST_FILES]


def stamp_of(path: str | Path) -> tuple[int, ...] | None:
    """What changes when a file does; `None` if it can't be examined."""
    try:
        facts = Path(path).stat()
    except OSError:
        return None
    return (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino)


def _wait(threads: Sequence[threading.Thread]) -> None:
    """Runs threads in parallel, and waits for all of them together; those that don't end are abandoned."""
    deadline = time.monotonic() + LOAD_SECONDS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _load(path: Path, file: _File) -> None:
    """Loads a file; an exception becomes its problem."""
    try:
        outcome = _load_in_thread(path, file.stamp)
    except BaseException as error:  # noqa: BLE001  a file may raise anything
        cause = str(error) if isinstance(error, PegboardError) else cause_of(error)
        outcome = _File(file.stamp, problem=f"{cause}{_line_in(path, error)}")
    file.outcome.append(outcome)


def _line_in(path: Path, error: BaseException) -> str:
    """The line of the file where an exception was raised, as text."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f", line {line}" if line else ""


def _load_in_thread(path: Path, stamp: tuple[int, ...]) -> _File:
    source = read_bounded(str(path), _MOST_BYTES)
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + source).hexdigest()[:16]
    module = ModuleType(f"pegboard_commands_file_{path.stem}_{digest}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # annotations are looked up in it
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102  the user's own file; a bytecode cache would miss a change within a second
        tools = tuple(_tools_of(module, path.stem))
    except BaseException:
        sys.modules.pop(module.__name__, None)
        raise
    return _File(stamp, module.__name__, tools)


def _tools_of(module: ModuleType, file: str) -> Iterator[Tool]:
    """The tools that a module defines, renamed after its file.

    Raises:
        DefinitionError: There is none, or one is invalid.
    """
    found = False
    for export, thing in vars(module).items():
        if export.startswith("_") or not _is_export(export, thing, module, file):
            continue
        for tool in tools_from(thing):
            found = True
            name = file if export in ("default", file) else f"{file}_{export}"
            own = tool.name if tool.name != export else name
            if not is_valid_name(own):
                hint = "Rename the file, or name the tool with @tool(name=...)."
                raise DefinitionError(f"{own!r:.80} can't be a tool's name", hint=hint)
            yield tool if own == tool.name else tool.with_spec(name=own)
    if not found:
        hint = f"Put @tool above a function, or name one 'default' or {file!r}."
        raise DefinitionError("it has no tools", hint=hint)


def _is_export(export: str, thing: Any, module: ModuleType, file: str) -> bool:
    """Whether a module's attribute is a tool that it defines: not an imported function."""
    if isinstance(thing, Tool):
        return True
    if not callable(thing) or getattr(thing, "__module__", None) != module.__name__ or isinstance(thing, type):
        return False
    return hasattr(thing, ATTRIBUTE) or export in ("default", file)
