"""What a call answered, as a model reads it: neither wire has a mark for errors, so the text says it."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from pegboard.request.exporters.openai.limits import Limits
from pegboard.request.exporters.openai.spoken import Spoken, spoken
from pegboard.schema.json import json_text
from pegboard.tools.content import ToolResult

ERROR: Final = "Error"


def spoken_result(result: ToolResult, limits: Limits) -> list[Spoken]:
    """The content of a result, sounds described; the structured content where there is no other.

    An error's first text begins with the word. `detail`, `display`, `metadata`, `details` and attachments are the
    host's.
    """
    silent = evolve(limits, audio={}) if limits.audio else limits  # models that hear are few
    said = [spoken(content, silent) for content in result.content]
    if not said and result.structured_content is not None:
        said = [Spoken("text", str(json_text(result.to_data()["structuredContent"])))]
    return _marked(said) if result.is_error else said


def _marked(said: list[Spoken]) -> list[Spoken]:
    if not said or said[0].kind != "text":
        return [Spoken("text", f"{ERROR}."), *said]
    if said[0].value.lower().startswith(ERROR.lower()):
        return said
    return [Spoken("text", f"{ERROR}: {said[0].value}"), *said[1:]]


def joined(said: list[Spoken]) -> str:
    """The texts of a result that has nothing else, as one."""
    return "\n".join(each.value for each in said)


__all__ = ["joined", "spoken_result"]
