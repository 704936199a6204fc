"""Writes the API pages from docstrings: `docs/reference/api.md`, and one page a public module in `docs/reference/api/`.

python scripts/api_page.py

A test compares the pages with this output. `TOPICS` assigns each name of `pegboard` to a section; `PUBLIC` of
`pegboard.plugins.imports` has the other modules.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import cast, is_typeddict

import pegboard
from pegboard.plugins.imports import PUBLIC

OTHERS = [name.removeprefix("pegboard.") for name in PUBLIC if name != "pegboard"]
DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "reference" / "api.md"
INTRODUCTION = """\
# API

This page has the names of `pegboard`, by topic.
`import pegboard` loads almost nothing; each name is found when it is first used.
Each other public module has a page of its own.
All other modules may change with each release; see [Versions](../explanation/versions.md).
"""
TOPICS = {  # heading: the text below it, and the names
    "The registry": (
        "",
        "load ToolRegistry Handle Limits Health Catalogue PluginRecord Problem",
    ),
    "Tools": (
        "See [Define tools](../how-to/define-tools.md) and [Types](types.md).",
        "tool Tool TypedTool tool_of schema_of ToolSpec ToolAnnotations Grammar Concurrency Preview Origin Policy",
    ),
    "Calls and results": (
        "See [Calls](calls.md), [Results](results.md) and [Limit results](../how-to/limit-results.md).",
        """
        ToolCall CallFault ToolResult TextContent ImageContent AudioContent FileContent LinkContent ResultLimits
        ResultTexts read_result_tool
        """,
    ),
    "Conversations and requests": (
        "See [Shape requests](../how-to/shape-requests.md).",
        "Message ModelRequest ModelConfig NamedTool ModelResponse Pipeline Position BudgetTools LimitResults",
    ),
    "Models and exporters": (
        "See [Connect a model](../how-to/connect-a-model.md) and [Export tools](../how-to/export-tools.md).",
        "Model Exporter ExportedTools Loss",
    ),
    "Turns": (
        "See [Run a turn](../how-to/run-a-turn.md) and [Turns](turns.md).",
        "run_turn stream_turn Turn TurnOptions TurnLimits TurnOutcome",
    ),
    "Many calls": (
        "See [Run a model's calls](../how-to/run-a-models-calls.md).",
        "Batch BatchOptions Outcome Operation Completion",
    ),
    "Context": (
        "See [Use the context](../how-to/use-the-context.md).",
        "ReadonlyContext ToolContext Progress Injected Actions REMOVED Memory MemoryEntry Artifacts Confirmation",
    ),
    "Callbacks": (
        "See [Use callbacks](../how-to/use-callbacks.md).",
        "ChangeArguments Ask Deny Abort RepairRequest when nonblocking Chain",
    ),
    "Permission and approval": (
        "See [Decide what may run](../how-to/decide-what-may-run.md) and [Ask a person](../how-to/ask-a-person.md).",
        """
        Permissions PermissionRules Rule read_permissions Approver ApprovalRequest Once Always Reject Later
        PendingCalls
        """,
    ),
    "Toolsets and predicates": (
        "The predicates to write in Python are in `pegboard.toolsets.predicates`, see [Predicates](predicates.md).",
        """
        Toolset ToolsetResult ToolsetBase wrap ToolsetFunction StaticToolset CombinedToolset ToolIndex Found found_names
        Reshape
        ResolvedTools Explanation Predicate parse_predicate
        """,
    ),
    "Plugins and configuration": (
        "See [Hooks](hooks.md), [Configuration](configuration.md) and [Test a plugin](../how-to/test-a-plugin.md).",
        "hookimpl register_plugin unload_plugin Config load_config",
    ),
    "Errors": (
        "[Errors](errors.md) draws their tree and has their facts.",
        "PegboardError CallError ModelError ToolError",
    ),
}
WITHOUT_DOCSTRING = {
    "Injected": "`Injected[Type]` as a parameter's type fills it with what the host provides.",
    "REMOVED": "Stands for a key of the state that was removed, in `Actions.state_delta`.",
    "hookimpl": "Marks a function or a method as a plugin's implementation of the hook that it is named like.",
}
SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example", "Examples")
PLAIN = (str, int, float, bool, type(None))


def pages() -> dict[Path, str]:
    """Path -> text of every page."""
    return {PAGE: page()} | {PAGE.with_suffix("") / f"{name}.md": "\n".join(blocks_of(name)) for name in sorted(OTHERS)}


def page() -> str:
    """The page of `pegboard`.

    Raises:
        ValueError: A public name has no topic, or a topic has a name that isn't public.
    """
    listed_names = [name for _, names in TOPICS.values() for name in names.split()]
    if sorted(listed_names) != sorted(pegboard.__all__):
        raise ValueError(f"TOPICS and pegboard.__all__ differ in {sorted(set(listed_names) ^ set(pegboard.__all__))}")
    blocks = [INTRODUCTION, *contents()]
    for heading, (text, names) in TOPICS.items():
        blocks.append(f"## {heading}\n")
        if text:
            blocks.append(f"{text}\n")
        blocks.extend(block for name in names.split() for block in described(name, getattr(pegboard, name)))
    return "\n".join(blocks)


def contents() -> Iterator[str]:
    """Tables of the public modules, with the beginnings of their docstrings, and of the topics with their names."""
    yield "| module | has |\n|---|---|"
    for name in OTHERS:
        first, *_ = (inspect.getdoc(import_module(f"pegboard.{name}")) or "").split("\n\n")
        yield f"| [`pegboard.{name}`](api/{name}.md) | {' '.join(first.split())} |"
    yield "\n| topic | names |\n|---|---|"
    anchors = Counter[str]()  # `Tool` comes after `tool`: its anchor is `tool_1`
    for heading, (_, names) in TOPICS.items():
        links = ", ".join(f"[`{name}`](#{anchor(name, anchors)})" for name in names.split())
        yield f"| [{heading}](#{heading.lower().replace(' ', '-')}) | {links} |"
    yield ""


def anchor(name: str, earlier: Counter[str]) -> str:
    """The anchor of a name's heading, after those of earlier ones."""
    text = name.lower()
    earlier[text] += 1
    return text if earlier[text] == 1 else f"{text}_{earlier[text] - 1}"


def blocks_of(module_name: str) -> Iterator[str]:
    """The blocks of a module's page; constants have their docstrings in the source.

    Raises:
        ValueError: A constant has none.
    """
    module = import_module(f"pegboard.{module_name}")
    yield f"# `{module.__name__}`\n"
    yield from map("{}\n".format, paragraphs(inspect.getdoc(module) or ""))
    constants: dict[str, str] = {}
    own = [f"{module.__name__}.{each}" for each in tables_of(module).values()]
    for origin in [*sources_of(module), *own, module.__name__]:  # the last one that has a name counts
        constants |= constants_in(Path(str(import_module(origin).__file__)))
    for name in sorted(public_in(module), key=lambda name: (not name.isupper(), name.lower(), name)):
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing)):
            yield from described(name, thing)
        elif not constants.get(name):
            raise ValueError(f"{module.__name__}.{name} has no docstring")
        else:
            yield f"### `{name}`\n"
            yield from map("{}\n".format, paragraphs(constants[name]))


def tables_of(module: ModuleType) -> dict[str, str]:
    """Name -> module of a package's table of names, which are imported at first use."""
    return getattr(module, "_MODULES", {})


def sources_of(module: ModuleType) -> list[str]:
    """Our modules from which a module imports."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    found = [str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom)]
    return [name for name in found if name.partition(".")[0] == "pegboard"]


def public_in(module: ModuleType) -> set[str]:
    """The public names of a module: what it defines, its imports of the form `A as A`, and its table of names."""
    path = Path(str(module.__file__))
    names = {*tables_of(module), *constants_in(path)}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names |= {each.name for each in node.names if each.asname == each.name}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
    listed = set(getattr(module, "__all__", names)) | {*tables_of(module)}
    return {name for name in names & listed if not name.startswith("_")}


def constants_in(path: Path) -> dict[str, str]:
    """The constants of a module with the docstrings after them, or else the comments on their first or last lines."""
    text = path.read_text(encoding="utf-8")
    body, lines = ast.parse(text).body, text.splitlines()
    found: dict[str, str] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            docstring = after.value if isinstance(after, ast.Expr) else None
            if isinstance(docstring, ast.Constant):
                found[node.target.id] = str(docstring.value)
                continue
            ends = (lines[node.lineno - 1], lines[(node.end_lineno or node.lineno) - 1])
            comment = next((text for line in ends if (text := line.partition("  # ")[2])), "")
            found[node.target.id] = f"{comment[0].upper()}{comment[1:]}." if comment else ""
    return found


def described(name: str, thing: object) -> Iterator[str]:
    """The blocks of one name: its heading, signature, docstring, and members."""
    yield f"### `{name}`\n"
    if name in WITHOUT_DOCSTRING:
        yield f"{WITHOUT_DOCSTRING[name]}\n"
        return
    if signature := signature_of(name, thing):
        yield f"`{signature}`\n"
    yield from map("{}\n".format, paragraphs(inspect.getdoc(thing) or ""))
    if inspect.isclass(thing) and (members := list(members_of(thing))):
        yield "Members:\n"
        yield "\n".join(members) + "\n"


def members_of(cls: type) -> Iterator[str]:
    """One row of a list for each public method and property with a docstring, those of unpublished bases included."""
    classes = (each for each in reversed(cls.__mro__) if each is cls or _is_unpublished(each))
    for name, member in (item for each in classes for item in vars(each).items()):
        function = getattr(member, "__func__", member)
        text = inspect.getdoc(function)
        if name.startswith("_") or not text or not (inspect.isfunction(function) or isinstance(member, property)):
            continue
        written = signature_of(name, getattr(cls, name)) or name
        first, *_ = text.split("\n\n")
        yield f"- `{written}`: {' '.join(first.split())}"


def _is_unpublished(cls: type) -> bool:
    return cls.__module__.startswith("pegboard.") and cls.__name__ not in pegboard.__all__


def signature_of(name: str, thing: object) -> str:
    """The signature of a function, a method or a class, without types; `""` for anything that isn't called."""
    if inspect.isclass(thing):
        is_plain = is_typeddict(thing) or getattr(thing, "_is_protocol", False)
        called = not (is_plain or issubclass(thing, Exception | str | Enum))
    else:
        called = inspect.isroutine(thing)
    if not called:
        return ""
    signature = inspect.signature(cast("Callable[..., object]", thing))
    parameters = [
        parameter.replace(annotation=parameter.empty, default=written_default(parameter.default))
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    text = str(signature.replace(parameters=parameters, return_annotation=signature.empty))
    waits = "await " if inspect.iscoroutinefunction(thing) else ""
    return f"{waits}{name}{text}"


class Unwritten:
    """Placeholder for a default without a useful text."""

    def __repr__(self) -> str:
        return "..."


def written_default(value: object) -> object:
    """A default as shown in a signature."""
    plain = value is inspect.Parameter.empty or isinstance(value, PLAIN) or value in ((), {}, [])
    return value if plain else Unwritten()


def paragraphs(docstring: str) -> Iterator[str]:
    """A docstring as Markdown: one sentence a line, sections as lists, indented text as code."""
    for block in re.split(r"\n\n+(?=\S)", docstring):
        section, _, below = block.partition(":\n")
        if section in SECTIONS:
            yield from listed(section, inspect.cleandoc(below))
        else:
            text, *code = re.split(r"\n\n(?= )", block, maxsplit=1)
            yield sentences(text)
            if code:
                written = dedent(code[0]).strip()
                kind = "python" if re.match("import |from ", written) else "text"  # complete ones run as tests
                yield f"```{kind}\n{written}\n```"


def listed(section: str, text: str) -> Iterator[str]:
    """A section of a docstring: its items, or its text if it has none."""
    items = re.findall(r"^(\*{0,2}[\w.]+(?:, [\w.]+)*): (.*(?:\n +.*|\n(?=\n +))*)", text, re.MULTILINE)
    if section in ("Returns", "Yields") or not items:
        yield sentences(f"{section}: {text}")
    else:
        yield f"{section}:"
        yield "\n".join(f"- `{name}`: {' '.join(description.split())}" for name, description in items)


def sentences(text: str) -> str:
    """A paragraph with a sentence a line; lists keep their lines."""
    if re.search(r"^[-*] ", text, re.MULTILINE):
        return text
    return re.sub(r"(?<=[a-z0-9)`\"][.!?]) (?=[A-Z`*])", "\n", " ".join(text.split()))


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
