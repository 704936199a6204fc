"""Prints metrics of the code with their limits and goals.

python scripts/house.py

The exit code is 1 if a metric exceeds its limit. A limit is the current value until the goal is reached; it is lowered
with the value, and raised only for new features, named in a comment. `scripts/trace_call.py` measures one call.
"""

from __future__ import annotations

import ast
import json
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [ROOT / "src" / "pegboard", *sorted(ROOT.glob("plugins/*/src/*/"))]
# The plugins in the limit of the tests' lines; for the others only "tests per line" applies.
FIRST = ["anthropic", "bedrock", "clients", "google", "guard", "ollama", "openai", "processes", "search"]
COMMANDS = "commands"  # a folder of verbs: a command may have the name of its subject
BRIEF = 5  # lines; a file with no more only marks a package


class Limit(NamedTuple):
    """Bounds of a metric: from `least` to `most`; `goal` is the intended `most`."""

    most: float
    goal: float | None = None
    least: float = 0


RULES = {  # of every package
    "longest file": Limit(700),
    "largest folder": Limit(20),
    "file names twice": Limit(0),
    "class names twice": Limit(0),
    "import cycles": Limit(0),
    "files in cycles": Limit(0),
    "tests per line": Limit(1.5),  # lines of a plugin's own tests for one of its own
}
LIMITS: Mapping[str, Mapping[str, Limit]] = {  # of one package, overriding the rules
    "pegboard": {
        "files": Limit(140),
        "lines": Limit(43_850),
        "median file": Limit(400, least=200),
        "longest file": Limit(700),
        "largest folder": Limit(20),
        "file names twice": Limit(8),
        "class names twice": Limit(0),
    },
    "one call": {
        "files": Limit(13),
        "functions": Limit(25),
        "files, realistic": Limit(14),
        "functions, realistic": Limit(30),
        "modules loaded": Limit(260, goal=250),
        "modules loaded, ours": Limit(65),
    },
    # Of the core and of the first plugins; 2,600 of them are attacks on rules and approvals.
    "tests": {"lines": Limit(65_000)},
}


def figures_of(package: Path) -> dict[str, float]:
    """The metrics of one package's source files."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lines = {path: text.count("\n") for path, text in texts.items()}
    cycles = cycles_among(imports_among(package, trees))
    return {
        "files": len(texts),
        "lines": sum(lines.values()),
        "median file": statistics.median([count for count in lines.values() if count > BRIEF] or [0]),
        "longest file": max(lines.values()),
        "largest folder": max(Counter(path.parent for path in texts).values()),
        "file names twice": twice(
            path.name for path in texts if path.name != "__init__.py" and path.parent.name != COMMANDS
        ),
        "class names twice": twice(
            node.name
            for tree in trees.values()
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ),
        "import cycles": len(cycles),
        "files in cycles": sum(map(len, cycles)),
    }


def twice(names: Iterable[str]) -> int:
    """The number of names that occur more than once."""
    return sum(count > 1 for count in Counter(names).values())


def imports_among(package: Path, trees: Mapping[Path, ast.Module]) -> dict[str, set[str]]:
    """The modules that each module imports, also in functions and for type checkers; without `__init__`."""
    names = {
        ".".join((package.name, *path.relative_to(package).with_suffix("").parts)): path
        for path in trees
        if path.name != "__init__.py"
    }
    return {
        name: {found for found in imported_by(trees[path]) if found in names} - {name} for name, path in names.items()
    }


def imported_by(tree: ast.Module) -> Iterator[str]:
    """The absolute names that a module imports; of `from a import b` both `a` and `a.b`, as either may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def cycles_among(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """The import cycles as sets of modules, the largest first."""
    reached = {name: reachable(imports, name) for name in imports}
    cycles = {frozenset(other for other in reached[name] if name in reached[other]) for name in imports}
    return sorted((set(cycle) for cycle in cycles if len(cycle) > 1), key=len, reverse=True)


def reachable(imports: Mapping[str, set[str]], start: str) -> set[str]:
    """All modules that a module imports transitively; itself only in a cycle."""
    found: set[str] = set()
    ahead = list(imports[start])
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead.extend(imports[name])
    return found


def figures_of_a_call() -> dict[str, float]:
    """The files and functions that one warm call enters, and the modules that its program loads."""
    trivial, realistic = (
        json.loads(
            subprocess.run(
                [sys.executable, str(ROOT / "scripts" / "trace_call.py"), *options],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for options in ([], ["--realistic"])
    )
    return {
        "files": trivial["files"],
        "functions": trivial["functions"],
        "files, realistic": realistic["files"],
        "functions, realistic": realistic["functions"],
        "modules loaded": realistic["modules"],
        "modules loaded, ours": realistic["own_modules"],
    }


def lines_in(*folders: Path) -> int:
    """The number of lines of Python in folders."""
    return sum(path.read_text(encoding="utf-8").count("\n") for folder in folders for path in folder.rglob("*.py"))


def figures_of_the_tests() -> dict[str, float]:
    """The lines of the tests of the core and the first plugins, and of all plugins."""
    first = [ROOT / "plugins" / f"pegboard-{name}" / "tests" for name in FIRST]
    everything = lines_in(ROOT / "tests", *ROOT.glob("plugins/*/tests"))
    return {"lines": lines_in(ROOT / "tests", *first), "lines, all plugins": everything}


def main() -> int:
    """Prints the table; gives the exit code."""
    found = {package.name: figures_of(package) for package in PACKAGES}
    for plugin in PACKAGES[1:]:
        found[plugin.name]["tests per line"] = round(lines_in(plugin.parents[1] / "tests") / lines_in(plugin), 2)
    found |= {"one call": figures_of_a_call(), "tests": figures_of_the_tests()}
    failed = 0
    for part, figures in found.items():
        print(f"\n{part}")
        limits = {**RULES, **LIMITS.get(part, {})}
        for name, value in figures.items():
            limit = limits.get(name)
            beyond = limit is not None and not limit.least <= value <= limit.most
            failed += beyond
            print(f"  {name:22}{value:>9,g}   {described(limit)}{'   TOO MUCH' if beyond else ''}".rstrip())
    for package in PACKAGES:
        trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py")}
        for cycle in cycles_among(imports_among(package, trees)):
            print(f"\nimport each other: {', '.join(sorted(cycle))}")
    print(f"\n{failed} past their limits" if failed else "\nall within their limits")
    return int(failed > 0)


def described(limit: Limit | None) -> str:
    """A limit as text."""
    if limit is None:
        return ""
    least = f"{limit.least:,g} to " if limit.least else ""
    return f"limit {least}{limit.most:,g}" + ("" if limit.goal is None else f", goal {limit.goal:,g}")


if __name__ == "__main__":
    sys.exit(main())
