from __future__ import annotations

import pytest

from pegboard.tools.context import Progress, ReadonlyContext, ToolContext


def test_the_surroundings_are_those_of_the_request():
    request = ReadonlyContext(user="u", agent="a", model="m", provider="p", session="s", state={"k": 1}, extra={"x": 2})
    context = ToolContext(request)
    assert (context.user, context.agent, context.model, context.provider) == ("u", "a", "m", "p")
    assert (context.session, context.state, context.extra) == ("s", {"k": 1}, {"x": 2})


def test_a_bare_context_knows_nobody():
    context = ToolContext()
    assert (context.user, context.session, dict(context.state), dict(context.extra)) == (None, None, {}, {})


def test_values_belong_to_one_context():
    ToolContext().values["a"] = 1
    assert ToolContext().values == {}


def test_progress_and_partial_results_reach_whoever_listens():
    heard = []
    context = ToolContext(listener=heard.append)
    context.report(1, 3, "reading")
    context.emit("part")
    assert heard == [Progress(1, 3, "reading"), "part"]


def test_nobody_needs_to_listen():
    ToolContext().report(1)
    ToolContext().emit("part")


def test_services_are_found_by_type():
    assert ToolContext(services={int: 5}).service(int) == 5


def test_a_service_that_is_not_there_is_named_with_the_fix():
    with pytest.raises(LookupError, match=r"registry\.provide\(int, \.\.\.\)"):
        ToolContext().service(int)
