"""What is public, and which private parts of pegboard a package uses, by its source; nothing is imported."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pegboard.files import read_bounded
from pegboard.typing import frozen

if TYPE_CHECKING:
    from pegboard.plugins.discovery import FoundPlugin

_PUBLIC: Final = (
    "errors messages events approval backends permissions execution worker tools toolsets toolsets.predicates "
    "toolsets.expression request schema schema.converter schema.structure cli config testing callbacks threads "
    "programs json text files lazy typing"
)
PUBLIC: Final = ("pegboard", *(f"pegboard.{name}" for name in _PUBLIC.split()))
"""The modules that packages may import; the architecture page says what each is for."""
_CORE: Final = Path(__file__).parents[1]
_MOST_BYTES: Final = 1024 * 1024
_MOST_LISTED: Final = 3
_PLACE: Final = re.compile(r"pegboard(?:\.\w+)*(?::\w[\w.]*)?")
_OF_MODULES: Final = ("import_module", "__import__", "find_spec", "run_module")
_OF_NAMES: Final = ("resolve_name", "lazy_call", "setattr", "delattr", "patch")


@frozen(order=True)
class PrivateUse:
    """A use of a private part of pegboard in a package's source."""

    file: str
    line: int  # from 1
    name: str  # what is used, dotted

    def __str__(self) -> str:
        public = _public_name(self.name)
        return f"{self.file}:{self.line}: {self.name}{f' (use {public})' if public else ''}"


def plugin_uses(found: FoundPlugin) -> str | None:
    """A sentence on the private parts of pegboard that a plugin's package uses; `None` if none, or it is too large."""
    place = found.place()
    if place is None or found.module.partition(".")[0] == "pegboard":
        return None
    uses = sorted(private_uses(found.sources() or (), place.parent))
    if not uses:
        return None
    more = f"; and {len(uses) - _MOST_LISTED} more" if len(uses) > _MOST_LISTED else ""
    listed = "; ".join(map(str, uses[:_MOST_LISTED]))
    return f"it uses private parts of pegboard, which may change with each release: {listed}{more}"


def private_uses(files: Iterable[str], root: Path) -> Iterator[PrivateUse]:
    """The private uses in source files that can be read and parsed, named by their paths from `root`."""
    for file in files:
        if file.endswith(".py"):
            with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                yield from _uses_in(str(Path(file).relative_to(root)), read_bounded(file, _MOST_BYTES))


def _uses_in(file: str, source: bytes) -> Iterator[PrivateUse]:
    if b"pegboard" not in source:
        return
    with warnings.catch_warnings(action="ignore"):  # on strings with odd escapes
        nodes = list(ast.walk(ast.parse(source)))  # a parent before its parts
    bound: dict[str, str] = {}
    for line, name, module in {*_in_imports(nodes, bound), *_in_strings(nodes)} | {*_in_attributes(nodes, bound)}:
        if name.partition(".")[0] == "pegboard" and is_private(name, module):
            yield PrivateUse(file, line, name)


def is_private(name: str, module: str = "pegboard") -> bool:
    """Whether a dotted name is in a module that isn't public, or has a part that begins with one underscore.

    `module` is the part of the name that certainly is a module, whether it exists or not.
    """
    parts, inside = name.split(".", 9), list[str]()
    while (found := ".".join(parts)) != module and found not in _modules():
        inside.append(parts.pop())
    return found not in PUBLIC or any(part.startswith("_") and not part.startswith("__") for part in inside)


@cache
def _modules() -> frozenset[str]:
    """The names of pegboard's modules; the file system may ignore case, so that a class could pass for its module."""
    paths = (Path(folder, file) for folder, _, files in os.walk(_CORE) for file in files if file.endswith(".py"))
    parts = (("pegboard", *path.relative_to(_CORE).with_suffix("").parts) for path in paths)
    return frozenset((*PUBLIC, *(".".join(part).removesuffix(".__init__") for part in parts)))


def _in_imports(nodes: Iterable[ast.AST], bound: dict[str, str]) -> Iterator[tuple[int, str, str]]:
    """The line, the dotted name, and the part of it that is a module, of each import; `bound` gets the modules."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, alias.name
                top = alias.name.partition(".")[0]
                bound[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield node.lineno, name, node.module
                if name in _modules():
                    bound[alias.asname or alias.name] = name


def _in_attributes(nodes: Iterable[ast.AST], bound: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    """The same of each chain of attributes that begins with a module."""
    inner = set[ast.AST]()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            inner.add(node.value)
            if node in inner:  # a part of a chain: each chain is followed once, from its end
                continue
            base, rest = node, list[str]()
            while isinstance(base, ast.Attribute):
                rest.append(base.attr)
                base = base.value
            if isinstance(base, ast.Name) and base.id in bound:
                yield node.lineno, ".".join([bound[base.id], *reversed(rest)]), bound[base.id]


def _in_strings(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str, str]]:
    """The same of each text that names something to import, fixed or an f-string."""
    functions: dict[ast.AST, str] = {}
    for node in nodes:
        if isinstance(node, ast.Call):
            given = [*node.args, *(each.value for each in node.keywords if each.arg == "name")]
            functions |= dict.fromkeys(given, getattr(node.func, "attr", getattr(node.func, "id", "")))
        elif isinstance(node, ast.Constant) and isinstance(text := node.value, str) and _PLACE.fullmatch(text):
            module, colon, _ = text.partition(":")
            if colon or functions.get(node) in _OF_MODULES:
                yield node.lineno, text.replace(":", "."), module
            elif functions.get(node) in _OF_NAMES:
                yield node.lineno, text, "pegboard"
        elif isinstance(node, ast.JoinedStr) and functions.get(node) in _OF_MODULES:
            text = ast.unparse(node)[2:-1]
            yield node.lineno, text, text


def _public_name(name: str) -> str | None:
    """A name where it is public; `pegboard` comes first, then a package that has the private module."""
    last = name.rpartition(".")[2]
    if not last.isidentifier() or last.startswith("_"):  # such as `*`
        return None
    published = re.compile(
        rf"^(?:class |def |async def )?{last}\b(?=[(\[: =])|\b{last} as {last}\b"
        rf'|^ +(?:"[\w.]+": )?"[\w ]*\b{last}\b[\w ]*",?$',
        re.MULTILINE,
    )
    for module in sorted(PUBLIC, key=lambda module: (module != "pegboard", not name.startswith(f"{module}."))):
        path = _CORE.joinpath(*module.split(".")[1:])
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if published.search(path.read_text(encoding="utf-8")):
            return f"{module}.{last}"
    return None
