"""`check_plugin`: checks whether a plugin fulfils the contract."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import define, field, frozen

from pegboard.dispatch.permissions.permissions import Permissions
from pegboard.errors import FatalToolError, PluginError, SchemaError, cause_of
from pegboard.json import count_text, is_array, is_object, json_text, problem
from pegboard.plugins.discovery import FoundPlugin
from pegboard.plugins.imports import plugin_uses
from pegboard.plugins.manifest import PluginManifest, read_manifest
from pegboard.plugins.plugin import Plugin, load_plugin
from pegboard.plugins.probe import manifest_of, probe_plugins
from pegboard.plugins.side_effects import LOAD_SECONDS, run_in_thread
from pegboard.schema.references import References
from pegboard.schema.validator import Validator, lint_schema
from pegboard.testing.calls import Subject, plugin_registry, subject_of
from pegboard.testing.samples import NoSampleError, Samples
from pegboard.timeout import Deadline, Watchdog, within
from pegboard.tools.content import ToolResult
from pegboard.tools.spec import ToolSpec

if TYPE_CHECKING:
    from pegboard.registry import ToolRegistry
    from pegboard.tools.tool import Tool
    from pegboard.typing import JsonSchema

HEAVY: Final = (
    *("PIL", "aiohttp", "anthropic", "boto3", "cattrs", "httpx", "jsonschema", "matplotlib", "numpy", "openai"),
    *("pandas", "pydantic", "requests", "scipy", "sklearn", "sqlalchemy", "tensorflow", "torch", "transformers"),
)
"""Packages that take 0.1 s or more to import, or megabytes, which a plugin should import only in a call."""
_IMPORT_SECONDS: Final = 60.0
_SCRIPT: Final = """
import sys, importlib
from pegboard import Tool, ToolRegistry, hookimpl, tool
before = set(sys.modules)
importlib.import_module(sys.argv[1])
sys.__stdout__.write("\\n" + " ".join(set(sys.modules) - before))
"""
_BREAKS: Final = ("invalid_output", "timeout", "crashed", "callback_failure", "aborted")
"""Kinds of error that a call with valid arguments must not end in."""
_OTHERS: Final[tuple[Any, ...]] = (  # values of every kind, small and large
    *("text", "", "a" * 10_001, -(2**40), 0, 1, 2**40, 1.5, True, None),
    *([], ["text"], {}, {"key": "text"}),
)
_RETRIES: Final = 3  # of an example that blocked the event loop: it may have imported something, or the machine is busy
_MOST_LEVELS: Final = 6
_MOST_INVALID: Final = 500  # invalid arguments of one tool; some 2 us each
_MOST_LISTED: Final = 3
_MOST_SHOWN: Final = 200


@frozen
class Report:
    """The report of `check_plugin` on a plugin that fulfils the contract.

    Attributes:
        plugin: Its name.
        tools: The names of the tools that were checked, in the order in which it registers them.
        tried: How many sets of arguments the tools' checks were tried with.
        ran: How many declared examples were run; 0 with `run_examples=False`.
        warnings: What a model or a user would miss; nothing breaks.
        notes: What could not be checked, and why.
    """

    plugin: str
    tools: tuple[str, ...] = ()
    tried: int = 0
    ran: int = 0
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A line of figures, then one line for each warning and note."""
        figures = (
            count_text(len(self.tools), "tool"),
            f"{count_text(self.tried, 'set')} of arguments tried",
            f"{count_text(self.ran, 'example')} run",
        )
        head = f"plugin {self.plugin!r} keeps the contract: {', '.join(figures)}"
        lines = [*(f"warning: {text}" for text in self.warnings), *(f"note: {text}" for text in self.notes)]
        return "\n".join([head, *lines])


@define(eq=False)
class PluginCheck:
    """The checks of one plugin, and what they find; most fields become those of the `Report`."""

    subject: Subject
    settings: Mapping[str, Any] = field(factory=dict[str, Any])
    # violations of the contract, a sentence each: which thing, what is wrong, what to do
    errors: list[str] = field(factory=list[str])
    warnings: list[str] = field(factory=list[str])
    notes: list[str] = field(factory=list[str])
    tools: list[str] = field(factory=list[str])
    tried: int = 0
    ran: int = 0

    def error(self, text: str) -> None:
        """Records a violation of the contract, unless it is recorded already."""
        if text not in self.errors:
            self.errors.append(text)

    def report(self) -> Report:
        """The report; an `AssertionError` lists all violations, if there are any."""
        __tracebackhide__ = True  # pytest shows the author's line, not ours
        name = self.subject.name
        if self.errors:
            items = (f"  {number}. {text}".replace("\n", "\n     ") for number, text in enumerate(self.errors, 1))
            head = f"plugin {name!r} breaks the contract ({len(self.errors)} found):"
            raise AssertionError("\n".join([head, *items]))
        return Report(name, tuple(self.tools), self.tried, self.ran, tuple(self.warnings), tuple(self.notes))

    def check_loading(self) -> Plugin | None:
        """Loads the plugin as a registry does; `None` if that failed."""
        try:
            loaded = run_in_thread(LOAD_SECONDS, self._load, self.settings)
            manifest = run_in_thread(LOAD_SECONDS, manifest_of, loaded)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
            self.error(f"it doesn't load: {cause_of(error)}")
            return None
        for fault in loaded.faults:
            self.error(f"it loads only in part: {fault}")
        if not loaded.implementations and not loaded.faults:
            self.error("it has no hooks: mark a function pegboard_register_tools(register) with @hookimpl")
        elif not loaded.faults:
            if manifest.brings_nothing:
                self.warnings.append("it registers nothing with these settings; call register(...) in its hooks")
            self._check_copies(manifest)
        return loaded

    def _load(self, settings: Mapping[str, Any]) -> Plugin:
        return load_plugin(self.subject.origin, self.subject.thing, settings)

    def _check_copies(self, manifest: PluginManifest) -> None:
        """Compares it with what loading it again gives: here, in a new process, and for the manifest it ships."""
        try:
            advice = "what it registers must not depend on what was registered before, on the clock or on chance"
            again = manifest_of(self._load(self.settings))
            self._compare("it isn't the same each time it loads", again, manifest, advice)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
            self.error(f"it loads only once: a second registry in the same process gets {cause_of(error)}")
        if (found := self.subject.found) is None:
            return
        for _, fresh in probe_plugins([found], {found.name: self.settings}):
            if fresh.failure is not None:
                self.error(f"it doesn't load in a process of its own: {fresh.failure}")
            else:  # sets and hashes have another order there
                advice = "sort what comes from sets, and leave out times, ids and paths"
                self._compare("another process gets something else", fresh, manifest, advice)
        try:
            if (shipped := read_manifest(found)) is not None:
                advice = "run 'registry manifest write'"
                self._compare("its manifest differs from its code", manifest_of(self._load({})), shipped, advice)
        except Exception as error:  # noqa: BLE001  a plugin's code may raise anything
            self.error(f"its manifest can't be compared with its code, which is loaded without settings: {error}")

    def _compare(self, head: str, new: PluginManifest, old: PluginManifest, advice: str) -> None:
        for difference in new.differences(old):
            self.error(f"{head}: {difference}; {advice}")

    def check_budget(self, heavy: Iterable[str] = HEAVY, most_modules: int | None = None) -> None:
        """Imports its module, if it has one, in a fresh process and checks what it loads besides pegboard."""
        heavy, module = tuple(heavy), self.subject.module
        if module is None or (not heavy and most_modules is None):
            return
        path = os.pathsep.join(entry for entry in sys.path if entry)
        try:
            done = subprocess.run(  # noqa: S603  this interpreter, a module that is imported here already
                [sys.executable, "-c", _SCRIPT, module],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_IMPORT_SECONDS,
                check=True,
                env={**os.environ, "PYTHONPATH": path},
            )
        except subprocess.SubprocessError as error:
            cause = f"it took longer than {_IMPORT_SECONDS:g} s"
            if isinstance(error, subprocess.CalledProcessError):  # the exception is its last line
                cause = error.stderr.rstrip("\n").rpartition("\n")[2] or "the process ended while it was imported"
            self.notes.append(f"its import couldn't be measured in a process of its own: {cause}")
            return
        loaded = done.stdout.rpartition("\n")[2].split()
        for package in heavy:
            if package in loaded:
                advice = "import it inside the function that needs it, or pass heavy=... without it"
                self.error(f"importing {module} loads {package!r}, which is heavy and delays all other tools: {advice}")
        if most_modules is not None and len(loaded) > most_modules:
            advice = "import what only calls need inside the functions that need it"
            self.error(f"importing {module} loads {len(loaded)} modules, more than {most_modules}: {advice}")

    def check_spec(self, spec: ToolSpec) -> None:
        """Checks a tool's description, annotations, schemas and the descriptions of its parameters."""
        called = f"tool {spec.name!r}"
        if not spec.description.strip() and spec.kind != "provider":
            self.error(f"{called} has no description: a model can't tell what it is for; give it a docstring")
        if spec.annotations.read_only_hint and spec.annotations.destructive_hint:
            self.error(f"{called} is marked both read-only and destructive: remove one of the two")
        self.warnings += [f"{called}: {text}" for text in schema_problems(spec)]
        references = References(spec.input_schema)
        undescribed = [
            repr(name)
            for name, rule in spec.input_schema.get("properties", {}).items()
            if spec.kind == "function" and is_object(rule)
            if "const" not in rule and not any(map(rule.get, ("description", "title", "enum")))
            if not any(is_object(target) and "description" in target for target in references.targets(rule))
        ]
        if undescribed:
            advice = "give one in the docstring (Args:), or as Annotated[..., 'text']"
            self.warnings.append(f"{called}: no description for {', '.join(undescribed)}; {advice}")

    def check_examples(self) -> None:
        """Runs each example of each tool that is marked read-only."""
        name = self.subject.name
        try:
            registry = plugin_registry(settings={name: self.settings}, **{name: self.subject.thing})
        except PluginError as error:
            self.error(f"it can't be registered for its examples: {error.cause}")
            return
        registry.permissions = Permissions(mode="bypass")  # the examples are the author's own
        asyncio.run(self._run_examples(registry))

    async def _run_examples(self, registry: ToolRegistry) -> None:
        async with registry:
            for tool in registry.tools():
                called, examples = f"tool {tool.name!r}", tool.spec.examples
                if not tool.spec.annotations.read_only_hint or tool.handler is None:
                    if examples:
                        self.notes.append(f"{called} isn't marked read-only, so its examples weren't run")
                    continue
                if not examples:
                    self.notes.append(f"{called} declares no examples (examples=[...]), so it wasn't run")
                for number, example in enumerate(examples, 1):
                    await self._run_example(registry, tool, f"{called}, example {number}", example)

    async def _run_example(self, registry: ToolRegistry, tool: Tool, called: str, example: Mapping[str, Any]) -> None:
        self.ran += 1
        try:
            result, blocked = await _watch(registry, tool, example)
            for _ in range(_RETRIES):
                if not blocked:
                    break
                _, blocked = await _watch(registry, tool, example)
        except FatalToolError as error:
            self.error(f"{called}: it ends the turn: {error}")
            return
        for seconds, place in blocked[:1]:
            blocks = f"it blocks the event loop and all other calls, for {seconds:.1f} s or more{place}"
            advice = "await what it waits for, or make it a plain function, which runs in a thread"
            self.error(f"{called}: {blocks}; {advice}")
        if (cause := contract_violation(result)) is not None:
            advice = "raise ToolError for errors that the model should read, and fix the others"
            self.error(f"{called}: {cause}; {advice}")
        elif result.is_error:
            self.notes.append(f"{called}: its result is an error ({result.kind}): {result.text[:200]}")

    def check_arguments(self, tool: Tool) -> None:
        """Tries a tool's check with ordinary, boundary and invalid arguments; the tool itself never runs."""
        called, spec = f"tool {tool.name!r}", tool.spec
        examples = [self._problems_of(example, tool) for example in spec.examples]
        for number, problems in enumerate(examples, 1):
            if problems:
                refusal = f"its own example {number} is refused ({_join(problems)})"
                self.error(f"{called}: {refusal}: fix the example, or what refuses it")
        samples = list[Any]()
        with suppress(NoSampleError):
            samples += Samples(spec.input_schema, tool.validator.accepts).of()
        tried = [(sample, self._problems_of(sample, tool)) for sample in samples]
        refused = [f"{short_text(sample)}: {_join(problems)}" for sample, problems in tried if problems]
        accepted = not all(examples) or any(problems == () for _, problems in tried)
        if not samples:
            none = "no arguments were found that fit its input schema, so only its examples were tried"
            self.notes.append(f"{called}: {none}; declare some (examples=[...])")
        elif refused and not accepted:
            refuses = "it refuses all arguments that were tried, though they fit its input schema, such as"
            advice = "put its rules into the schema (Annotated[...], an enum, a pattern), or declare an example"
            self.error(f"{called}: {refuses} {refused[0]}; {advice} (examples=[...])")
        elif refused and spec.grammar is None:  # a grammar expresses what the schema can't
            refuses = f"it refuses {len(refused)} of {len(samples)} arguments that fit its input schema"
            advice = "put the rule into the schema, if that can express it"
            self.warnings.append(f"{called}: {refuses}, which no model can know, such as {refused[0]}; {advice}")
        for known in islice((*samples, *spec.examples), 1):
            for text in islice(self._wrongly_accepted(known, tool), _MOST_LISTED):
                self.error(f"{called} accepts what its input schema forbids: {text}")

    def _problems_of(self, arguments: Mapping[str, Any], tool: Tool) -> tuple[str, ...] | None:
        """The problems that a tool's check finds; `None` if it raised instead, which is recorded as an error."""
        self.tried += 1
        try:
            return tool.check(arguments)
        except Exception as error:  # noqa: BLE001  a tool's own code may raise anything
            failed = f"validating {short_text(dict(arguments))} raised {cause_of(error)}"
            advice = "its check (and the types of its arguments) must return problems or raise ValueError, never crash"
            self.error(f"tool {tool.name!r}: {failed}; {advice}")
            return None

    def _wrongly_accepted(self, known: Mapping[str, Any], tool: Tool) -> Iterator[str]:
        """Values near a known one that are accepted, though the schema, read as JSON Schema 2020-12, forbids them."""
        schema = dict(tool.spec.input_schema)
        draft = f"the draft that it names ({schema.pop('$schema')})" if "$schema" in schema else "its check"
        try:
            reading = Validator(schema)
        except SchemaError:  # valid in an earlier draft only
            return
        for value in islice(mutations_of(dict(known)), _MOST_INVALID):
            if is_object(value) and self._problems_of(value, tool) == () and not reading.accepts(value):
                problems = _join(reading.problems(value))
                yield f"{problems}; {draft} ignores that: write the schema as JSON Schema 2020-12"


def schema_problems(spec: ToolSpec) -> Iterator[str]:
    """Misspelt keywords in a tool's schemas, defaults that don't fit, and what a second validator refuses."""
    for what, schema, examples in (("input", spec.input_schema, spec.examples), ("output", spec.output_schema, ())):
        for text in () if schema is None else (*lint_schema(schema), second_opinion(schema, examples)):
            if text is not None:
                yield f"its {what} schema: {text}"


def second_opinion(schema: JsonSchema, examples: Iterable[Any]) -> str | None:
    """The error that jsonschema finds in a schema, or the example on which it disagrees; else `None`."""
    from jsonschema import Draft202012Validator, exceptions, validators  # takes 130 ms
    from referencing import Registry

    cls: Any = cast("Any", validators).validator_for(schema, default=Draft202012Validator)
    error: Any = cast("Any", exceptions).best_match(cls(cls.META_SCHEMA).iter_errors(schema))
    if error is not None:
        return problem(error.absolute_path, error.message[:1_000])
    text = json_text(schema)
    judge, examples = Validator(text), () if '"pattern' in text else examples  # jsonschema's patterns may run for ever
    for number, example in enumerate(examples, 1):
        with suppress(Exception):
            fits: bool = cls(schema, registry=cast("Any", Registry)()).is_valid(example)
            if fits != judge.accepts(example):
                return f"jsonschema {'accepts' if fits else 'rejects'} example {number}, jsonschema-rs disagrees"
    return None


async def _watch(
    registry: ToolRegistry, tool: Tool, example: Mapping[str, Any]
) -> tuple[ToolResult, list[tuple[float, str]]]:
    """The result, and where the call blocked the event loop."""
    blocked: list[tuple[float, str]] = []
    watchdog = Watchdog(report=lambda _name, seconds, place: blocked.append((seconds, place)))
    deadline = Deadline(None, watchdog=watchdog, name=tool.name)
    return await within(deadline, registry.call(tool.name, example)), blocked


def contract_violation(result: ToolResult) -> str | None:
    """How a result violates the contract, or `None`; an error that the tool itself reports doesn't."""
    if result.kind not in _BREAKS and (result.kind != "tool_failure" or "retryable" in result.metadata):
        return None
    detail = (result.detail or "").strip().rpartition("\n")[2]
    return f"its result is an error of kind {result.kind}: {result.text}{f' ({detail})' if detail else ''}"


def mutations_of(value: Any, level: int = 0) -> Iterator[Any]:
    """Mutations of a value: another type or size, a member or item removed, changed or added."""
    if level > _MOST_LEVELS:
        return
    yield from (each for each in _OTHERS if each != value)
    if is_object(value):
        yield {**value, "no_such_key": 1}
        for name in value:
            yield {key: item for key, item in value.items() if key != name}
            yield from ({**value, name: each} for each in mutations_of(value[name], level + 1))
    elif is_array(value):
        yield value + value[:1]
        for place, item in enumerate(value[:_MOST_LISTED]):
            yield value[:place] + value[place + 1 :]
            yield from ([*value[:place], each, *value[place + 1 :]] for each in mutations_of(item, level + 1))


def _join(problems: tuple[str, ...]) -> str:
    return "; ".join(problems[:_MOST_LISTED])


def short_text(value: Any) -> str:
    """A text, or the `repr` of another value, truncated."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def check_plugin(
    plugin: Any,
    *,
    settings: Mapping[str, Any] | None = None,
    run_examples: bool = True,
    heavy: Iterable[str] = HEAVY,
    most_modules: int | None = None,
) -> Report:
    """Checks a plugin for everything that a registry relies on; for its author's tests.

    It loads completely and registers the same each time, in every process, and in its manifest, if its package has
    one. Every tool has a description and valid schemas. Each tool's check accepts its examples and arguments made from
    its schema, ordinary ones and those at the bounds, and refuses those that break one of the schema's rules. The
    examples of its read-only tools run without an error and never block the event loop. Importing it loads nothing
    heavy. Its source uses public names of pegboard only, or there is a warning. The check is deterministic.

    Args:
        plugin: The name of an installed plugin (its entry point's), or its module, class or object.
        settings: Its settings, as `[plugins.NAME]` in a pegboard.toml gives them.
        run_examples: Whether to run the declared examples of the tools that are marked read-only. None may crash,
            return what its output schema forbids, exceed its time limit, or block the event loop for more than 0.1 s.
        heavy: Packages that importing the plugin's module must not load; `()` allows all. For a plugin that is given
            by name or as a module.
        most_modules: How many modules importing it may load beyond pegboard's, its own included; `None` sets no limit.

    Returns:
        What was checked, with warnings and notes.

    Raises:
        AssertionError: The contract is violated; the text lists everything that was found, and what to do.
    """
    __tracebackhide__ = True  # pytest shows the author's line, not ours
    try:
        subject = subject_of(plugin)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        name = plugin if isinstance(plugin, str) else getattr(plugin, "__name__", type(plugin).__name__)
        check = PluginCheck(Subject(name, plugin))
        check.error(error.cause if isinstance(error, PluginError) else f"it can't be imported: {cause_of(error)}")
        return check.report()
    check = PluginCheck(subject, settings or {})
    loaded = check.check_loading()
    if loaded is not None:
        for tool in loaded.tools:
            check.tools.append(tool.name)
            check.check_spec(tool.spec)
            check.check_arguments(tool)
        for toolset in loaded.toolsets:
            check.notes.append(f"toolset {toolset.name!r} lists its tools only at run time; they weren't checked")
        if run_examples and not loaded.faults:
            check.check_examples()
    if subject.module is not None:
        uses = plugin_uses(subject.found or FoundPlugin(subject.name, subject.module, None, "", "", None))
        check.warnings += [] if uses is None else [f"{uses}; import public modules only"]
    check.check_budget(heavy, most_modules)
    return check.report()
