"""What a tool's check says to arguments that its schema takes, and to those that it forbids."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from attrs import define, field

from pegboard.errors import cause_of
from pegboard.schema.json import is_object
from pegboard.schema.references import References
from pegboard.testing.breach import Breaches
from pegboard.testing.notebook import Notebook
from pegboard.testing.sample import NoSampleError, Sample, Samples
from pegboard.tools.tool import Tool

_MOST_BREACHES: Final = 500
"""Of one tool; some 2 us each."""

_MOST_TOLD: Final = 3
_MOST_SHOWN: Final = 200


def check_arguments(tool: Tool, notebook: Notebook) -> None:
    """Puts valid, boundary and invalid arguments to a tool's check; the tool itself never runs.

    Args:
        tool: Its input schema is valid.
        notebook: Gets the findings.
    """
    _Trial(tool, notebook).run()


@define(eq=False)
class _Trial:
    """One tool before its own check."""

    tool: Tool
    notebook: Notebook
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
            self._takes(sample)
        self._sum_up(len(tried), samples.missed)
        known = next(iter(self.tool.spec.examples), None) if not tried else tried[0].value
        if known is not None:
            self._refuses(Breaches(samples), schema, known)

    def _examples(self) -> None:
        for place, example in enumerate(self.tool.spec.examples):
            problems = self._checked(example)
            if problems:
                self.notebook.finding(
                    f"{self.called}: its own example {place + 1} is refused ({_told(problems)}): "
                    "correct the example, or what refuses it"
                )
            else:
                self.accepted += 1

    def _takes(self, sample: Sample) -> None:
        problems = self._checked(sample.value)
        if problems:
            special = "" if sample.label == "sample" else f"{sample.label}, "
            self.refused.append(f"{special}{_shown(sample.value)}: {_told(problems)}")
        elif problems is not None:
            self.accepted += 1

    def _checked(self, arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
        """What the check says; `None` where it raised instead, which is a finding."""
        self.notebook.tried += 1
        try:
            problems = self.tool.check(arguments)
        except Exception as error:  # noqa: BLE001  a tool's own code may raise anything
            self.notebook.finding(
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
            self.notebook.finding(f"{self.called}: its format_validation_error raised {cause_of(error)}; it must not")
        else:
            if not isinstance(text, str) or not text:
                self.notebook.finding(
                    f"{self.called}: its format_validation_error gave {text!r:.60}; it must give text"
                )

    def _sum_up(self, tried: int, missed: Collection[str]) -> None:
        if not tried:
            self.notebook.note(
                f"{self.called}: no arguments were found that its input schema takes, so only its examples were tried; "
                "declare some (examples=[...])"
            )
            return
        if missed:
            self.notebook.note(
                f"{self.called}: no value was found for {', '.join(map(repr, missed))}, which was left out; "
                "declare an example with one (examples=[...])"
            )
        if not self.refused:
            return
        such = f"such as {self.refused[0]}"
        if not self.accepted:
            self.notebook.finding(
                f"{self.called}: everything that was tried fits its input schema and is refused beyond it, {such}; "
                "say in the schema what is asked for (Annotated[...], an enum, a pattern), "
                "or declare an example (examples=[...])"
            )
            return
        self.notebook.warn(
            f"{self.called}: {len(self.refused)} of {tried} arguments that its input schema takes "
            f"are refused beyond it, which no model can know, {such}; say it in the schema, if it can be said"
        )

    def _refuses(self, breaches: Breaches, schema: dict[str, Any], known: Mapping[str, Any]) -> None:
        taken = list(islice(self._taken(breaches, schema, known), _MOST_TOLD))
        for text in taken:
            self.notebook.finding(f"{self.called} takes what its input schema forbids: {text}")

    def _taken(self, breaches: Breaches, schema: dict[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
        """What is taken though it breaks a rule: the rule stands in the schema, and nobody reads it."""
        draft = f"the draft that it names ({schema['$schema']})" if "$schema" in schema else "JSON Schema 2020-12"
        for breach in islice(breaches.of(schema, dict(known)), _MOST_BREACHES):
            if is_object(breach.value) and self._checked(breach.value) == ():
                yield f"{breach}; {draft} doesn't read it so: write the schema as JSON Schema 2020-12"


def _told(problems: tuple[str, ...]) -> str:
    return "; ".join(problems[:_MOST_TOLD])


def _shown(arguments: Mapping[str, Any]) -> str:
    text = repr(dict(arguments))
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
