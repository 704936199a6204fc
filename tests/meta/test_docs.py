"""The documentation is complete, and all its pages are reachable."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import tomllib
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from re import Pattern
from textwrap import dedent
from typing import Annotated, Any, Literal, NamedTuple, NewType, Required, TypedDict, get_args
from uuid import UUID

import attrs
import pytest

import pegboard
from pegboard import ResultLimits, errors, events, schema_of
from pegboard.catalogue import Status
from pegboard.config import parse_config
from pegboard.errors import ConfigError
from pegboard.events import AnyCallEvent
from pegboard.plugins import hookspecs
from pegboard.tools import ErrorKind
from pegboard.tools.content import CONTENT_TYPES
from pegboard.tools.options import ToolOptions
from pegboard.toolsets.predicates import FLAGS, KEYS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
DECISIONS = "explanation/decisions"
RECORDS = [page for page in PAGES if re.match(rf"{DECISIONS}/\d", page)]
BLOCK = re.compile(r"^```.*?^```|<!--.*?-->", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def prose_of(page: str) -> str:
    """A page without code blocks and comments."""
    return BLOCK.sub("", text_of(page))


def words_in(page: str) -> set[str]:
    """Every word in backticks."""
    return {word for span in SPAN.findall(prose_of(page)) for word in re.findall(r"[\w.]+", span)}


def cells(row: str) -> list[str]:
    """The cells of a table's row; a bar inside one is written as `\\|`."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


# The site -----------------------------------------------------------------------------------------------------------


def test_the_nav_has_every_page_once() -> None:
    """Decision records are in their index instead. mkdocs.yml is read as text, so that the tests need no YAML."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    assert sorted(re.findall(r"(\S+\.md)$", nav, flags=re.MULTILINE)) == [page for page in PAGES if page not in RECORDS]


def test_the_start_page_groups_the_guides_as_the_nav_does() -> None:
    """Under the same headings; in another order where one task takes two guides."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\n  - How to:\n")[2].partition("\n  - ")[0]
    parts = re.split(r"^      - (.+):$", nav, flags=re.MULTILINE)[1:]
    for group, pages in zip(parts[::2], parts[1::2], strict=True):
        section = text_of("index.md").partition(f"\n## {group}\n")[2].partition("\n## ")[0]
        assert set(re.findall(r"\S+\.md", pages)) == {target.partition("#")[0] for target in LINK.findall(section)}


def test_the_index_of_decisions_has_every_record_once_in_order() -> None:
    """By its number, which is the file's and the title's too."""
    rows = re.findall(r"^\| \[(\d+)\. [^\]]+\]\((\S+)\) \| \S.*\. \|$", text_of(f"{DECISIONS}/index.md"), re.MULTILINE)
    assert [f"{DECISIONS}/{file}" for _, file in rows] == RECORDS
    for number, (shown, file) in enumerate(rows, 1):
        assert (shown, file[:4]) == (str(number), f"{number:04}")
        assert text_of(f"{DECISIONS}/{file}").startswith(f"# {number}. ")


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_says_what_was_rejected_and_what_would_change_it(record: str) -> None:
    """In sections of their own, the latter at the end."""
    sections = re.findall(r"^## (.+)$", text_of(record), re.MULTILINE)
    assert sections[-2:] == ["Rejected", "What would change this"]


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    """To a page, and to a heading if the link names one."""
    for target in LINK.findall(SPAN.sub("", prose_of(page))):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        led = ((DOCS / page).parent / path).resolve() if path else DOCS / page
        assert led.is_relative_to(DOCS), f"{page} links to {target}, which isn't part of the site"
        assert led.is_file(), f"{page} links to {target}, which doesn't exist"
        assert not heading or heading in headings(led), f"{page} links to {target}: there is no such heading"


def headings(page: Path) -> set[str]:
    """The headings of a page, as anchors; of equal ones, the later are numbered."""
    found = re.findall(r"^#+ +(.+)$", BLOCK.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    texts = [re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in found]
    numbers = [texts[:index].count(text) for index, text in enumerate(texts)]
    return {f"{text}_{number}" if number else text for text, number in zip(texts, numbers, strict=True)}


@pytest.mark.parametrize("page", PAGES)
def test_a_paragraph_has_one_sentence_a_line(page: str) -> None:
    """Tables and lists may have more."""
    for line in prose_of(page).splitlines():
        if line[:1].isalpha():
            assert not re.search(r"[a-z0-9)`\"][.!?] [A-Z`*]", line), f"{page}: {line}"


# Completeness -------------------------------------------------------------------------------------------------------

HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("pegboard_")}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_are_documented_with_their_arguments(name: str) -> None:
    """In a row of a table with the arguments in its second cell, or with its signature."""
    page = text_of("reference/hooks.md")
    rows = [cells(row) for row in page.splitlines() if row.startswith(f"| `{name}` |")]
    documented = [SPAN.findall(row[1]) for row in rows]
    documented += [arguments.split(", ") for arguments in re.findall(rf"`{name}\(([^)]*)\)`", page)]
    assert list(inspect.signature(HOOKS[name]).parameters) in documented


ROWS = {  # page: the first cells of rows in its tables
    "reference/results.md": [
        *get_args(ErrorKind),
        *(f"{content.__name__}({', '.join(attrs.fields_dict(content))})" for content in CONTENT_TYPES),
    ],
    "reference/calls.md": [f"{event.__name__}` | `{event.type}" for event in get_args(AnyCallEvent)],
    "reference/predicates.md": [*FLAGS, *KEYS, "state.KEY"],
    "reference/hooks.md": get_args(Status),
}


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, names in ROWS.items() for name in names])
def test_each_name_has_a_row(page: str, name: str) -> None:
    """Kinds of errors, content types, events, words of predicates, and states of plugins."""
    assert f"\n| `{name}` |" in text_of(page)


def test_every_call_event_is_public() -> None:
    assert all(getattr(events, event.__name__) is event for event in get_args(AnyCallEvent))


def test_limits_are_documented_with_their_defaults() -> None:
    """The defaults are written as in Python."""
    section = text_of("reference/calls.md").partition("\n## Limits\n")[2]
    rows = [cells(line) for line in section.splitlines() if line.startswith("| `")]
    documented = {row[0].strip("`"): eval(row[2].strip("`")) for row in rows}
    assert documented == attrs.asdict(pegboard.Limits(), recurse=False)


@pytest.mark.parametrize(
    ("page", "options"), [("reference/api.md", pegboard.BatchOptions), ("how-to/define-tools.md", ToolOptions)]
)
def test_options_are_documented(page: str, options: type) -> None:
    assert set(options.__annotations__) <= words_in(page)


ERRORS = [
    thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, errors.PegboardError)
]


def tree_in(text: str) -> list[str]:
    """The lines of the tree of exceptions, up to each name."""
    lines = dedent("\n".join(line for line in text.splitlines() if re.match(r"[\s│├└─]*\w+Error\b", line)))
    return re.findall(r"^\W*\w+Error\b", lines, re.MULTILINE)


def drawn_errors(tree: list[str]) -> set[tuple[str, str]]:
    """Each exception of a drawing and its base; that of the root is `Exception`."""
    found: set[tuple[str, str]] = set()
    above = {-4: "Exception"}
    for line in tree:
        name = line.strip("│├└─ ")
        depth = len(line) - len(name)
        above[depth] = name
        found.add((name, above[depth - 4]))
    return found


def test_exceptions_are_drawn_as_in_the_code() -> None:
    drawn = tree_in(text_of("reference/errors.md").partition("```text\n")[2].partition("```")[0])
    assert drawn_errors(drawn) == {(error.__name__, error.__bases__[0].__name__) for error in ERRORS}


@pytest.mark.parametrize("error", ERRORS[1:], ids=lambda error: error.__name__)
def test_exceptions_are_documented_with_their_fields(error: type[Exception]) -> None:
    """Each has a row with its own fields."""
    (row,) = (
        line for line in text_of("reference/errors.md").splitlines() if line.startswith(f"| `{error.__name__}` |")
    )
    initialiser = vars(error).get("__init__")
    own = re.findall(r"self\.(\w+) = ", inspect.getsource(initialiser)) if initialiser else []
    assert set(own) <= set(SPAN.findall(cells(row)[2]))


@pytest.mark.slow
def test_the_pages_of_public_names_are_up_to_date() -> None:
    """Run `python scripts/api_page.py` if this fails."""
    pages = runpy.run_path(str(ROOT / "scripts" / "api_page.py"))["pages"]()
    assert {path: path.read_text(encoding="utf-8") for path in pages} == pages
    assert {*(ROOT / "docs" / "reference" / "api").glob("*.md")} < {*pages}


def test_configuration_keys_are_documented() -> None:
    """The table has the keys that the parser accepts."""
    with pytest.raises(ConfigError) as refused:
        parse_config(b"zzzzzzzz = 1", "pegboard.toml")
    known = str(refused.value).partition(" There are ")[2].rstrip(".").split(", ")
    keys = [cells(line)[0] for line in text_of("reference/configuration.md").splitlines() if line.startswith("| `")]
    assert [f"`{key}`" for key in known] == keys[: len(known)]


# The table of types -------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Person(TypedDict, total=False):
    name: Required[str]
    age: int


class Pair(NamedTuple):
    left: str
    right: str = ""


@attrs.frozen
class Point:
    x: int
    y: int = 0


@attrs.frozen
class Circle:
    kind: Literal["circle"]
    radius: float


@attrs.frozen
class Square:
    kind: Literal["square"]
    side: float


@attrs.frozen
class Node:
    value: int
    children: list[Node] = attrs.field(factory=list)  # pyright: ignore[reportUnknownVariableType]


@attrs.frozen
class Ge:
    ge: int


@attrs.frozen
class Lt:
    lt: int


@attrs.frozen
class Len:
    min_length: int
    max_length: int | None = None


UserId = NewType("UserId", int)
SEEN = (Annotated, Any, Decimal, Path, Pattern, ResultLimits, UUID, date, datetime, time, timedelta)
"""Imported for expressions on pages, which are evaluated here."""

TYPES = [
    (cells(row)[0].strip("`"), cells(row)[1].strip("`"))
    for row in text_of("reference/types.md").splitlines()
    if row.startswith("| `") and cells(row)[1].startswith("`{")
]


def test_the_table_of_types_is_long() -> None:
    """So that a change of its format doesn't pass unnoticed."""
    assert len(TYPES) > 30


@pytest.mark.parametrize(("written", "schema"), TYPES, ids=[written for written, _ in TYPES])
def test_types_have_the_documented_schemas(written: str, schema: str) -> None:
    assert schema_of(eval(written)) == json.loads(schema)


def test_each_fragment_of_the_changelog_has_a_name_and_a_known_kind():
    """Others would be left out, or taken for those of a numbered change."""
    kinds = {
        each["directory"] for each in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    }
    names = {path.name for path in ROOT.glob("changelog.d/*")} - {"README.md"}
    assert {name for name in names if not name.startswith("+") or name.split(".")[-2] not in kinds} == set()
