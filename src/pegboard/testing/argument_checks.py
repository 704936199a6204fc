"""What `check_plugin` finds; and arguments that a schema takes, and such as it forbids, put to a tool's check."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from attrs import define, field, frozen

from pegboard.errors import cause_of
from pegboard.schema.json import counted, is_array, is_object, kind_shown, path_text
from pegboard.schema.references import References
from pegboard.testing.samples import MOST_CHARACTERS, NoSampleError, Samples, allowed_kinds, kind_of
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject, JsonSchema


@frozen
class Report:
    """A plugin that keeps the contract.

    Attributes:
        plugin: Its name.
        tools: The names of the tools that were checked, in the order in which it registers them.
        tried: How many sets of arguments were put to the tools' checks.
        ran: How many declared examples were run; 0 with `run_examples=False`.
        warnings: What a model or a person would miss; nothing breaks.
        notes: What could not be checked, and why.
    """

    plugin: str
    tools: tuple[str, ...] = ()
    tried: int = 0
    ran: int = 0
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A line of figures, then a line for each warning and each note."""
        figures = (
            counted(len(self.tools), "tool"),
            f"{counted(self.tried, 'set')} of arguments tried",
            f"{counted(self.ran, 'example')} run",
        )
        head = f"plugin {self.plugin!r} keeps the contract: {', '.join(figures)}"
        lines = [*(f"warning: {text}" for text in self.warnings), *(f"note: {text}" for text in self.notes)]
        return "\n".join([head, *lines])


@define(eq=False)
class Findings:
    """Collects what the checks find, so that the author reads all of it at once.

    Attributes:
        plugin: The plugin's name.
        errors: What breaks the contract, a sentence each: which thing, what is wrong, what to do.
        warnings: What a model or a person would miss.
        notes: What could not be checked.
        tools: The names of the checked tools.
        tried: How many sets of arguments were tried.
        ran: How many examples were run.
    """

    plugin: str
    errors: list[str] = field(factory=list[str])
    warnings: list[str] = field(factory=list[str])
    notes: list[str] = field(factory=list[str])
    tools: list[str] = field(factory=list[str])
    tried: int = 0
    ran: int = 0

    def error(self, text: str) -> None:
        """Writes down what breaks the contract; the same only once."""
        if text not in self.errors:
            self.errors.append(text)

    def warn(self, text: str) -> None:
        """Writes down what a model or a person would miss."""
        self.warnings.append(text)

    def note(self, text: str) -> None:
        """Writes down what could not be checked."""
        self.notes.append(text)

    def report(self) -> Report:
        """The report.

        Raises:
            AssertionError: There are findings; the text lists all of them.
        """
        __tracebackhide__ = True  # pytest shows the author's line, not ours
        if self.errors:
            raise AssertionError(_listing(f"plugin {self.plugin!r} breaks the contract", self.errors))
        return Report(self.plugin, tuple(self.tools), self.tried, self.ran, tuple(self.warnings), tuple(self.notes))


def _listing(head: str, findings: Sequence[str]) -> str:
    """A numbered list; what takes several lines is indented below its number."""
    items = (f"  {number}. {text}".replace("\n", "\n     ") for number, text in enumerate(findings, 1))
    return "\n".join([f"{head} ({len(findings)} found):", *items])


_MOST_LEVELS: Final = 6
_MOST_ITEMS: Final = 1_000
_EACH_KIND: Final = ("text", 7, 1.5, True, None, ["text"], {"key": "text"})
_NEW_KEY: Final = "no_such_key"
_NO_OPTION: Final = "no such option"
_MOST_INVALID: Final = 500
"""Of one tool; some 2 us each."""

_MOST_TOLD: Final = 3
_MOST_SHOWN: Final = 200


@frozen
class InvalidValue:
    """A value that breaks one rule.

    Attributes:
        value: The whole value.
        rule: The keyword that is broken.
        path: Where.
        what: How, in a few words, without the place.
    """

    value: Any
    rule: str
    path: tuple[str | int, ...]
    what: str

    def __str__(self) -> str:
        """`"limit: number 0, and the schema's 'minimum' forbids it"`."""
        return f"{path_text(self.path)}: {self.what}, and the schema's {self.rule!r} forbids it"


@define(eq=False)
class InvalidValues:
    """Breaks the rules of one schema one by one.

    Every keyword binds by itself, whatever stands beside it: a value that breaks one doesn't fit, with no need to
    ask a judge. Rules that can't be broken for sure are left alone (below `not` and `if`, between alternatives of
    one kind).

    Attributes:
        samples: Of the schema.
    """

    samples: Samples

    def of(self, schema: JsonSchema | bool, value: Any, level: int = 0) -> Iterator[InvalidValue]:
        """What a schema forbids, each a little way from `value`, which it takes."""
        if level > _MOST_LEVELS or isinstance(schema, bool):
            return
        for target in self.samples.references.targets(schema):
            yield from self.of(target, value, level + 1)
        if self.samples.references.legacy and "$ref" in schema:
            return
        for part in schema.get("allOf", ()):
            yield from self.of(part, value, level + 1)
        yield from self._kinds(schema)
        yield from self._options(schema)
        for keyword, rule in schema.items():
            if (broken := _INVALID_BY_KEYWORD.get(keyword)) is not None and not isinstance(rule, bool):
                yield from (InvalidValue(each, keyword, (), kind_shown(each)) for each in broken(rule))
        yield from self._alternatives(schema, level)
        if is_object(value):
            yield from self._object(schema, value, level)
        elif is_array(value):
            yield from self._array(schema, value, level)

    def _kinds(self, schema: JsonSchema) -> Iterator[InvalidValue]:
        """A value of every kind that isn't allowed."""
        keyword = next((each for each in ("type", "anyOf", "oneOf") if each in schema), None)
        if keyword is None:
            return
        allowed = allowed_kinds(self.samples.references, {keyword: schema[keyword]})
        for value in _EACH_KIND:
            if kind_of(value) not in allowed:
                yield InvalidValue(value, keyword, (), kind_shown(value))

    def _options(self, schema: JsonSchema) -> Iterator[InvalidValue]:
        for keyword in ("const", "enum"):
            if keyword in schema:
                options = [schema[keyword]] if keyword == "const" else schema[keyword]
                if _NO_OPTION not in options:
                    yield InvalidValue(_NO_OPTION, keyword, (), kind_shown(_NO_OPTION))

    def _alternatives(self, schema: JsonSchema, level: int) -> Iterator[InvalidValue]:
        """What breaks the one alternative that takes values of its kind."""
        for keyword in ("anyOf", "oneOf"):
            parts: Sequence[Any] = schema.get(keyword, ())
            kinds = [allowed_kinds(self.samples.references, part) for part in parts]
            for place, part in enumerate(parts):
                others = frozenset[str]().union(*kinds[:place], *kinds[place + 1 :])
                for invalid in self._of_alternative(part, level):
                    if kind_of(invalid.value) not in others:
                        yield invalid

    def _of_alternative(self, part: Any, level: int) -> Iterator[InvalidValue]:
        try:
            value = self.samples.one(part, level + 1)
        except NoSampleError:
            return
        yield from self.of(part, value, level + 1)

    def _object(self, schema: JsonSchema, value: JsonObject, level: int) -> Iterator[InvalidValue]:
        for name in schema.get("required", ()):
            rest = {key: item for key, item in value.items() if key != name}
            yield InvalidValue(rest, "required", (name,), "left out")
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        if closed and _NEW_KEY not in schema.get("properties", {}):
            yield InvalidValue({**value, _NEW_KEY: 1}, "additionalProperties", (_NEW_KEY,), "an unknown key")
        if (least := schema.get("minProperties", 0)) > 0:
            yield _counted(dict(islice(value.items(), least - 1)), "minProperties", "key")
        for name, rule in self._members(schema, value):
            for inner in self.of(rule, value[name], level + 1):
                yield _outside(inner, name, {**value, name: inner.value})

    def _members(self, schema: JsonSchema, value: JsonObject) -> Iterator[tuple[str, Any]]:
        properties: JsonObject = schema.get("properties", {})
        others = schema.get("additionalProperties", True) if "patternProperties" not in schema else True
        return ((name, properties.get(name, others)) for name in value)

    def _array(self, schema: JsonSchema, value: list[Any], level: int) -> Iterator[InvalidValue]:
        least, most = schema.get("minItems", 0), schema.get("maxItems", _MOST_ITEMS)
        if least > 0:
            yield _counted(value[: least - 1], "minItems", "item")
        if value and most < _MOST_ITEMS:
            yield _counted((value * (most + 1))[: most + 1], "maxItems", "item")
        if value and schema.get("uniqueItems") is True:
            yield InvalidValue([*value, value[0]], "uniqueItems", (), "the same item twice")
        first: Any = schema.get("prefixItems", ())
        rule = schema.get("items", True)
        for place, item in enumerate(value[: len(first) + 1]):
            for inner in self.of(first[place] if place < len(first) else rule, item, level + 1):
                yield _outside(inner, place, [*value[:place], inner.value, *value[place + 1 :]])


def _counted(value: Any, keyword: str, noun: str) -> InvalidValue:
    return InvalidValue(value, keyword, (), counted(len(value), noun))


def _outside(inner: InvalidValue, step: str | int, whole: Any) -> InvalidValue:
    return InvalidValue(whole, inner.rule, (step, *inner.path), inner.what)


def _multiple(rule: Any) -> list[Any]:
    return [rule / 2] if isinstance(rule, float) or rule == 1 else [1]


_INVALID_BY_KEYWORD: Final[Mapping[str, Callable[[Any], Sequence[Any]]]] = {
    "minimum": lambda rule: [min(rule - 1, math.nextafter(rule, -math.inf))],
    "maximum": lambda rule: [max(rule + 1, math.nextafter(rule, math.inf))],
    "exclusiveMinimum": lambda rule: [rule],
    "exclusiveMaximum": lambda rule: [rule],
    "multipleOf": _multiple,
    "minLength": lambda rule: ["a" * (rule - 1)] if 0 < rule <= MOST_CHARACTERS else [],
    "maxLength": lambda rule: ["a" * (rule + 1)] if rule < MOST_CHARACTERS else [],
}
"""Keyword -> values that it forbids."""


def check_arguments(tool: Tool, findings: Findings) -> None:
    """Puts valid, boundary and invalid arguments to a tool's check; the tool itself never runs."""
    _Trial(tool, findings).run()


@define(eq=False)
class _Trial:
    """One tool before its own check."""

    tool: Tool
    findings: Findings
    accepted: int = 0
    refused: list[str] = field(factory=list[str])

    @property
    def called(self) -> str:
        return f"tool {self.tool.name!r}"

    def run(self) -> None:
        self._examples()
        schema = self.tool.spec.input_schema
        samples = Samples(References(schema), self.tool.validator.accepts)
        try:
            tried = list(samples.of(schema))
        except NoSampleError:
            tried = []
        for sample in tried:
            problems = self._checked(sample.value)
            if problems:
                special = "" if sample.label == "sample" else f"{sample.label}, "
                self.refused.append(f"{special}{_shown(sample.value)}: {_joined(problems)}")
            elif problems is not None:
                self.accepted += 1
        self._sum_up(len(tried), samples.missed)
        known = next(iter(self.tool.spec.examples), None) if not tried else tried[0].value
        if known is not None:
            taken = list(islice(self._taken(InvalidValues(samples), schema, known), _MOST_TOLD))
            for text in taken:
                self.findings.error(f"{self.called} takes what its input schema forbids: {text}")

    def _examples(self) -> None:
        for place, example in enumerate(self.tool.spec.examples):
            problems = self._checked(example)
            if problems:
                self.findings.error(
                    f"{self.called}: its own example {place + 1} is refused ({_joined(problems)}): "
                    "correct the example, or what refuses it"
                )
            else:
                self.accepted += 1

    def _checked(self, arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
        """The problems that the check finds; `None` where it raised instead, which is an error."""
        self.findings.tried += 1
        try:
            problems = self.tool.check(arguments)
        except Exception as error:  # noqa: BLE001  a tool's own code may raise anything
            self.findings.error(
                f"{self.called}: judging {_shown(arguments)} raised {cause_of(error)}; its check (and the types that "
                "its arguments become) must tell problems, or raise ValueError, never crash"
            )
            return None
        if problems:
            self._worded(problems)
        return problems

    def _worded(self, problems: tuple[str, ...]) -> None:
        """Lets the tool word a refusal itself, where it wants to."""
        write = self.tool.format_validation_error
        if write is None:
            return
        try:
            text: Any = write(problems)
        except Exception as error:  # noqa: BLE001  a tool's own code may raise anything
            self.findings.error(f"{self.called}: its format_validation_error raised {cause_of(error)}; it must not")
        else:
            if not isinstance(text, str) or not text:
                self.findings.error(f"{self.called}: its format_validation_error gave {text!r:.60}; it must give text")

    def _sum_up(self, tried: int, missed: Collection[str]) -> None:
        if not tried:
            self.findings.note(
                f"{self.called}: no arguments were found that its input schema takes, so only its examples were tried; "
                "declare some (examples=[...])"
            )
            return
        if missed:
            self.findings.note(
                f"{self.called}: no value was found for {', '.join(map(repr, missed))}, which was left out; "
                "declare an example with one (examples=[...])"
            )
        if not self.refused:
            return
        such = f"such as {self.refused[0]}"
        if not self.accepted:
            self.findings.error(
                f"{self.called}: everything that was tried fits its input schema and is refused beyond it, {such}; "
                "say in the schema what is asked for (Annotated[...], an enum, a pattern), "
                "or declare an example (examples=[...])"
            )
            return
        self.findings.warn(
            f"{self.called}: {len(self.refused)} of {tried} arguments that its input schema takes "
            f"are refused beyond it, which no model can know, {such}; say it in the schema, if it can be said"
        )

    def _taken(self, invalid_values: InvalidValues, schema: dict[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
        """What is taken though it breaks a rule: the rule stands in the schema, and the validator doesn't read it."""
        draft = f"the draft that it names ({schema['$schema']})" if "$schema" in schema else "JSON Schema 2020-12"
        for invalid in islice(invalid_values.of(schema, dict(known)), _MOST_INVALID):
            if is_object(invalid.value) and self._checked(invalid.value) == ():
                yield f"{invalid}; {draft} doesn't read it so: write the schema as JSON Schema 2020-12"


def _joined(problems: tuple[str, ...]) -> str:
    return "; ".join(problems[:_MOST_TOLD])


def _shown(arguments: Mapping[str, Any]) -> str:
    text = repr(dict(arguments))
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
