"""Plugins of llm that tests write, installed for the test alone."""

from __future__ import annotations

import importlib
import sys
from itertools import count
from textwrap import dedent

import pytest

_numbers = count()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a plugin of llm: `install("llm-tools-x", code)`; returns its module's name."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def install(distribution, code, entry=None, *, module=None, group="llm"):
        module = module or f"{distribution.replace('-', '_')}_{next(_numbers)}"
        (site / f"{module}.py").write_text("import llm\n" + dedent(code))
        facts = site / f"{distribution.replace('-', '_')}-1.dist-info"
        facts.mkdir(exist_ok=True)
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
        (facts / "entry_points.txt").write_text(f"[{group}]\n{entry or module} = {module}\n")
        importlib.invalidate_caches()
        return module

    yield install
    for name in [
        name for name, module in sys.modules.items() if str(site) in (getattr(module, "__file__", None) or "")
    ]:
        del sys.modules[name]
