"""Writes the commands of a click or typer program as JSON: `python -m pegboard_commands.read_click MODULE:NAME`.

It runs in a process of its own, as importing a program may do anything, and so imports nothing of pegboard. Commands
and parameters are read by their attributes: those of click, and of typer, which from 0.29 on has its own ones.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from pkgutil import resolve_name
from typing import Any, Final, Literal, get_args, get_origin
from uuid import UUID

MOST_COMMANDS: Final = 500
_MOST_LEVELS: Final = 10
_MOST_COUNT: Final = 10
_COMPLETION: Final = frozenset({"--install-completion", "--show-completion"})
_TYPES: Final = {"boolean": (bool,), "integer": (int,), "number": (int, float), "string": (str,)}

Data = dict[str, Any]


def command_of(program: Any) -> Any:
    """The click or typer command that `MODULE:NAME` names.

    Raises:
        TypeError: It is something else.
    """
    if hasattr(program, "registered_commands") and hasattr(program, "registered_groups"):
        return resolve_name("typer.main:get_command")(program)
    if hasattr(program, "params") and hasattr(program, "make_context"):
        return program
    raise TypeError(f"it is a {type(program).__name__}, neither a click command nor a typer.Typer")


def read_program(program: Any, name: str) -> Data:
    """The visible commands of a program, and what is wrong with others, as JSON data."""
    commands: list[Data] = []
    problems: list[str] = []
    for path in _paths(command_of(program), name, [], problems):
        if len(commands) == MOST_COMMANDS:
            problems.append(f"it has more than {MOST_COMMANDS} commands; the first are offered")
            break
        words = [word for word, _ in path[1:]]
        try:
            commands.append(_read_command(path, words))
        except Exception as error:  # noqa: BLE001  one bad command doesn't affect the others
            problems.append(f"command {' '.join(words)!r}: {type(error).__name__}: {error}")
    return {"commands": commands, "problems": problems}


Path = Sequence[tuple[str, Any]]
"""A command with its groups: the word for each, and the command object."""


def _paths(command: Any, word: str, before: Path, problems: list[str]) -> Iterator[Path]:
    path = [*before, (word, command)]
    if not hasattr(command, "list_commands"):
        yield path
        return
    if command.invoke_without_command:
        yield path
    if len(path) > _MOST_LEVELS:
        problems.append(f"the commands of {word!r} are left out: groups are nested too deeply")
        return
    context = None
    for name, each in path:
        context = each.context_class(each, info_name=name, parent=context)
    for name in command.list_commands(context):
        try:
            inner = command.get_command(context, name)
        except Exception as error:  # noqa: BLE001  a group may import its commands at first use
            problems.append(f"command {name!r}: {type(error).__name__}: {error}")
            continue
        if inner is not None and not inner.hidden:
            yield from _paths(inner, name, path, problems)


def _read_command(path: Path, words: Sequence[str]) -> Data:
    command = path[-1][1]
    levels: list[Data] = []
    names: set[str] = set()
    for word, each in reversed(path):
        parameters = [*_parameters(each, str(each.name or "program"), names)]
        if each is not command and any(one["kind"] == "argument" and one["nargs"] == -1 for one in parameters):
            raise TypeError(f"its group {word!r} takes any number of arguments")
        levels.insert(0, {"word": word, "parameters": parameters})
    text = _text(command.help or command.short_help)
    if command.deprecated:
        text = f"Deprecated. {text}".strip()
    return {"words": words, "levels": levels, "description": text}


def _text(text: Any) -> str:
    r"""A help text, up to a form feed, as click shows it; `\b` marks a paragraph that isn't wrapped."""
    cleaned = inspect.cleandoc(str(text or "")).partition("\f")[0]
    return "\n".join(line for line in cleaned.splitlines() if line.strip() != "\b").strip()


def _parameters(command: Any, group: str, names: set[str]) -> Iterator[Data]:
    """The parameters that are offered, each under a name of its own: that of a group's may begin with its name."""
    prefixes = {"-", *(name[0] for param in command.params for name in param.opts if not name[0].isalnum())}
    ends = False
    for param in command.params:
        is_option = param.param_type_name == "option"
        if not is_option:
            # Without one, those that follow can't be given.
            ends = ends or (getattr(param, "hidden", False) and not param.required)
        if (ends and not is_option) or (is_option and not _is_offered(param)):
            continue
        shared = is_option and sum(each.name == param.name for each in command.params) > 1
        name = _name(_long(param.opts) if shared or (is_option and _is_switch(param)) else param.name)
        if name in names:
            name = _name(f"{group}_{name}")
        if name in names:
            raise TypeError(f"two of its parameters are called {param.name!r}")
        names.add(name)
        yield {"name": name, **(_option(param, prefixes) if is_option else _argument(param))}


def _name(text: Any) -> str:
    return re.sub(r"\W", "_", str(text).lstrip("-/+"))


def _is_offered(param: Any) -> bool:
    """Whether a model may set an option: not a hidden one, a password, `--version`, or a question to the user."""
    if param.hidden or param.hide_input or _COMPLETION & {*param.opts}:
        return False
    return not (param.is_flag and (param.is_eager or param.prompt))


def _is_switch(param: Any) -> bool:
    """Whether an option sets another value than true, such as `--quiet` for `loud`, and none sets it back."""
    return param.is_flag and not param.secondary_opts and getattr(param, "flag_value", True) is not True


def _long(opts: Sequence[str]) -> str:
    """The longest of an option's names, `--name` before `-n`."""
    return max(opts, key=len)


def _option(param: Any, prefixes: Iterable[str]) -> Data:
    option = _long(param.opts)
    schema: Data
    if param.count:
        kind, schema = "count", {"type": "integer", "minimum": 0, "maximum": _MOST_COUNT}
    elif param.is_flag:
        kind, schema = "flag", {"type": "boolean"}
    else:
        kind, schema = "option", _values(param)
        if getattr(param, "_flag_needs_value", False):  # click takes what looks like an option for one, even after `=`
            first = re.escape("".join(sorted(prefixes)))
            schema |= {"pattern": f"^(?![{first}])"} if schema["type"] == "string" else {"minimum": 0}
        if param.multiple:
            schema = {"type": "array", "items": schema}
    return {
        "kind": kind,
        "option": option,
        "off": _long(param.secondary_opts) if param.secondary_opts else None,
        "nargs": param.nargs,
        "multiple": bool(param.multiple),
        # A program asks for it on the terminal, which it doesn't have.
        "required": bool(param.required or (param.prompt and param.prompt_required)),
        "schema": _describe(param, schema),
    }


def _argument(param: Any) -> Data:
    schema = _values(param)
    if param.nargs == -1 and param.required:
        schema["minItems"] = 1
    return {"kind": "argument", "nargs": param.nargs, "required": param.required, "schema": _describe(param, schema)}


def _describe(param: Any, schema: Data) -> Data:
    """The schema with the help text, and with the default as far as JSON can say it."""
    if text := " ".join(filter(None, [_text(getattr(param, "help", None)), schema.get("description")])):
        schema["description"] = text
    is_one_way = getattr(param, "is_flag", False) and not param.secondary_opts  # it isn't given by default
    default = None if is_one_way and param.default else _default(param.default, schema)
    if default is not None:
        schema["default"] = default
    return schema


def _default(value: Any, schema: Data) -> Any:
    """A default as JSON, or `None` where it isn't a value of the schema, as one that is computed at each call."""
    if "enum" in schema:
        texts = (value.name, str(value.value)) if isinstance(value, Enum) else (value,)
        return next((text for text in texts if text in schema["enum"]), None)
    if schema["type"] == "array":
        items = [_default(item, schema["items"]) for item in value] if _is_list(value) and "items" in schema else []
        return items if items and None not in items else None
    if isinstance(value, os.PathLike):
        value = os.fsdecode(value)  # pyright: ignore[reportUnknownArgumentType]  of a program
    return value if type(value) in _TYPES[schema["type"]] else None


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _values(param: Any) -> Data:
    """The schema of one value, or of the list of them if it takes several words."""
    read: Callable[[Any], list[Data]] = _click_types if hasattr(param, "type") else _typer_types
    types = read(param)
    if param.nargs == 1:
        return types[0]
    schema: Data = {"type": "array", "items": types[0]}
    if param.nargs > 1:
        schema |= {"minItems": param.nargs, "maxItems": param.nargs}
        if any(each != types[0] for each in types):
            del schema["items"]
            schema["prefixItems"] = types
    return schema


def _click_types(param: Any) -> list[Data]:
    """The schemas of a click parameter's words."""
    kinds = getattr(param.type, "types", None)
    return [_click_type(each) for each in ([param.type] if kinds is None else kinds)]


def _click_type(kind: Any) -> Data:
    name = str(getattr(kind, "name", ""))
    if (choices := getattr(kind, "choices", None)) is not None:
        return {"type": "string", "enum": [each.name if isinstance(each, Enum) else str(each) for each in choices]}
    if (formats := getattr(kind, "formats", None)) is not None:
        return _times(formats)
    plain = {"integer": "integer", "float": "number", "boolean": "boolean"}.get(name.partition(" ")[0], "string")
    if plain in ("integer", "number") and hasattr(kind, "min") and not kind.clamp:
        low = "exclusiveMinimum" if kind.min_open else "minimum"
        high = "exclusiveMaximum" if kind.max_open else "maximum"
        return _range_schema(plain, {low: kind.min, high: kind.max})
    return {"type": plain, "format": "uuid"} if name == "uuid" else {"type": plain}


def _typer_types(param: Any) -> list[Data]:
    """The schemas of the words of a parameter of typer from 0.29 on, which has a Python type."""
    descriptor = param.type_descriptor
    info, annotation = descriptor.parameter_info, descriptor.annotation
    inner = get_args(annotation) if get_origin(annotation) in (list, tuple) else [annotation]
    return [_typer_type(each, info) for each in inner]


def _typer_type(annotation: Any, info: Any) -> Data:
    schema: Data = {"type": "string"}
    if get_origin(annotation) is Literal:
        schema["enum"] = [*map(str, get_args(annotation))]
    elif info.parser is not None or not isinstance(annotation, type):
        pass
    elif issubclass(annotation, Enum):
        schema["enum"] = [str(each.value) for each in annotation]
    elif issubclass(annotation, bool):
        schema["type"] = "boolean"
    elif issubclass(annotation, int | float):
        plain = "integer" if issubclass(annotation, int) else "number"
        schema = _range_schema(plain, {} if info.clamp else {"minimum": info.min, "maximum": info.max})
    elif annotation is datetime:
        schema = _times(info.formats or ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"))
    elif annotation is UUID:
        schema["format"] = "uuid"
    return schema


def _range_schema(kind: str, bounds: Mapping[str, Any]) -> Data:
    return {"type": kind, **{key: bound for key, bound in bounds.items() if bound is not None}}


def _times(formats: Sequence[str]) -> Data:
    return {"type": "string", "description": f"A time, written as {' or '.join(map(str, formats))}."}


def main() -> None:
    """Writes the commands of a program to standard output, where the program itself can't write, and exits."""
    (program,) = sys.argv[1:]
    answer = os.dup(1)
    os.dup2(2, 1)
    data = json.dumps(read_program(resolve_name(program), program)).encode()
    while data:
        data = data[os.write(answer, data) :]
    os._exit(0)  # threads of the program may go on


if __name__ == "__main__":
    main()
