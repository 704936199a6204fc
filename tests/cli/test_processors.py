"""`registry processors`: the steps by which a request is made ready."""

from __future__ import annotations

import json
import sys

from pegboard.errors import ConfigError

STEPS = """
from pegboard import Placed, hookimpl


def remember(request):
    '''Adds what is \\x1b[31m remembered.

    And more.
    '''


@hookimpl
def pegboard_register_processors(register):
    print("while registering")
    register("memory", remember)
    register("last", Placed(lambda request: None, after="pack_tools"))
    register("odd", lambda nosuch: None)
"""


def test_each_step_in_order_with_who_brought_it(say, site):
    site.add("steps", STEPS)
    code, out, err = say("processors")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.split() == ["STEP", "BY", "WHAT", "IT", "DOES"]
    assert [line.split()[:2] for line in lines] == [
        ["tool_requests", "pegboard"],
        ["instructions", "pegboard"],
        ["memory", "steps"],
        ["repair_history", "pegboard"],
        ["limit_results", "pegboard"],
        ["budget_tools", "pegboard"],
        ["pack_tools", "pegboard"],
        ["last", "steps"],
    ]
    assert "\x1b" not in out
    assert "remembered." in lines[2]
    assert "And more" not in out
    assert "while registering" not in out
    assert "steps: request processor 'odd'" in err
    assert "demo_tools" not in sys.modules


def test_only_what_went_wrong_with_plugins_that_bring_steps_is_told(say, site):
    site.add("broken", "raise RuntimeError('no luck')")
    assert say("processors")[2] == ""


def test_as_json(say, site):
    site.add("steps", STEPS)
    steps = json.loads(say("processors", "--json")[1])
    assert steps[2] == {
        "name": "memory",
        "summary": "Adds what is \x1b[31m remembered.",
        "builtIn": False,
        "plugin": "steps",
        "distribution": "pegboard-steps",
        "version": "1.0",
    }
    assert steps[3]["builtIn"] is True
    assert (steps[3]["plugin"], steps[3]["distribution"]) == (None, "pegboard")


def test_what_the_host_has_brought_is_its_own(say, registry):
    registry.add("processors", "mine", lambda request: None)
    assert "mine            the host" in say("processors")[1]


def test_plugins_that_clash_are_told_of_and_the_steps_all_the_same(say, monkeypatch):
    from pegboard.cli.commands import processors

    opened = processors.open_board

    def clashing(options, *, anyway):
        from attrs import evolve

        return evolve(opened(options, anyway=anyway), clash=ConfigError("is odd", file="f", key="k"))

    monkeypatch.setattr(processors, "open_board", clashing)
    code, out, err = say("processors")
    assert (code, "pack_tools" in out, "is odd" in err) == (0, True, True)
