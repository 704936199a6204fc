"""Command-line programs as tools: a command with placeholders for typed arguments, run without a shell.

`["git", "log", ["--author={author}"], "-n", "{count}", "--", "{path}"]`: a placeholder is replaced within its word, so
that a value is never split into words. A nested list of words is left out if an argument in it isn't given or is false;
true is replaced by nothing. A list needs a placeholder that is a whole word, and becomes one word for each item.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import Any, Final, Literal, cast

from attrs import field, frozen

from pegboard import Preview, Tool, ToolContext, ToolError, ToolResult
from pegboard.errors import did_you_mean, suggest
from pegboard.tools import is_valid_name
from pegboard_commands.interpreters import HOLE, OPERAND, interpreters, open_programs, options_that_run
from pegboard_commands.program import Finished, ProgramSettings, check_program, run_program, trace_variables

TYPES: Final = ("string", "integer", "number", "boolean", "array")
PLAIN_OUTPUT: Final = {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}
LATER_SECONDS: Final = 10.0  # of the tool's limit, so that the program's passes first, whose error says more


@frozen
class _Word:
    """A word of the command: texts, each followed by an argument's name or `None`."""

    parts: tuple[tuple[str, str | None], ...]

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.parts if name is not None]

    @property
    def is_one_argument(self) -> bool:
        return len(self.parts) == 1 and not self.parts[0][0] and self.parts[0][1] is not None

    @property
    def may_be_option(self) -> bool:
        """Whether it begins with an argument."""
        return bool(self.parts) and not self.parts[0][0]

    @property
    def with_holes(self) -> str:
        """The word, with each argument as its name between holes."""
        return "".join(text if name is None else f"{text}{HOLE}{name}{HOLE}" for text, name in self.parts)

    def fill(self, arguments: Mapping[str, Any]) -> list[str]:
        """The words that result from replacing its placeholders."""
        if self.is_one_argument and isinstance(given := arguments[self.names[0]], list):
            return [*map(_text_of, cast("list[Any]", given))]
        texts = (text + ("" if name is None else _text_of(arguments[name])) for text, name in self.parts)
        return ["".join(texts)]


def _text_of(value: Any) -> str:
    if value is True:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _word(template: Any, place: str) -> _Word:
    if not isinstance(template, str):
        raise ValueError(f"{place}: has to be a text, not {type(template).__name__}")  # noqa: TRY004  the one error of settings
    parts: list[tuple[str, str | None]] = []
    try:
        for text, name, how, conversion in Formatter().parse(template):
            if name is not None and (not name.isidentifier() or how or conversion):
                raise ValueError(f"{{{name}}} is not an argument's name; write {{{{ and }}}} for braces")  # noqa: TRY301  as the parser's own
            parts.append((text, name))
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return _Word(tuple(parts))


def _from_home(template: Any) -> Any:
    if not isinstance(template, str) or not template.startswith("~/"):
        return template
    home = str(Path.home()).replace("{", "{{").replace("}", "}}")
    return home + template[1:]


@frozen(kw_only=True)
class ToolSettings(ProgramSettings):
    """A command-line program as a tool.

    Attributes:
        command: The program and its arguments, with placeholders such as `{count}`; a nested list of words is left out
            if an argument in it isn't given.
        description: The description for the model.
        arguments: The arguments by name, each a JSON Schema (`type` is one of `string`, `integer`, `number`, `boolean`
            and `array`, whose items are texts); with `options = true`, or for a number whose `minimum` is negative, the
            value may begin with `-`.
        stdin: The program's standard input, with placeholders; empty by default.
        timeout: Seconds that it may take.
        success: The exit codes that mean success.
        permission: The permission that a call needs; `""` is none. By default `"shell"`, or `""` if `read_only` is
            true. Rules see the whole command, as they do of a shell.
        concurrency: How calls share; by default `"shared"` if `read_only` is true, else `"exclusive"`.
        title: A title for the user.
        tags: For predicates.
        read_only: Whether it changes nothing.
        destructive: Whether it may destroy something.
        idempotent: Whether calling it twice has the effect of one call.
        open_world: Whether it interacts with the outside world.
    """

    command: Any = ()
    description: str
    arguments: Mapping[str, Any] = field(factory=dict[str, Any])
    stdin: str | None = None
    timeout: float = 60.0
    success: tuple[int, ...] = (0,)
    permission: str | None = None
    concurrency: Literal["shared", "exclusive"] | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self.groups or self.groups[0][0] or self.groups[0][1][0].names or not self.program:
            raise ValueError("command: it has to begin with the name of a program, without placeholders")
        check_program(self.with_holes, self.cwd)
        if not 0 < self.timeout <= 86_400:
            raise ValueError(f"timeout: it has to be more than 0 and at most 86,400 seconds, not {self.timeout:g}")
        for name, schema in self.arguments.items():
            if not isinstance(schema, Mapping) or cast("Mapping[str, Any]", schema).get("type") not in TYPES:
                raise ValueError(f"arguments.{name}: type has to be one of {', '.join(TYPES)}")
        self._check_names()
        self._check_code()

    def _check_names(self) -> None:
        used = {name for word in self._all_words() for name in word.names}
        for name in sorted(used - {*self.arguments}):
            raise ValueError(f"command: there is no argument {name!r}.{did_you_mean(suggest(name, self.arguments))}")
        for name in sorted({*self.arguments} - used):
            raise ValueError(f"arguments.{name}: command has no {{{name}}}")
        for word in self._all_words():
            for name in word.names:
                if self.arguments[name]["type"] == "array" and not word.is_one_argument:
                    raise ValueError(f"command: {{{name}}} is a list, and has to be a whole word")
        for is_optional, words in self.groups:
            for name in (name for word in words for name in word.names):
                if self.arguments[name]["type"] == "boolean" and not is_optional:
                    raise ValueError(f'command: {{{name}}} is a boolean; put it in a nested list: ["--all{{{name}}}"]')

    def _check_code(self) -> None:
        for each in interpreters(self.with_holes):
            read = [self._input.with_holes] if each.reads and self._input is not None else []
            for text in (text for text in (*each.texts, *read) if HOLE in text):
                name, how = text.split(HOLE)[1], "pass values to the code as words after it ($1, sys.argv[1])"
                raise ValueError(f"command: {{{name}}} would be part of what {each.name} runs as code; {how}")
        for wrapper, word in open_programs(list(self._words_with_holes())):
            name = word.replace(OPERAND, HOLE).split(HOLE)[1]
            if self.arguments[name]["type"] not in ("integer", "number"):
                how = f"name it in the command, and join an option to its value: -x{{{name}}}"
                raise ValueError(f"command: {{{name}}} may be the program that {wrapper} runs; {how}")

    @cached_property
    def groups(self) -> tuple[tuple[bool, tuple[_Word, ...]], ...]:
        """The words of the command in groups, each with whether it may be left out."""
        given: Any = self.command
        if not isinstance(given, list | tuple):
            raise ValueError('command: has to be a list, as in ["git", "log", "-n", "{count}"]')  # noqa: TRY004  as above
        found: list[tuple[bool, tuple[_Word, ...]]] = []
        for index, each in enumerate(cast("Sequence[Any]", given)):
            place = f"command[{index}]"
            if isinstance(each, list | tuple):
                found.append((True, tuple(_word(_from_home(word), place) for word in cast("Sequence[Any]", each))))
            else:
                found.append((False, (_word(_from_home(each), place),)))
        return tuple(found)

    @cached_property
    def _input(self) -> _Word | None:
        return None if self.stdin is None else _word(self.stdin, "stdin")

    def _all_words(self) -> Iterator[_Word]:
        yield from (word for _, words in self.groups for word in words)
        if self._input is not None:
            yield self._input

    @cached_property
    def with_holes(self) -> list[str]:
        """The words of the command, with each argument as its name between holes."""
        return [word.with_holes for _, words in self.groups for word in words]

    def _words_with_holes(self) -> Iterator[str]:
        """As `with_holes`, but with `OPERAND` in a word that is always there and never an option."""
        for is_optional, words in self.groups:
            for word in words:
                is_open = is_optional or any(map(self._may_begin_with_minus, word.names))
                is_list = any(self.arguments[name]["type"] == "array" for name in word.names)
                yield word.with_holes if is_open or is_list else word.with_holes.replace(HOLE, OPERAND)

    @property
    def program(self) -> str:
        """The program's name, or its path."""
        return self.groups[0][1][0].fill({})[0]

    def words(self, arguments: Mapping[str, Any]) -> list[str]:
        """The program and its arguments, for a call."""
        return [text for word in self._words(arguments) for text in word.fill(arguments)]

    def _words(self, arguments: Mapping[str, Any]) -> Iterator[_Word]:
        for is_optional, words in self.groups:
            names = [name for word in words for name in word.names]
            if not (is_optional and any(arguments.get(name) in (None, False, []) for name in names)):
                yield from words

    def standard_input(self, arguments: Mapping[str, Any]) -> bytes | None:
        """The standard input for a call."""
        return None if self._input is None else self._input.fill(arguments)[0].encode()

    def problems(self, arguments: Mapping[str, Any]) -> list[str]:
        """Problems of arguments that would be read as an option, or can't be passed to a program."""
        found: list[str] = []
        given = self.with_defaults(arguments)
        for word in self._words(given):
            free = all(map(self._may_begin_with_minus, word.names))
            for text in word.fill(given):
                if word.may_be_option and text.startswith("-") and not free:
                    found.append(f"{word.names[0]}: must not begin with '-': {self.program} would read it as an option")
                if "\0" in text:
                    found.append(f"{word.names[0]}: must not contain a NUL character")
        ran = options_that_run([word.with_holes for word in self._words(given)])
        if len(now := options_that_run(self.words(given))) > len(ran):
            found.append(f"command: this value would run another program: {now[-1]}. Use another value.")
        return found

    def _may_begin_with_minus(self, name: str) -> bool:
        schema = self.arguments[name]
        bounds = [schema.get("minimum", 0), schema.get("exclusiveMinimum", 0)]
        is_negative = any(isinstance(bound, int | float) and bound < 0 for bound in bounds)
        return schema.get("options") is True or (is_negative and schema["type"] in ("integer", "number"))

    def with_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, completed with defaults."""
        defaults = {name: schema["default"] for name, schema in self.arguments.items() if "default" in schema}
        return {**defaults, **arguments}

    @property
    def schema(self) -> dict[str, Any]:
        """The tool's input schema. Arguments outside of nested lists are required, unless they have a default."""
        properties: dict[str, Any] = {}
        for name, given in self.arguments.items():
            shown = {key: value for key, value in given.items() if key != "options"}
            properties[name] = {**shown, "items": {"type": "string"}} if shown["type"] == "array" else shown
        needed = [word for is_optional, words in self.groups if not is_optional for word in words]
        needed += [] if self._input is None else [self._input]
        names = {name for word in needed for name in word.names if "default" not in self.arguments[name]}
        required = [name for name in self.arguments if name in names]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def command_tool(name: str, settings: ToolSettings) -> Tool:
    """The tool that runs a command-line program.

    Raises:
        ValueError: The name is not valid for a tool.
        PegboardError: An argument's schema is invalid.
    """
    if not is_valid_name(name):
        raise ValueError(f"{name!r:.80} can't be a tool's name: use A-Z, a-z, 0-9, '_' and '-', a letter first")
    reads = settings.read_only is True
    permission = settings.permission if settings.permission is not None else "" if reads else "shell"

    def words_of(arguments: Mapping[str, Any]) -> list[str]:
        return settings.words(settings.with_defaults(arguments))

    def preview(arguments: Mapping[str, Any]) -> Preview:
        return Preview(shlex.join(words_of(arguments)))

    async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        given = settings.with_defaults(arguments)
        words = settings.words(given)
        try:
            settings.check_runs(settings.with_holes, context.work_dir)
            finished = await run_program(
                [settings.program, *words[1:]],
                given=settings.standard_input(given),
                seconds=settings.timeout,
                cwd=settings.folder(context.work_dir),
                env=settings.environment(settings.with_holes, **PLAIN_OUTPUT, **trace_variables(context)),
            )
        except OSError as error:
            raise ToolError(f"{name} can't run: {error}. Continue without this tool, or tell the user.") from error
        return tool_result(settings.program, words, finished, settings.success)

    return Tool.from_schema(
        name,
        settings.schema,
        run,
        description=settings.description,
        title=settings.title,
        tags=settings.tags,
        read_only=settings.read_only,
        destructive=settings.destructive,
        idempotent=settings.idempotent,
        open_world=settings.open_world,
        concurrency=settings.concurrency or ("shared" if reads else "exclusive"),
        permission=permission or None,
        permission_arguments={"command": "command"},
        permission_values=lambda arguments, _context: {"command": words_of(arguments)},
        preview=preview,
        check=settings.problems,
        timeout=settings.timeout + LATER_SECONDS,
    )


def tool_result(program: str, words: Sequence[str], finished: Finished, success: Sequence[int] = (0,)) -> ToolResult:
    """The result of a call that has run a program: its output, or how it failed."""
    stdout, stderr = (each.decode(errors="replace").rstrip("\n") for each in (finished.stdout, finished.stderr))
    parts = [stdout, f"[stderr]\n{stderr}" if stderr else ""]
    facts = {"command": list(words), "exit_code": finished.code}
    if finished.ended is None and finished.code in success:
        return ToolResult("\n".join(filter(None, parts)) or "(no output)", metadata=facts)
    if finished.ended is not None:
        kind: Any = "timeout" if finished.ended.startswith("took") else "limit"
        what = f"{program} {finished.ended} and was killed. Try a smaller request. Output so far:"
    else:
        kind, what = "tool_failure", f"{program} failed with exit code {finished.code}:"
    text = "\n".join(filter(None, [what, *parts]))
    return ToolResult(text, is_error=True, kind=kind, metadata=facts)
