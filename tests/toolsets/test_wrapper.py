from __future__ import annotations

import pytest

from pegboard.toolsets.toolset import ChangedToolset, Step
from toolsets.samples import PlainToolset, make_tool, names, offered


def changing(error):
    def change(tool):
        if tool.name == "a":
            raise error
        return tool

    return ChangedToolset(PlainToolset("t", [make_tool("a"), make_tool("b")]), Step("changed", change))


@pytest.mark.parametrize("error", [ValueError("no"), GeneratorExit("no"), SystemExit("no")])
def test_whatever_a_change_raises_costs_only_the_tool(error):
    offer = offered(changing(error))
    kind = type(error).__name__
    assert (names(offer), [each.cause for each in offer.problems]) == (
        ["b"],
        [f"tool 'a' can't be changed: {kind}: no"],
    )


def test_an_interrupt_passes_on():
    with pytest.raises(KeyboardInterrupt):
        offered(changing(KeyboardInterrupt()))
