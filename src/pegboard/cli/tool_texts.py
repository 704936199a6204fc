"""Texts of tools for `list`, `show` and `schema`, used by the cold command and by the listing snapshot."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

from pegboard.cli.arguments import SchemaType
from pegboard.json import count_text, json_text
from pegboard.plugins.snapshot import own_version
from pegboard.text import visible, visible_json
from pegboard.tools.spec import Problem, ToolSpec
from pegboard.tools.tool import Tool
from pegboard.typing import JsonObject, JsonSchema

MOST_WORDS: Final = 160  # longest type or default, in characters
_LEVELS: Final = 3
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
MOST_PROBLEMS: Final = 3
_UNOFFERED: Final = "(never offered)"
_SHOWN: Final = frozenset(("name", "title", "description", "inputSchema", "outputSchema", "examples", "grammar"))
_CONSTRAINTS: Final = (
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("format", "pattern"),
)
_LISTED: Final = (
    *("name", "title", "description", "inputSchema", "outputSchema", "annotations", "tags", "kind", "toolVersion"),
    *("plugin", "distribution", "version", "source", "digest"),
    *("executor", "queue", "sends", "timeout", "memoryLimit", "retries"),
)


def show_text(tool: Tool) -> str:
    """The page of a tool: its origin, description, arguments, result and everything else in its spec."""
    spec = tool.spec
    told = spec.to_json()
    given, result, facts = told["inputSchema"], told.get("outputSchema"), _besides(tool, told, _SHOWN)
    if tool.instructions:
        facts["instructions"] = tool.instructions
    facts |= {**tool.policy.runs, "digest": spec.digest}
    title = f" - {visible(spec.title, again=True)}" if spec.title else ""
    nothing = "none" if given.get("additionalProperties") is False else "any object"
    blocks = [
        f"{spec.name}{title}\nfrom {visible(str(tool.origin))}",
        visible(spec.description.strip(), newlines=True, again=True),
        _values("Arguments", given, nothing),
    ]
    if result is not None:
        blocks.append(_values("Result", result, _short(type_words(result))))
    if spec.examples:
        blocks.append("\n  ".join(("Examples:", *(visible(_json(example)) for example in spec.examples))))
    if spec.grammar is not None:
        lines = visible(spec.grammar.definition.strip(), newlines=True).split("\n")
        blocks.append("\n  ".join((f"Grammar ({spec.grammar.syntax}):", *lines)))
    texts = {name: value if isinstance(value, str) else _json(value) for name, value in facts.items()}
    blocks.append("\n".join(f"{name}: {visible(text)}" for name, text in texts.items()))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _values(head: str, schema: JsonSchema, words: str) -> str:
    """A line for each property of an object; for one without properties, the words."""
    lines = [*_lines(SchemaType(schema, schema))]
    return "\n".join((f"{head}:", *lines)) if lines else f"{head}: {words}"


def _lines(hint: SchemaType, before: str = "", levels: int = _LEVELS) -> Iterator[str]:
    """A line for each property, its description below it; nested ones have dotted names, as for `call`."""
    named = hint.properties
    required = hint.required if named else ()
    for name, below in named.items():
        yield f"  {visible(before + name)}: {', '.join(_words(below, required=name in required))}"
        described = below.keywords.get("description")
        if isinstance(described, str) and described.strip():
            yield f"      {visible(' '.join(described.split()), again=True)}"
        if levels > 1 and not below.is_open:
            is_list = "array" in below.types
            inner, path = (below.item(0), f"{name}[].") if is_list else (below, f"{name}.")
            yield from _lines(inner, before + path, levels - 1)


def _words(hint: SchemaType, *, required: bool) -> Iterator[str]:
    """A property's type, whether it is required, and its constraints."""
    yield _short(type_words(hint.schema))
    if required:
        yield "required"
    keywords = hint.keywords
    for keyword in _CONSTRAINTS if required else (*_CONSTRAINTS, "default"):
        if (value := keywords.get(keyword)) is not None:
            is_text = isinstance(value, str) and keyword != "default"
            yield f"{keyword} {_short(value if is_text else _json(value))}"


def _short(text: str) -> str:
    return visible(text if len(text) <= MOST_WORDS else text[: MOST_WORDS - 1] + "…")


def type_words(schema: Any, levels: int = 4) -> str:
    """A JSON Schema's type in a few words: `integer`, `list of string`, `"a" or "b"`, `any`."""
    if not isinstance(schema, dict) or not levels:
        return "any"
    part: JsonObject = schema  # pyright: ignore[reportUnknownVariableType]
    if "const" in part or isinstance(part.get("enum"), list):
        return " or ".join(_json(value) for value in part.get("enum", [part.get("const")]))
    for key in ("anyOf", "oneOf"):
        if isinstance(part.get(key), list):
            return " or ".join(dict.fromkeys(type_words(member, levels - 1) for member in part[key]))
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    kind = part.get("type", "any")
    if kind == "array":
        return f"list of {type_words(part['items'], levels - 1)}" if "items" in part else "list"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)  # pyright: ignore[reportUnknownArgumentType]


def summary_of(spec: ToolSpec) -> str:
    """A tool's summary: its description up to a full stop not before a lower-case word, or its title, or nothing."""
    words = (spec.description.strip() or spec.title or "").partition("\n\n")[0].split()
    pairs = enumerate(pairwise(words), 1)
    ends = (number for number, (word, after) in pairs if word.endswith((".", "!", "?")) and not after[0].islower())
    return visible(" ".join(words[: next(ends, None)]), again=True)


def _tool_json(tool: Tool, *, full: bool = False) -> str:
    """A tool's object in `list --json`, on one line, hidden characters escaped; in full with the rest of the spec."""
    facts, origin = tool.spec.to_json() | tool.policy.runs, tool.origin
    facts |= {"toolVersion": facts.get("version"), "digest": tool.spec.digest}
    facts |= {"plugin": origin.plugin, "distribution": origin.distribution, "version": origin.version}
    facts |= {"source": origin.source}
    listed = {key: facts[key] for key in _LISTED if facts.get(key) is not None}
    return visible_json(_json(listed | _besides(tool, facts, _LISTED) if full else listed))


def _besides(tool: Tool, facts: JsonObject, named: Collection[str]) -> JsonObject:
    """The facts of a tool without the named ones, as JSON."""
    others = {key: value for key, value in facts.items() if key not in named}
    return others if tool.offered else {**others, "offered": False}


def show_json(tool: Tool) -> str:
    """What `show NAME --json` prints: the object of `list --json` with the rest of the spec."""
    return _tool_json(tool, full=True) + "\n"


def schema_text(tool: Tool) -> str:
    """What `schema NAME` prints: the input schema as indented JSON."""
    return visible_json(json.dumps(json.loads(tool.spec.input_schema_text), ensure_ascii=False, indent=2)) + "\n"


def sections_of(
    tools: Collection[Tool],
    problems: Collection[Problem] = (),
    *,
    commands: Iterable[tuple[str, str]] = (),
    notices: Iterable[str] = (),
    index: bytes = b"",
) -> dict[bytes, bytes]:
    """The sections of a listing snapshot; texts of tools are joined by NUL, in the registry's order.

    `json` is what `list --json` prints, one tool a line. The commands, each with a line of help, are for completion;
    the notices are more lines for standard error; the index is that of the search, empty if there is none yet.
    """
    texts = {
        b"plain": listing_plain(tools),
        b"json": listing_json(tools, problems),
        b"full": "\0".join(map(show_json, tools)),
        b"schema": "\0".join(map(schema_text, tools)),
        b"shown": "\0".join(map(show_text, tools)),
        b"notice": notice_text(problems, notices),
        b"version": f"registry (pegboard) {own_version()}",
        b"commands": "".join(f"{name}\t{visible(words)}\n" for name, words in commands),
    }
    return {**{name: text.encode() for name, text in texts.items()}, b"index": index}


def listing_json(tools: Iterable[Tool], problems: Collection[Problem] = ()) -> str:
    """What `list --json` prints: one tool per line, for `grep` and `diff`."""
    listed = ",\n".join(map(_tool_json, tools))
    inside = f"\n{listed}\n" if listed else ""
    found = visible_json(json_text([problem.to_json() for problem in problems]))
    return f'{{"tools":[{inside}],"problems":{found}}}\n'


def listing_rows(tools: Iterable[Tool]) -> list[tuple[str, str, str]]:
    """Name, plugin (`""` for the host's) and summary of each tool, hidden characters visible."""
    summaries = ((tool, summary_of(tool.spec)) for tool in tools)
    return [
        (tool.name, visible(tool.origin.plugin or ""), text if tool.offered else f"{_UNOFFERED} {text}".rstrip())
        for tool, text in summaries
    ]


def listing_plain(tools: Iterable[Tool]) -> str:
    """What `list` prints into a pipe: name, plugin and summary, tab-separated, one tool per line."""
    return "".join("\t".join(row) + "\n" for row in listing_rows(tools))


def notice_text(problems: Collection[Problem], notices: Iterable[str] = ()) -> str:
    """What `list` writes to standard error: the first problems, the number of others, and notices."""
    lines: list[str] = []
    for one in list(problems)[:MOST_PROBLEMS]:
        of = f"plugin {one.plugin}" if one.plugin else f"distribution {one.distribution}" if one.distribution else ""
        lines.append(f"{visible(of or 'sys.path')}: {visible(one.cause, again=True)}")
    if len(problems) > MOST_PROBLEMS:
        lines.append(f"{count_text(len(problems) - MOST_PROBLEMS, 'more problem')}: see 'registry doctor'")
    return "".join(f"{line}\n" for line in (*lines, *map(visible, notices)))
