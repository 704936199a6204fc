"""Private uses of pegboard are found by reading a package's source."""

from __future__ import annotations

import runpy
import time
from pathlib import Path

import pytest

from installed import write
from pegboard.plugins.imports import PUBLIC, _modules, is_private, private_uses

USES = [
    (
        "from pegboard.dispatch.events import CallFailed",
        ["dispatch.events.CallFailed (use pegboard.events.CallFailed)"],
    ),
    ("from pegboard.tools.content import (\n  BINARY, # x\n)", ["tools.content.BINARY (use pegboard.tools.BINARY)"]),
    ("def f():\n    from pegboard.tools import Handler, spec", ["tools.spec"]),
    ("from pegboard.tools import (\n  Handler,  # a (b)\n  spec,\n)", ["tools.spec"]),
    ("from pegboard import tool, \\\n    registry as r", ["registry"]),
    ("from pegboard.tools.spec import HOST as H", ["tools.spec.HOST (use pegboard.tools.HOST)"]),
    ("from pegboard import *\nfrom pegboard.schema import converter, types", ["schema.types"]),
    ("from pegboard import _MODULES", ["_MODULES"]),
    ("from pegboard.config.config import Config", ["config.config.Config (use pegboard.Config)"]),  # no such module
    ("if TYPE_CHECKING:\n    import pegboard.catalogue as c", ["catalogue"]),
    ("import os, pegboard\npegboard.turn.loop.Loop()", ["turn.loop.Loop"]),
    (
        "import pegboard.tools as t\ndef f(): return t._MODULES, t.spec.HOST",
        ["tools._MODULES", "tools.spec.HOST (use pegboard.tools.HOST)"],
    ),
    ("from pegboard import errors as e\ne._text('a').b", ["errors._text"]),
    ("import_module('pegboard.no.longer.there')", ["no.longer.there"]),
    ("importlib.import_module(\n  'pegboard.registry')", ["registry"]),
    ("__import__('pegboard.registry')", ["registry"]),
    ("import_module(name='pegboard.registry')", ["registry"]),
    ("from pegboard.dispatch import *", ["dispatch.*"]),
    ("import_module(f'pegboard.dispatch.{f(a.b)}')", ["dispatch.{f(a.b)}"]),
    ("import_module(\n  f'pegboard.{x}')", ["{x}"]),
    ("x = lazy_call('pegboard.no.longer:there')", ["no.longer.there"]),
    ("pkgutil.resolve_name('pegboard.registry.ToolRegistry')", ["registry.ToolRegistry (use pegboard.ToolRegistry)"]),
    ("POINTS = {'a': 'pegboard.registry:ToolRegistry.call'}", ["registry.ToolRegistry.call"]),
    ("monkeypatch.setattr('pegboard.threads._pool', 1)", ["threads._pool"]),
]
CLEAN = [
    "from pegboard import ToolRegistry, errors, tool\nfrom pegboard.schema import converter",
    "import pegboard.schema.structure, pegboard\npegboard.ToolRegistry, pegboard.events.CallFailed, pegboard.__all__",
    "from pegboard.tools import *",
    "from pegboard_files.spec import _x\nimport pegboard_files.registry",
    "from .pegboard import registry\nfrom . import pegboard\npegboard_registry = pegboard.x.registry",
    "'''Uses pegboard.registry, and from pegboard import registry.'''  # import pegboard.registry",
    "logging.getLogger('pegboard.dispatch')\nopen('pegboard.toml')\nx = 'pegboard.registry'",
    "lazy_call('pegboard.tools:Handler')\nf'pegboard.{name}:X'",
    "from pegboard.registry import (",
    "from pegboard.registry import x\0",
]


def found_in(folder, source: str | bytes) -> list[str]:
    write(folder / "a/b.py").write_bytes(source if isinstance(source, bytes) else source.encode())
    return [str(use) for use in sorted(private_uses([str(folder / "a/b.py")], folder))]


@pytest.mark.parametrize(("source", "uses"), USES)
def test_private_uses_are_found_with_their_line_and_public_place(tmp_path, source: str, uses: list[str]) -> None:
    found = found_in(tmp_path, f'"""\\d"""\n\n{source}\n')
    assert [use.partition(": ")[2] for use in found] == [f"pegboard.{use}" for use in uses]
    assert {use.partition(": ")[0] for use in found} <= {f"a/b.py:{line}" for line in range(3, 6)}


@pytest.mark.parametrize("source", CLEAN)
def test_public_uses_and_unreadable_files_are_not_reported(tmp_path, source: str) -> None:
    assert found_in(tmp_path, source) == []


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"# coding: latin-1\n#\xe4\n", b"'\xff'\n"])
def test_any_encoding_is_read(tmp_path, before: bytes) -> None:
    """Or left out, as Python can't read the file either."""
    assert len(found_in(tmp_path, before + b"import pegboard.registry")) == (b"\xff" not in before)


@pytest.mark.slow
def test_no_package_imports_a_module_by_a_name_that_is_computed() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "private_uses.py"))
    assert script["uses"]() == []
    names = ["f'pegboard.{x}'", "'pegboard.' + x", "x", "*x", "name=x", "**x", "'pegboard.x'", "name='re2'", ""]
    names.append("'.x', 'a'")
    source = "\n".join([*(f"import_module({name})" for name in names), "a.import_module(x)", "b = __import__(x)"])
    assert [use.line for use in script["computed_imports"]("a.py", source)] == [1, 2, 3, 4, 5, 6, 10, 11, 12]


def test_large_and_deep_files_and_other_than_pythons_are_left_out(tmp_path) -> None:
    use = "import pegboard.registry\n"
    assert found_in(tmp_path, use + "#" * 1024 * 1024) == []
    assert found_in(tmp_path, use + "-" * 100_000 + "1") == []
    text = write(tmp_path / "a.txt", use)
    assert list(private_uses([str(text), str(tmp_path / "missing.py")], tmp_path)) == []


def test_long_chains_of_attributes_take_no_longer_than_short_ones(tmp_path) -> None:
    times = []
    for length in (10, 900):
        lines = ["import pegboard.registry as r", *["r" + ".a" * length] * (20_000 // length)]
        file = write(tmp_path / "chains.py", "\n".join(lines))
        start = time.process_time()
        assert len([*private_uses([str(file)], tmp_path)]) == len(lines)
        times.append(time.process_time() - start)
    assert times[1] < 5 * times[0]


def test_every_private_module_of_the_core_is_found_in_any_form(tmp_path) -> None:
    """And no public one."""
    for module in _modules():
        parent, _, name = module.rpartition(".")
        forms = [f"import {module}", f"from {module} import x", f"import_module('{module}')", f"f('{module}:x')"]
        forms += [f"from {parent} import {name}"] if parent else []
        file = write(tmp_path / "all.py", "\n".join(forms))
        found = sorted(private_uses([str(file)], tmp_path))
        assert [use.line for use in found] == ([] if module in PUBLIC else [*range(1, len(forms) + 1)])
        assert {use.name.removesuffix(".x") for use in found} <= {module}
        assert is_private(module) is (module not in PUBLIC)
