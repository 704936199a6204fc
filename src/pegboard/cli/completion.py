"""Shell completion: of tools, plugins, predicates, settings, and the arguments of a call."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import click
from click.shell_completion import CompletionItem, FishComplete, split_arg_string

from pegboard.cli.arguments import SchemaType, place
from pegboard.cli.options import Options
from pegboard.cli.session import Session, call_hook, open_session
from pegboard.cli.warm import COMPLETE_VARIABLE
from pegboard.errors import PluginError
from pegboard.text import visible
from pegboard.typing import JsonSchema

_PATH: Final = re.compile(r"(^|_)(path|file|filename|folder|dir|directory|root|cwd)s?(_|$)", re.IGNORECASE)


class LineComplete(FishComplete):
    """Completion for all shells: the scripts pass the line up to the cursor, and read one word per line."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, without the program, and the incomplete one."""
        # A blank before the cursor may be escaped or quoted: a letter at its place shows whether a new word starts.
        *words, last = split_arg_string(f"{os.environ['COMP_WORDS']}x")
        return words[1:], last[:-1] if words else ""


def candidates(incomplete: str, given: Iterable[str], schema: JsonSchema) -> list[tuple[str, str]]:
    """Completions of an argument of `call`, each with a short help.

    Before an `=`, the names (`key=`) that aren't given yet, required ones first; after it, values named by the schema.
    """
    root = SchemaType(schema, schema)
    key, sign, begun = incomplete.partition("=")
    if sign:
        _, hint = place(key.removesuffix(":"), root)
        return [(f"{key}={value}", "") for value in _values(hint) if value.startswith(begun)]
    taken = {word.partition("=")[0].removesuffix(":") for word in given}
    return [(name, text) for name, text in _names("", root, taken) if name.startswith(incomplete)]


def _names(before: str, hint: SchemaType, taken: set[str]) -> list[tuple[str, str]]:
    """Every `key=` that isn't taken; parts of objects one level deep."""
    found: list[tuple[str, str]] = []
    for name, below in sorted(hint.properties.items(), key=lambda item: item[0] not in hint.required):
        key = before + name
        if key not in taken or _repeats(below):
            described = below.keywords.get("description")
            first = described.strip().partition("\n")[0].strip() if isinstance(described, str) else ""
            found.append((visible(f"{key}="), visible(first)))
        if not before:
            found += _names(f"{key}.", below, taken)
    return found


def _values(hint: SchemaType) -> list[str]:
    """The values that a schema names, as written on the command line."""
    words = [member if isinstance(member, str) else json.dumps(member) for member in hint.members]
    if not hint.is_open:
        words += ["null"] * ("null" in hint.types) + ["true", "false"] * ("boolean" in hint.types)
    items = _values(hint.item(0)) if _repeats(hint) else []
    return [visible(word) for word in dict.fromkeys((*words, *items))]


def _repeats(hint: SchemaType) -> bool:
    """Whether a key can be repeated."""
    return "array" in hint.types and not hint.is_open


def complete(group: click.Group, instruction: str) -> int:
    """Prints completions for the scripts in `shells`; returns the exit code: 0, or 1 on an error."""
    if instruction != "complete":
        return 1
    try:
        click.echo(LineComplete(group, {"obj": Options()}, "registry", COMPLETE_VARIABLE).complete().encode())
    except Exception:  # noqa: BLE001  an error message would disturb the command line
        return 1
    return 0


def complete_tool(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Completes names of tools."""
    from pegboard.cli.tool_texts import listing_rows

    tools = [tool for tool in _session(context).static_tools() if tool.name.startswith(incomplete)]
    return [CompletionItem(name, help=summary or None) for name, _, summary in listing_rows(tools)]


def complete_plugin(context: click.Context, _parameter: object, incomplete: str) -> list[CompletionItem[str]]:
    """Completes names of plugins."""
    return _complete((plugin.name for plugin in _session(context).registry.plugins()), incomplete)


def complete_exporter(context: click.Context, _parameter: object, incomplete: str) -> list[CompletionItem[str]]:
    """Completes names of exporters."""
    return _complete(_session(context).registry.contributions.names("exporters"), incomplete)


def _complete(names: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    """The names with this prefix, without those that have hidden characters: they could pass for others."""
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and visible(name) == name]


def complete_where(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Completes the last word of a predicate: flags, keys, operators, and after a key values of known tools."""
    from pegboard.toolsets.predicates import FLAGS, KEYS, OF_TOOL, OPERATORS

    before, space, last = incomplete.rpartition(" ")
    key, colon, _ = last.partition(":")
    if colon:
        tools = _session(context).static_tools() if key in OF_TOOL else ()
        names = sorted({f"{key}:{value}" for tool in tools for value in OF_TOOL[key](tool) if " " not in value})
    else:
        names = [*FLAGS, *(f"{key}:" for key in KEYS), *OPERATORS]
    return [CompletionItem(before + space + item.value) for item in _complete(names, last)]


def complete_word(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Completes `key=` names and values for `call`."""
    key, at, path = incomplete.partition("=@")
    if at:
        return [CompletionItem(f"{key}=@{item}") for item in _files(path)]
    given = context.params.get(parameter.name or "") or ()
    schema = _session(context).find(str(context.params.get("name"))).spec.input_schema
    named = [CompletionItem(word, help=text or None) for word, text in candidates(incomplete, given, schema)]
    key, sign, path = incomplete.partition("=")
    return named or (_complete_path(key, path) if sign else [])


def complete_setting(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Completes `PLUGIN.KEY=` for `--set`: plugins by name, then their keys, then files if the key names a path.

    A plugin that checks its settings names them all when it refuses the key `""`.
    """
    session = _session(context)
    key, sign, path = incomplete.partition("=")
    if sign:
        return _complete_path(key, path)
    plugin, dot, _ = incomplete.partition(".")
    if not dot:
        return _complete((f"{each.name}." for each in session.registry.plugins()), incomplete)
    keys = [*session.config.settings(plugin)]
    for found in session.entries():
        if found.name == plugin:
            try:
                call_hook(found, {"": ""}, "")
            except PluginError as error:
                keys += getattr(error.__cause__, "known", ())
    return _complete((f"{plugin}.{key}=" for key in dict.fromkeys(keys)), incomplete)


def _complete_path(key: str, path: str) -> list[CompletionItem[str]]:
    """Completes the value of a key whose name says that it is a path."""
    return [CompletionItem(f"{key}={item}") for item in _files(path)] if _PATH.search(key.rpartition(".")[2]) else []


def _files(path: str) -> list[str]:
    """Files and folders whose path has this prefix; folders end with a slash."""
    folder, slash, name = path.rpartition("/")
    with suppress(OSError):
        found = [each for each in os.scandir(folder or slash or ".") if each.name.startswith(name)]
        return [f"{folder}{slash}{each.name}{'/' * each.is_dir()}" for each in sorted(found, key=os.fspath)]
    return []


def _session(context: click.Context) -> Session:
    return open_session(context.ensure_object(Options))
