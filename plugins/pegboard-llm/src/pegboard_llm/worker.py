"""The child process of one of llm's plugins: loads the plugin, lists its tools, and runs them.

Its environment has a job. It reads calls, one a line of JSON, and answers in such lines: the plugin's tools, then a
result for each call. Functions run in the main thread, where the plugin was imported; each toolbox has a thread of its
own, in which it is made, prepared and called. The plugin's code has an empty input, and prints to standard error.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import os
import queue
import re
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import IO, Any, Final, cast

JOB: Final = "PEGBOARD_LLM_JOB"
"""Variable of the environment: the entry point's `name` and `value`, and the `toolboxes`, as JSON."""

_MOST_FILE: Final = 16 << 20
_MOST_TEXT: Final = 2_000  # characters of an error
_SPEC: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*", re.ASCII | re.DOTALL)

Facts = dict[str, Any]


def _llm() -> Any:
    """The module `llm`, which has few types."""
    return import_module("llm")


class SpecError(ValueError):
    """A toolbox in the settings isn't a class with literal arguments."""


def parse_spec(spec: str) -> tuple[str, list[Any], dict[str, Any]]:
    """The class, and the positional and keyword arguments, of a toolbox in llm's notation; nothing is evaluated.

    `Name`, `Name("one JSON value")`, `Name({"key": "value"})` or `Name(key="value", other=2)`.

    Raises:
        SpecError: It isn't written so.
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise SpecError(f'{spec!r:.200} isn\'t a toolbox such as Name or Name("argument")')
    name, body = match[1], (match[2] or "").strip()
    if not body:
        return name, [], {}
    with suppress(ValueError):
        value: Any = json.loads(body)
        if isinstance(value, dict):
            return name, [], cast("dict[str, Any]", value)
        return name, [value], {}
    keywords: dict[str, Any] = {}
    decoder, place = json.JSONDecoder(), 0
    while place < len(body):
        key = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*", re.ASCII).match(body, place)
        try:
            if key is None or key[1] in keywords:
                raise ValueError  # noqa: TRY301  as what isn't JSON raises
            keywords[key[1]], place = decoder.raw_decode(body, key.end())
        except ValueError:
            raise SpecError(f'the arguments of {spec!r:.200} have to be JSON values: "text", 1, true, [...]') from None
        separator = re.compile(r"\s*(,|$)\s*").match(body, place)
        if separator is None:
            raise SpecError(f"{spec!r:.200}: a comma is missing after {key[1]}")
        place = separator.end()
    return name, [], keywords


class Lane:
    """Thread in which one thing after the other runs; coroutines, in one event loop."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._runner: asyncio.Runner | None = None

    def start(self) -> Lane:
        """Runs it in a new thread."""
        threading.Thread(target=self.run, daemon=True).start()
        return self

    def run(self) -> None:
        """Runs it in this thread, until it ends."""
        while (job := self._jobs.get()) is not None:
            job()

    def add(self, job: Callable[[], None] | None) -> None:
        """Adds a job; `None` ends it."""
        self._jobs.put(job)

    def wait(self, value: Any) -> Any:
        """A value of its thread, or what it gives once it was awaited."""
        if not inspect.isawaitable(value):
            return value
        self._runner = self._runner or asyncio.Runner()
        return self._runner.run(_await(value))


async def _await(value: Any) -> Any:
    return await value


class Loaded:
    """What a plugin registers: its functions, toolboxes, and what is wrong with them."""

    def __init__(self, main: Lane) -> None:
        self.main = main
        self.tools: dict[str, tuple[Any, Lane]] = {}
        self.facts: list[Facts] = []
        self.classes: dict[str, type[Any]] = {}
        self.problems: list[str] = []

    def register(self, item: Any, name: str | None = None) -> None:
        """Adds what the plugin registers; a bad one is a problem, and affects no other."""
        llm = _llm()

        what = name or getattr(item, "__name__", None) or getattr(item, "name", None) or type(item).__name__
        try:
            if isinstance(item, type):
                if not issubclass(item, llm.Toolbox):
                    self.problems.append(f"{what} isn't a tool: a class has to be an llm.Toolbox")
                elif self.classes.setdefault(what, item) is not item:
                    self.problems.append(f"it has two toolboxes called {what}; the first is offered")
            elif isinstance(item, llm.Toolbox):
                self.add_box(what, "", lambda: item)
            elif isinstance(item, llm.Tool) or callable(item):
                tool: Any = item if isinstance(item, llm.Tool) else llm.Tool.function(item, name=name)
                self.add(tool, name or tool.name, self.main)
            else:
                self.problems.append(f"{what} isn't a function, an llm.Tool or an llm.Toolbox")
        except BaseException as error:  # noqa: BLE001  a plugin's code may raise anything
            self.problems.append(f"{what} can't be a tool: {cause(error)}")

    def add(self, tool: Any, name: str, lane: Lane, box: str = "") -> None:
        """Adds a tool that runs in a thread."""
        if not callable(tool.implementation):
            self.problems.append(f"{name} runs at a provider or has no implementation")
        elif name in self.tools:
            self.problems.append(f"it has two tools called {name!r:.100}; the first is offered")
        else:
            self.tools[name] = tool, lane
            self.facts.append(
                {
                    "name": name,
                    "description": inspect.cleandoc(tool.description or ""),
                    "schema": tool.input_schema,
                    "box": box,
                }
            )

    def add_box(self, name: str, spec: str, make: Callable[[], Any]) -> None:
        """Makes and prepares a toolbox in a thread of its own, and adds its tools."""
        lane, done = Lane().start(), threading.Event()

        def work() -> None:
            llm = _llm()

            try:
                box = make()
                kind = cast("type[Any]", type(box))
                box.prepare()
                if kind.prepare_async is not llm.Toolbox.prepare_async:
                    lane.wait(box.prepare_async())
                for tool in box.tools():
                    self.add(tool, _box_name(tool.name, name, kind.__name__), lane, spec)
            except BaseException as error:  # noqa: BLE001  likewise
                self.problems.append(f"toolbox {spec or name}: {cause(error)}")
            finally:
                done.set()

        lane.add(work)
        done.wait()

    def add_boxes(self, specs: Iterable[str]) -> list[str]:
        """Adds the toolboxes of the settings, and those that need no arguments; returns the others' names."""
        counts: dict[str, int] = {}
        for spec in specs:
            name, positional, keywords = parse_spec(spec)
            if (kind := self.classes.get(name)) is not None:
                counts[name] = counts.get(name, 0) + 1
                own = name if counts[name] == 1 else f"{name}_{counts[name]}"
                self.add_box(own, spec, partial(kind, *positional, **keywords))
        needy: list[str] = []
        for name, kind in self.classes.items():
            if name not in counts:
                if _needs_arguments(kind):
                    needy.append(name)
                else:
                    self.add_box(name, name, kind)
        return needy


def _box_name(tool: str, box: str, kind: str) -> str:
    """The name of a toolbox's tool: llm's own, with a number for a second toolbox of the same class."""
    return tool if box == kind else f"{box}_{tool.removeprefix(f'{kind}_')}"


def _needs_arguments(kind: type[Any]) -> bool:
    parameters = inspect.signature(kind).parameters.values()
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return any(each.default is each.empty and each.kind not in several for each in parameters)


def cause(error: BaseException) -> str:
    """An exception as a short text."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  an exception of a plugin
        text = ""
    return f"{type(error).__name__}: {text}"[:_MOST_TEXT] if text else type(error).__name__


def _load_others(group: str, name: str | None = None) -> int:
    """Loads all of llm's plugins, where one asks llm for a model: without ours, and without those that fail."""
    del name
    llm = _llm()

    found = [each for each in entry_points(group=group) if not each.value.startswith("pegboard_llm.")]
    for each in found:
        with suppress(BaseException):
            llm.pm.register(each.load(), name=f"{each.name} {each.value}")
    return len(found)


def load(job: Mapping[str, Any], main: Lane) -> tuple[Loaded, Facts]:
    """Loads a plugin and its tools; what it registers beside tools is ignored."""
    import pluggy

    llm = _llm()
    llm.pm.load_setuptools_entrypoints = _load_others
    loaded = Loaded(main)
    manager = pluggy.PluginManager("llm")
    manager.add_hookspecs(import_module("llm.hookspecs"))
    try:
        manager.register(EntryPoint(job["name"], job["value"], "llm").load())
    except BaseException as error:  # noqa: BLE001  likewise
        return loaded, {"failure": cause(error), "trace": _trace(error)}
    try:
        manager.hook.register_tools(register=loaded.register)
    except BaseException as error:  # noqa: BLE001  likewise
        loaded.problems.append(f"register_tools raised {cause(error)}")
    needy = loaded.add_boxes(job["toolboxes"])
    facts = {"tools": loaded.facts, "classes": [*loaded.classes], "needy": needy, "problems": loaded.problems}
    return loaded, facts


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-20_000:]


def run_tool(tool: Any, lane: Lane, call: Mapping[str, Any]) -> Facts:
    """The result of a call, as JSON data: a text with attachments, an error, or a pause."""
    llm = _llm()

    given: Facts = dict(call["arguments"])
    try:
        if "llm_tool_call" in _parameters(tool.implementation):
            given["llm_tool_call"] = llm.ToolCall(tool.name, dict(given), call["call_id"] or None)
        result = lane.wait(tool.implementation(**given))
        attachments: Iterable[Any] = ()
        if isinstance(result, llm.ToolOutput):
            attachments, result = result.attachments, result.output
        return {"text": _text(result), "attachments": [_attachment(each) for each in attachments]}
    except llm.PauseChain as pause:
        return {"pause": str(pause)}
    except llm.CancelToolCall as error:
        return {"error": f"Cancelled: {error}", "trace": ""}
    except BaseException as error:  # noqa: BLE001  a tool may raise anything
        text = cause(error) if not isinstance(error, Exception) or not str(error) else str(error)
        return {"error": text[:_MOST_TEXT], "trace": _trace(error)}


def _parameters(function: Callable[..., Any]) -> Iterable[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()


def _text(result: Any) -> str:
    if isinstance(result, str):
        return str.__str__(result)
    try:
        return json.dumps(result, default=repr)
    except (TypeError, ValueError, RecursionError):  # keys that aren't texts, a circle
        return repr(result)


def _attachment(attachment: Any) -> Facts:
    """An attachment as JSON data; what has a URL only isn't fetched."""
    content, path, url = attachment.content, attachment.path, attachment.url
    if content is None and path:
        with open(path, "rb") as file:  # noqa: PTH123  as llm does: a text
            content = file.read(_MOST_FILE + 1)
    if content is None:
        return {"type": attachment.type, "url": str(url)}
    if len(content) > _MOST_FILE:
        raise ValueError(f"an attachment has more than {_MOST_FILE:,} bytes")
    kind = attachment.type or attachment.resolve_type()
    return {"type": kind, "url": url and str(url), "data": base64.b64encode(content).decode()}


def _take_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The input and output of this process, which from now on has an empty input, and prints to standard error."""
    lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return lines, answers


def _line(facts: Facts) -> bytes:
    try:
        return json.dumps(facts).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        text = f"its answer isn't JSON: {cause(error)}"
        return json.dumps({"id": facts.get("id"), "failure": text, "error": text, "trace": ""}).encode() + b"\n"


def main() -> None:
    """Serves calls until the input ends, and ends the process."""
    lines, answers = _take_streams()
    lock = threading.Lock()

    def answer(facts: Facts) -> None:
        with lock:
            try:
                answers.write(_line(facts))
                answers.flush()
            except OSError:  # a tool has closed the pipe, or nothing reads it
                os._exit(1)

    def run(tool: Any, lane: Lane, call: Facts) -> None:
        answer({"id": call["id"], **run_tool(tool, lane, call)})

    def serve(loaded: Loaded) -> None:
        for line in lines:
            call = json.loads(line)
            tool, lane = loaded.tools.get(call["tool"], (None, own))
            if tool is None:
                answer({"id": call["id"], "gone": True})
            else:
                lane.add(partial(run, tool, lane, call))
        os._exit(0)  # what the plugin has started isn't waited for

    own = Lane()
    loaded, facts = load(json.loads(os.environ.pop(JOB)), own)
    answer(facts)
    if "failure" in facts:
        os._exit(0)
    threading.Thread(target=serve, args=(loaded,), daemon=True).start()
    own.run()
