from __future__ import annotations

import pytest

from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.toolsets.predicate import Predicate
from pegboard.toolsets.predicates import custom, edit, everything, named, state, tagged
from pegboard.toolsets.toolset import sift, why
from toolsets.samples import make_tool, names

TOOLS = [make_tool(name) for name in ("b", "a", "c")]


def test_what_is_so_stays_in_order():
    kept, faults = sift(TOOLS, named("?") & ~named("a"), NOBODY)
    assert (names(kept), faults) == (["b", "c"], {})


def fails_for_a(tool, context):
    if tool.name == "a":
        raise KeyError("owner")
    return True


def exits(tool, context):
    raise SystemExit(2)


def test_where_it_raises_that_tool_is_out_even_behind_a_not():
    for predicate in (custom(fails_for_a), ~~custom(fails_for_a), ~(~custom(fails_for_a) & everything)):
        kept, faults = sift(TOOLS, predicate, NOBODY)
        assert (names(kept), faults) == (["b", "c"], {"a": "KeyError: 'owner'"})
    kept, faults = sift(TOOLS, ~custom(fails_for_a), NOBODY)
    assert (names(kept), list(faults)) == ([], ["a"])


def test_a_predicate_cannot_end_the_program():
    kept, faults = sift(TOOLS, custom(exits), NOBODY)
    assert (kept, len(faults)) == ([], 3)


class Broken(dict):
    def __contains__(self, key):
        raise OSError("no state")


def test_where_it_cannot_even_be_bound_every_tool_is_out():
    kept, faults = sift(TOOLS, state("a", "b") | everything, ReadonlyContext(state=Broken()))
    assert (kept, faults) == ([], dict.fromkeys("bac", "OSError: no state"))


def test_why_names_the_part_and_what_the_tool_says():
    tool = make_tool("a", tags=["x", "y z"])
    assert why(named("a") & tagged("net"), tool, NOBODY) == 'tag:net is not so (tag: x, "y z")'
    assert why(named("a") & ~tagged("x"), tool, NOBODY) == 'tag:x is so (tag: x, "y z")'
    assert why(edit | named("a"), tool, NOBODY) == "name:a is so (name: a)"
    assert why(edit, tool, NOBODY) == "edit is not so"
    assert why(custom(exits), tool, NOBODY) == "<custom> failed: SystemExit: 2"


def odd(error):
    def predicate(tool, context):
        raise error

    return custom(predicate)


def test_whatever_a_predicate_raises_costs_only_the_tool():
    assert sift(TOOLS[:1], odd(GeneratorExit()), NOBODY) == ([], {"b": "GeneratorExit"})
    assert "GeneratorExit" in why(odd(GeneratorExit()), TOOLS[0], NOBODY)


def test_an_interrupt_passes_on():
    with pytest.raises(KeyboardInterrupt):
        sift(TOOLS, odd(KeyboardInterrupt()), NOBODY)
    with pytest.raises(KeyboardInterrupt):
        why(odd(KeyboardInterrupt()), TOOLS[0], NOBODY)
    with pytest.raises(KeyboardInterrupt):
        sift(TOOLS, Interrupted(), NOBODY)


class Interrupted(Predicate):
    def bound(self, context):
        raise KeyboardInterrupt

    def to_json(self): ...

    def __str__(self): ...
