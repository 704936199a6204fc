"""Completion in shells: what may stand at the cursor. The scripts that ask are in `shells`.

Whatever goes wrong here is silent: an error in the middle of a command line helps no one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    shell_complete,
    split_arg_string,
)

from pegboard.cli.arguments import WORDS, SchemaType, json_type, place
from pegboard.cli.options import Options
from pegboard.tools.visible import visible
from pegboard.typing import JsonSchema

if TYPE_CHECKING:
    from pegboard.cli.session import Session

VARIABLE: Final = "_REGISTRY_COMPLETE"


class BashLine(BashComplete):
    """Bash takes `=` and `:` for ends of words, so our script hands over the line up to the cursor as it stands."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, without the program, and the one that is being written."""
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)[1:]
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])


def candidates(incomplete: str, given: Iterable[str], schema: JsonSchema) -> list[tuple[str, str]]:
    """What may stand where `incomplete` begins: words, each with a short help.

    Names (`key=`) until there is an `=`, required ones first, those that are given left out; then the values that
    the schema names.
    """
    root = SchemaType(schema, schema)
    key, sign, begun = incomplete.partition("=")
    if sign:
        _, hint = place(key.removesuffix(":"), root)
        return [(f"{key}={value}", "") for value in _values(hint) if value.startswith(begun)]
    taken = {word.partition("=")[0].removesuffix(":") for word in given}
    return [(name, text) for name, text in _names("", root, taken) if name.startswith(incomplete)]


def _names(before: str, hint: SchemaType, taken: set[str]) -> list[tuple[str, str]]:
    """Every `key=` that isn't taken; an object's parts under it, one level deep."""
    found: list[tuple[str, str]] = []
    properties = hint.properties
    for name in sorted(properties, key=lambda name: name not in hint.required):
        below, key = properties[name], before + name
        if key not in taken or _repeats(below):
            found.append((visible(f"{key}="), _first_line(below.keyword("description"))))
        if not before:
            found += _names(f"{key}.", below, taken)
    return found


def _values(hint: SchemaType) -> list[str]:
    """The values that a schema names, as they are written on the command line."""
    members = [member if isinstance(member, str) else json.dumps(member) for member in hint.members]
    few = () if hint.is_open else (word for word, value in WORDS.items() if json_type(value) in hint.types)
    items = _values(hint.item(0)) if _repeats(hint) else []
    return [visible(word) for word in dict.fromkeys((*members, *few, *items))]


def _repeats(hint: SchemaType) -> bool:
    """Whether a key may well be given several times."""
    return "array" in hint.types and not hint.is_open


def _first_line(text: Any) -> str:
    lines = text.strip().splitlines() if isinstance(text, str) else []
    return visible(lines[0].strip()) if lines else ""


def complete(group: click.Group, instruction: str) -> int:
    """Prints what may stand at the cursor, as the shell's script asks for it (`bash_complete`, ...).

    Returns:
        The exit code: 0, or 1 where nothing could be completed.
    """
    add_completion_class(BashLine)
    try:
        return shell_complete(group, {"obj": Options()}, "registry", VARIABLE, instruction)
    except Exception:  # noqa: BLE001  see the module
        return 1


def complete_tool(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Names of tools, with what they do."""
    from pegboard.cli.tool_texts import listing_rows

    tools = [tool for tool in _session(context).registry.tools() if tool.name.startswith(incomplete)]
    return [CompletionItem(name, help=summary or None) for name, _, summary in listing_rows(tools)]


def complete_plugin(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Names of plugins."""
    names = (plugin.name for plugin in _session(context).registry.plugins())
    return [CompletionItem(visible(name)) for name in names if name.startswith(incomplete)]


def complete_exporter(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Names of exporters: the listing of MCP, and those that plugins offer."""
    return _completed(("mcp", *_session(context).registry.known("exporters")), incomplete)


def complete_model(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Providers of models that plugins bring, up to the slash; their models aren't known here."""
    return _completed([f"{name}/" for name in _session(context).registry.known("models")], incomplete)


def _completed(names: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    """The names that begin so; those that don't show as they are could pass for others, and are left out."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and visible(name) == name]


def complete_word(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """`key=` names and values of the tool that is being called."""
    name, given = context.params.get("name"), context.params.get(parameter.name or "") or ()
    schema = _session(context).find(str(name)).spec.input_schema
    return [CompletionItem(word, help=text or None) for word, text in candidates(incomplete, given, schema)]


def _session(context: click.Context) -> Session:
    from pegboard.cli.session import open_session

    return open_session(context.ensure_object(Options))
