"""`Tool`: a spec and the handler that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from attrs import frozen

from pegboard.schema.problems import MOST_PROBLEMS, StructureError, problem
from pegboard.tools.handler import Binder, Handler, LateHandler, Unstructure
from pegboard.tools.origin import DEFAULT_POLICY, HOST, Origin, Policy
from pegboard.tools.spec import FREEFORM_SCHEMA, Grammar, ToolSpec
from pegboard.typing import JsonMapping, JsonSchema

if TYPE_CHECKING:
    from typing import Unpack

    from pegboard.schema.validator import Validator
    from pegboard.tools.options import CommonOptions, ToolOptions


@frozen
class Preview:
    """What a person is shown before a call is confirmed.

    Attributes:
        summary: One line.
        details: Everything else, such as a diff; may be empty.
    """

    summary: str
    details: str = ""


Previewer: TypeAlias = Callable[[Mapping[str, Any]], "Preview | str | None"]
"""Gets the judged arguments; a plain text is the summary."""

Confirmer: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Gets the judged arguments; whether this call has to be confirmed."""

Checker: TypeAlias = Callable[[Mapping[str, Any]], "Iterable[str] | None"]
"""Gets the judged arguments; gives `"path: reason"` for each thing that is wrong with them."""

ErrorWriter: TypeAlias = Callable[[Sequence[str]], str]
"""Gets the problems (`"path: reason"`); gives the text that the model reads."""


@frozen(eq=False)
class Tool:
    """A spec plus the handler that runs it.

    A tool without a handler is legal: its calls come back to the host as `not_executed`.

    Attributes:
        spec: What the tool says of itself.
        handler: What runs it; a `LateHandler` is found at the first call.
        origin: Who brought it.
        policy: How its calls are treated.
        preview: Shows a person what a call would do.
        confirms: Picks the calls that need confirmation; `None` leaves it to `spec.requires_confirmation`.
        checks: The tool's own check of judged arguments.
        format_validation_error: The tool's own wording for invalid arguments.
        process_request: Changes the model request that the tool is resolved for: `(request, context)`, plain or async,
            gives the next request or `None`.
        instructions: What the model is told of the tool before the conversation, as long as it is resolved.
        offered: Whether models may be offered it; `False` for one that only processes requests.
    """

    spec: ToolSpec
    handler: Handler | LateHandler | None = None
    origin: Origin = HOST
    policy: Policy = DEFAULT_POLICY
    preview: Previewer | None = None
    confirms: Confirmer | None = None
    checks: Checker | None = None
    format_validation_error: ErrorWriter | None = None
    process_request: Callable[..., Any] | None = None
    instructions: str | None = None
    offered: bool = True

    @property
    def name(self) -> str:
        """The spec's name."""
        return self.spec.name

    @cached_property
    def runs_plainly(self) -> bool:
        """Whether a call takes no more than its handler: it waits for no other, and isn't tried again or elsewhere."""
        policy, handler = self.policy, self.handler
        return not (
            self.spec.concurrency.mode != "shared"
            or policy.max_concurrency is not None
            or policy.executor is not None
            or policy.retries
            or self.spec.long_running
            or (isinstance(handler, Handler) and handler.injects)
        )

    @cached_property
    def validator(self) -> Validator:
        """The validator of this tool's arguments, compiled at first use."""
        from pegboard.schema.validator import validator_of

        return validator_of(self.spec.input_schema_text)

    @cached_property
    def output_validator(self) -> Validator | None:
        """The validator of this tool's structured results, compiled at first use; `None` without an output schema."""
        if self.spec.output_schema_text is None:
            return None
        from pegboard.schema.validator import validator_of

        return validator_of(self.spec.output_schema_text)

    @cached_property
    def bind(self) -> Binder:
        """Judged arguments -> `(args, kwargs)` of the handler's function, compiled at first use."""
        assert isinstance(self.handler, Handler)
        return self.handler.make_binder()

    @cached_property
    def unstructure(self) -> Unstructure | None:
        """What the function gave back -> JSON data, compiled at first use; `None` where there is nothing to do."""
        assert isinstance(self.handler, Handler)
        return self.handler.make_unstructure()

    def check(self, arguments: JsonMapping) -> tuple[str, ...]:
        """Every problem of these arguments, at most 20, as `"path: reason"`; empty where a call would run.

        Judges by the schema, then by structuring, then by the tool's own check.
        """
        if not isinstance(arguments, dict):
            arguments = dict(arguments)
        problems = self.validator.problems(arguments)
        if problems:
            return problems
        if isinstance(self.handler, Handler):
            from pegboard.tools.context import ToolContext

            try:
                self.bind(ToolContext(), arguments)
            except StructureError as error:
                return (problem(error.path, error.reason),)
        if self.checks is None:
            return ()
        return tuple(self.checks(arguments) or ())[:MOST_PROBLEMS]

    def evolve(self, **changes: Any) -> Tool:
        """A tool with some attributes changed."""
        return attrs.evolve(self, **changes)

    def with_spec(self, **changes: Any) -> Tool:
        """A tool with some facts of its spec changed."""
        return attrs.evolve(self, spec=self.spec.evolve(**changes))

    @classmethod
    def from_function(cls, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool:
        """A tool of a function, as `@tool` makes it; takes the same options.

        Raises:
            DefinitionError: The signature can't be expressed.
        """
        from pegboard.tools.function import tool_from_function

        return tool_from_function(function, **options)

    @classmethod
    def from_schema(
        cls,
        name: str,
        input_schema: JsonSchema,
        handler: Callable[..., Any] | None = None,
        **options: Unpack[CommonOptions],
    ) -> Tool:
        """A tool of a raw JSON Schema and a handler on a mapping.

        Args:
            name: The tool's name.
            input_schema: An object's schema, taken as it is.
            handler: Called with the arguments as a mapping; a `ToolContext` parameter gets the context.
            options: As `@tool` takes them.

        Raises:
            SchemaError: The schema is invalid or unbounded.
        """
        from pegboard.tools.function import tool_from_schema

        return tool_from_schema(name, input_schema, handler, **options)

    @classmethod
    def freeform(
        cls,
        name: str,
        handler: Callable[..., Any] | None = None,
        *,
        grammar: Grammar | None = None,
        **options: Unpack[CommonOptions],
    ) -> Tool:
        """A tool whose input is text.

        Args:
            name: The tool's name.
            handler: Called with the text; a `ToolContext` parameter gets the context.
            grammar: What the text must fit. Providers are told, and hold their models to it; it isn't checked here.
            options: As `@tool` takes them.
        """
        from pegboard.tools.function import tool_from_text

        return tool_from_text(name, handler, grammar=grammar, input_schema=FREEFORM_SCHEMA, **options)

    @classmethod
    def provider(
        cls,
        name: str,
        provider_id: str,
        arguments: JsonMapping | None = None,
        handler: Callable[..., Any] | None = None,
        **options: Unpack[CommonOptions],
    ) -> Tool:
        """A tool that the model's provider knows, and usually runs.

        Args:
            name: The tool's name on the board.
            provider_id: Such as `"openai.web_search"`.
            arguments: What the provider's definition of it takes.
            handler: Runs it here, as a local shell does; `None` where the provider runs it.
            options: As `@tool` takes them.
        """
        from pegboard.tools.function import provider_tool

        return provider_tool(name, provider_id, arguments, handler, **options)

    @classmethod
    def processor(cls, name: str, function: Callable[..., Any], **options: Unpack[CommonOptions]) -> Tool:
        """A tool that no model is offered: it is resolved as any other, and then processes the request.

        Args:
            name: The tool's name, for predicates and logs.
            function: `(request, context)`, plain or async; gives the next `ModelRequest`, or `None` to leave it.
            options: As `@tool` takes them; by default, the function's docstring is the description.
        """
        from pegboard.tools.function import processing_tool

        return processing_tool(name, function, **options)


__all__ = ["Checker", "Confirmer", "ErrorWriter", "Preview", "Previewer", "Tool"]
