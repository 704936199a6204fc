"""`ToolChoice`: whether the model may, must, or must not call tools."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from attrs import field, frozen

from pegboard.tools.name import check_name


@frozen
class NamedTool:
    """The model must call this tool.

    Attributes:
        name: The tool's name.

    Raises:
        InvalidNameError: No tool can have this name.
    """

    name: str = field(validator=lambda _self, _attribute, value: check_name(value))


CHOICES: Final = ("auto", "none", "required")
ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool
"""`"auto"`: the model decides; `"none"`: it calls nothing; `"required"`: it calls something; or which one it calls."""

__all__ = ["CHOICES", "NamedTool", "ToolChoice"]
