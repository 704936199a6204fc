"""Prints metrics of the code beside those of the last release, with their limits and goals; of plugins a row each.

python scripts/house.py

The exit code is 1 if a metric exceeds its limit: one of `LIMITS`, or else 2 % more than in the last release.
`scripts/trace_call.py` measures one call.
"""

from __future__ import annotations

import ast
import json
import statistics
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pegboard
from pegboard.plugins.imports import PUBLIC, private_uses

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "src" / "pegboard"
PACKAGES = [CORE, *sorted(ROOT.glob("plugins/*/src/*/"))]
# The plugins in the limit of the tests' lines; for the others only "tests per line" applies.
FIRST = ["anthropic", "bedrock", "clients", "google", "guard", "ollama", "openai", "processes", "search"]
COMMANDS = "commands"  # a folder of verbs: a command may have the name of its subject
COLUMNS = ["files", "lines", "lines in 0.2.0", "median file", "longest file", "tests per line"]  # of a plugin
BRIEF = 5  # lines; a file with no more only marks a package


class Limit(NamedTuple):
    """Bounds of a metric: from `least` to `most`, by default `GROWTH` times the last release's; `goal` is intended."""

    most: float | None = None
    goal: float | None = None
    least: float = 0


RULES = {  # of every package
    "longest file": Limit(600),
    "largest folder": Limit(20),
    "file names twice": Limit(0),
    "class names twice": Limit(0),
    "import cycles": Limit(0),
    "files in cycles": Limit(0),
    "tests per line": Limit(1.5),  # lines of a plugin's own tests for one of its own
}
LIMITS: Mapping[str, Mapping[str, Limit]] = {  # of one package, overriding the rules
    "pegboard": {
        "files": Limit(160),  # of a concept each: a file that holds two is split
        "lines": Limit(goal=43_900),
        "median file": Limit(400, least=200),
        "largest folder": Limit(22),
        "file names twice": Limit(9),  # the public modules of a topic have the name of what they publish
        "class names twice": Limit(0),
    },
    # Since 0.2.0: the changes of a turn, checks after an edit, notebooks, and others; conditions, gates and windows.
    "pegboard_files": {"lines": Limit(5_800)},
    "pegboard_guard": {"lines": Limit(4_160)},
    # In the own loops of seven frameworks; in child processes, programs and servers.
    "pegboard_adapters": {"tests per line": Limit(1.6)},
    "pegboard_otel": {"tests per line": Limit(1.6)},
    "one call": {
        "files": Limit(13),
        "functions": Limit(25),
        "files, realistic": Limit(14),
        "functions, realistic": Limit(14),
        "modules loaded": Limit(220),
        "modules loaded, ours": Limit(56),
    },
    "interface": {
        "private imports": Limit(0),
        "upward by a string": Limit(0),
        "root names": Limit(110),
        "tests' public, %": Limit(100, least=70),
        "registry's members": Limit(33),
        "writers of a state": Limit(1),
    },
    # Of the core and of the first plugins. Since 0.2.0: 2,600 of attacks on rules and approvals, 2,000 of what adapters
    # need, 2,500 of executors and what processes share, 1,000 of locks and transforms.
    "tests": {"lines": Limit(79_500)},
}
GROWTH = 1.02
RELEASED: Mapping[str, Mapping[str, float]] = {  # the metrics of 0.2.0; those of the next release replace them
    "pegboard": {
        "files": 140,
        "lines": 46_894,
        "median file": 367,
        "longest file": 696,
        "largest folder": 16,
        "file names twice": 7,
    },
    "pegboard_anthropic": {"lines": 1_341},
    "pegboard_bedrock": {"lines": 1_337},
    "pegboard_files": {"lines": 2_204},
    "pegboard_google": {"lines": 1_829},
    "pegboard_guard": {"lines": 2_711},
    "pegboard_ollama": {"lines": 635},
    "pegboard_openai": {"lines": 2_994},
    "pegboard_processes": {"lines": 1_872},
    "one call": {
        "files": 13,
        "functions": 26,
        "files, realistic": 14,
        "functions, realistic": 30,
        "modules loaded": 250,
        "modules loaded, ours": 63,
    },
    "tests": {"lines": 69_375},
}


def limit_of(part: str, metric: str) -> Limit | None:
    """The limit of a metric of a package, or of another part of the table; `None`: it has none."""
    limits, released = {**RULES, **LIMITS.get(part, {})}, RELEASED.get(part, {}).get(metric)
    limit = limits.get(metric, Limit() if released is not None else None)
    if limit is not None and limit.most is None:
        assert released is not None, f"{part}: {metric} has neither a limit nor a value of the last release"
        return limit._replace(most=GROWTH * released)
    return limit


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
    yield from imported_by_string(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_by_string(tree: ast.Module) -> Iterator[str]:
    """The names that a module imports by `import_module("NAME")`, which its import statements don't show."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(name := node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if function in ("import_module", "__import__") and isinstance(name.value, str):
                yield name.value


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


def imports_of_the_core(*folders: Path) -> list[str]:
    """The module of each `from pegboard... import` and `import pegboard...` in folders."""
    found: list[str] = []
    for path in (path for folder in folders for path in sorted(folder.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                found.append(node.module)
            elif isinstance(node, ast.Import):
                found += [alias.name for alias in node.names]
    return [name for name in found if name.partition(".")[0] == "pegboard"]


def imports_upwards_by_string() -> int:
    """The imports by a fixed string of a module in a higher layer, which import-linter doesn't see."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    height = {name: level for level, names in enumerate(layers) for name in names.split(" | ")}
    count = 0
    for path in CORE.rglob("*.py"):
        own = path.relative_to(CORE).with_suffix("").parts[0]
        names = (name.split(".") for name in imported_by_string(ast.parse(path.read_text(encoding="utf-8"))))
        found = (parts[1] for parts in names if parts[0] == "pegboard" and len(parts) > 1)
        count += sum(height[layer] < height.get(own, -1) for layer in found)
    return count


def writers_of_a_state() -> int:
    """The most files that assign one attribute of a call's `state`."""
    files: dict[str, set[Path]] = {}
    for path in CORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in (part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])):
                if isinstance(target, ast.Attribute) and ast.unparse(target.value).split(".")[-1] == "state":
                    files.setdefault(target.attr, set()).add(path)
    return max(map(len, files.values()))


def figures_of_the_interface() -> dict[str, float]:
    """How far plugins, tests and the core's own files need more than what is public."""
    sources = [*ROOT.glob("plugins/*/src/**/*.py"), *ROOT.glob("examples/*/src/**/*.py")]
    tests = imports_of_the_core(ROOT / "tests")
    return {
        "private imports": len({(use.file, use.line) for use in private_uses(map(str, sources), ROOT)}),
        "upward by a string": imports_upwards_by_string(),
        "root names": len(pegboard.__all__),
        "tests' public, %": round(100 * sum(name in PUBLIC for name in tests) / len(tests)),
        "registry's members": sum(not name.startswith("_") for name in dir(pegboard.ToolRegistry)),
        "writers of a state": writers_of_a_state(),
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
    found |= {"one call": figures_of_a_call(), "interface": figures_of_the_interface()}
    found |= {"tests": figures_of_the_tests()}
    failed = print_figures(found)
    for package in PACKAGES:
        trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py")}
        for cycle in cycles_among(imports_among(package, trees)):
            print(f"\nimport each other: {', '.join(sorted(cycle))}")
    print(f"\n{failed} past their limits" if failed else "\nall within their limits")
    return int(failed > 0)


def print_figures(found: Mapping[str, Mapping[str, float]]) -> int:
    """Prints the figures of the core, and a row for each plugin; returns how many are beyond their limits."""
    plugins, beyond = [package.name for package in PACKAGES[1:]], list[str]()
    for part, figures in found.items():
        if part not in plugins:
            print(f"\n{part:24}{'now':>9}{'0.2.0':>9}")
        for name, value in figures.items():
            limit, released = limit_of(part, name), RELEASED.get(part, {}).get(name)
            is_beyond = limit is not None and not limit.least <= value <= (limit.most or 0)
            if is_beyond:
                beyond.append(f"{part}: {name} {value:,g}, {described(limit)}")
            if part not in plugins:
                before = "-" if released is None else f"{released:,g}"
                print(f"  {name:22}{value:>9,g}{before:>9}   {described(limit)}".rstrip())
    print(f"\n{'plugin':24}" + "".join(f"{name:>{len(name) + 3}}" for name in COLUMNS))
    for part in plugins:
        row = {**found[part], "lines in 0.2.0": RELEASED.get(part, {}).get("lines", "-")}
        print(f"{part:24}" + "".join(f"{row[name]:>{len(name) + 3}}" for name in COLUMNS))
    print("", *beyond, sep="\n")
    return len(beyond)


def described(limit: Limit | None) -> str:
    """A limit as text."""
    if limit is None:
        return ""
    least = f"{limit.least:,g} to " if limit.least else ""
    return f"limit {least}{limit.most:,.6g}" + ("" if limit.goal is None else f", goal {limit.goal:,g}")


if __name__ == "__main__":
    sys.exit(main())
