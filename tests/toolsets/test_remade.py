from __future__ import annotations

import gc
import weakref

from pegboard.toolsets.toolset import Remaker, remade
from toolsets.samples import late_tool, make_tool


def shout(tool):
    return tool.with_spec(name=tool.name.upper())


def test_a_tool_found_late_is_changed_once_it_is_found():
    late, loads = late_tool(make_tool("a", description="loaded"))
    changed = remade(late, shout)
    assert (changed.name, loads.count) == ("A", 0)
    loaded = changed.handler.load()
    assert (loaded.name, loaded.spec.description, loads.count) == ("A", "loaded", 1)


def test_what_isnt_changed_is_the_same():
    late, _ = late_tool(make_tool("a"))
    assert remade(late, lambda tool: tool) is late


def test_the_same_tool_gives_the_same_tool():
    remaker, tool = Remaker(shout), make_tool("a")
    assert remaker.one(tool) is remaker.one(tool)
    assert remaker.one(make_tool("a")) is not remaker.one(tool)


def test_tools_that_are_no_longer_offered_are_forgotten():
    remaker = Remaker(shout)
    gone = [weakref.ref(tool) for tool in remaker.all([make_tool(f"t{index}") for index in range(300)])]
    kept = make_tool("kept")
    first = remaker.all([kept])
    gc.collect()
    assert not any(reference() for reference in gone)
    assert remaker.all([kept])[0] is first[0]
