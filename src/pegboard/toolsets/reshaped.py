"""`ReshapedToolset`: tools whose arguments look different to the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from pegboard.errors import DefinitionError
from pegboard.schema.problems import StructureError, path_text, problem
from pegboard.tools.context import ToolContext
from pegboard.tools.handler import Binder, Handler, LateHandler
from pegboard.tools.spec import Concurrency
from pegboard.tools.tool import Tool
from pegboard.toolsets.reshape import Reshape
from pegboard.toolsets.sound import check_sound
from pegboard.toolsets.toolset import Toolset
from pegboard.toolsets.wrapper import ChangedToolset, Step
from pegboard.typing import JsonMapping, JsonObject


class ReshapedToolset(ChangedToolset):
    """Tools whose arguments look different to the model: renamed, hidden, with another default, type or description.

    Args:
        inner: Any toolset.
        reshapes: Tool name -> how its arguments are shown. A tool that can't be shown so is out, and reported; a
            name that was never there is noted among the problems.
    """

    def __init__(self, inner: Toolset, reshapes: Mapping[str, Reshape]) -> None:
        reshapes = dict(reshapes)

        def reshape(tool: Tool) -> Tool:
            return reshaped(tool, reshapes[tool.name]) if tool.name in reshapes else tool

        super().__init__(inner, Step("reshaped", reshape, speaks_of=reshapes))


def reshaped(tool: Tool, reshape: Reshape) -> Tool:
    """A tool whose arguments look different to the model; what is listed and what is called change together.

    Raises:
        DefinitionError: The tool has no such argument, isn't a function with a handler, doesn't take a value that
            an argument is hidden with or has by default, or its schema can't be reshaped safely.
    """
    if tool.spec.kind != "function" or tool.handler is None:
        raise DefinitionError("only function tools that have a handler can be reshaped", tool=tool.name)
    spec = tool.spec.evolve(
        input_schema=reshape.shown(tool.spec.input_schema),
        examples=_examples(tool, reshape),
        concurrency=_concurrency(tool.spec.concurrency, reshape),
        # What is hidden keeps its name: rules then find it missing, which takes away no caution.
        permission_arguments={reshape.rename.get(name, name): k for name, k in tool.spec.permission_arguments.items()},
    )
    check_sound(tool.evolve(spec=spec))
    if isinstance(tool.handler, LateHandler):
        return tool.evolve(spec=spec)
    return _Reshaping(tool, tool.handler, reshape).outer().evolve(spec=spec)


def _examples(tool: Tool, reshape: Reshape) -> list[JsonObject]:
    """Those that are still valid."""
    return [reshape.shown_arguments(each) for each in tool.spec.examples if reshape.retype.keys().isdisjoint(each)]


def _concurrency(own: Concurrency, reshape: Reshape) -> Concurrency:
    """The key by its new names; exclusive where the model's arguments no longer tell the key."""
    if not {*reshape.hide, *reshape.default}.isdisjoint(own.key):
        return Concurrency("exclusive")
    return attrs.evolve(own, key=tuple(reshape.rename.get(name, name) for name in own.key))


@attrs.frozen(eq=False)
class _Reshaping:
    """A tool and how its arguments are shown; speaks the new names outwards and the tool's own inwards."""

    tool: Tool
    handler: Handler
    reshape: Reshape

    def outer(self) -> Tool:
        tool = self.tool
        return tool.evolve(
            handler=attrs.evolve(self.handler, make_binder=self.binder),
            preview=tool.preview and self.asking(tool.preview),
            confirms=tool.confirms and self.asking(tool.confirms),
            checks=self.problems,
        )

    def asking(self, function: Callable[[JsonMapping], Any]) -> Callable[[JsonMapping], Any]:
        return lambda arguments: function(self.reshape.given(arguments))

    def problems(self, arguments: JsonMapping) -> Sequence[str]:
        """What the tool's own schema and its own check say to arguments that the shown schema takes."""
        try:
            given = self.reshape.given(arguments)
        except StructureError as error:
            return (problem(error.path, error.reason),)
        found: Iterable[str] = ()
        if not self.tool.validator.accepts(given):
            found = self.tool.validator.problems(given)
        elif self.tool.checks is not None:
            found = self.tool.checks(given) or ()
        return [self.renamed(text) for text in found]

    def binder(self) -> Binder:
        bind = self.tool.bind

        def bind_shown(context: ToolContext, arguments: JsonMapping) -> tuple[Sequence[Any], Mapping[str, Any]]:
            given = self.reshape.given(arguments)
            if not self.tool.validator.accepts(given):
                raise StructureError("; ".join(map(self.renamed, self.tool.validator.problems(given))))
            try:
                return bind(context, given)
            except StructureError as error:
                raise self.error_renamed(error) from None

        return bind_shown

    def error_renamed(self, error: StructureError) -> StructureError:
        if not error.path:
            return error
        name, *rest = error.path
        self.check_visible(str(name), error.reason)
        return StructureError(error.reason, (self.reshape.rename.get(str(name), name), *rest))

    def renamed(self, text: str) -> str:
        """A problem by the new names.

        Raises:
            DefinitionError: It is about a value that the model neither sees nor can change.
        """
        for name in self.reshape.hide:
            if _is_about(text, name):
                self.check_visible(name, text)
        for old, new in self.reshape.rename.items():
            if _is_about(text, old):
                return path_text((new,)) + text[len(path_text((old,))) :]
        return text

    def check_visible(self, name: str, reason: str) -> None:
        if name in self.reshape.hide:
            raise DefinitionError(
                f"the value that it is hidden with is refused: {reason}", tool=self.tool.name, parameter=name
            )


def _is_about(text: str, name: str) -> bool:
    start = path_text((name,))
    return text.startswith(start) and text[len(start) : len(start) + 1] in (":", ".", "[")
