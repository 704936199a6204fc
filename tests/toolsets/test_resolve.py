"""Resolution of tools, and changes and explanations of `ResolvedTools`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import attrs
import pytest
from hypothesis import given, strategies as st

from pegboard import (
    CombinedToolset,
    Explanation,
    Policy,
    Predicate,
    Problem,
    ReadonlyContext,
    StaticToolset,
    ToolsetResult,
    found_names,
    parse_predicate,
    wrap,
)
from pegboard.errors import ToolsetError
from pegboard.json import digest_of
from pegboard.tools import EMPTY_CONTEXT
from pegboard.toolsets import FOUND_TOOLS, resolve_tools
from pegboard.toolsets.predicates import Custom, Matches, deferred
from pegboard.toolsets.resolve import resolve_names, resolve_static
from toolsets.predicate_strategies import contexts, predicates
from toolsets.samples import BOMB, PlainToolset, late_tool, make_tool, names

STATIC = [make_tool("a", tags=["x"]), make_tool("b"), make_tool("c", tags=["x"]), make_tool("d")]


def resolved(static=STATIC, toolsets=(), context=EMPTY_CONTEXT, **options):
    return asyncio.run(resolve_tools(static, toolsets, context, **options))


def test_everything_is_offered_by_name():
    tools = resolved(toolsets=[PlainToolset("t", [make_tool("bb")])])
    assert names(tools) == ["a", "b", "bb", "c", "d"]
    assert tools.names == ("a", "b", "bb", "c", "d")


@given(predicates, contexts, contexts)
def test_tools_that_do_not_depend_on_the_context_are_the_same_in_each(predicate, one, other):
    tools = resolved(where=predicate, context=one)
    assert tools.depends_on_context or names(tools) == names(resolved(where=predicate, context=other))


@pytest.mark.parametrize(
    ("options", "depends"),
    [
        ({"where": parse_predicate("read_only or not (tag:x and name:a*)")}, False),
        ({"where": parse_predicate("tag:x and not user:ann")}, True),
        ({"default": parse_predicate("state.plan:true")}, True),
        ({"where": Custom(lambda _tool, _context: True)}, True),
        ({"where": Custom(Matches("name", "a"), "a")}, False),
        ({"toolsets": [PlainToolset("t", [make_tool("bb")])]}, True),
        ({"static": [make_tool("a", deferred=True)]}, True),
        ({"static": [make_tool("a", deferred=True)], "context": ReadonlyContext(state={FOUND_TOOLS: ["a"]})}, True),
    ],
)
def test_tools_depend_on_the_context_by_toolsets_searches_and_predicates_that_read_it(options, depends):
    assert resolved(**options).depends_on_context is depends


def test_predicates_then_active_then_order():
    assert names(resolved(where=Matches("tag", "x"))) == ["a", "c"]
    assert names(resolved(default=~Matches("name", "a"), where=Matches("tag", "x"))) == ["c"]
    assert names(resolved(where=~Matches("name", "a"), active=["d", "a", "b"])) == ["d", "b"]
    assert names(resolved(order=["c", "absent", "c", "b"])) == ["c", "b", "a", "d"]
    assert names(resolved(active=["d", "b", "a"], order=["a"])) == ["a", "d", "b"]


def test_an_unknown_active_name_is_a_problem():
    tools = resolved(active=["bb", "a", "bb"], where=~Matches("name", "a"))
    assert [str(problem) for problem in tools.problems] == ["active: no tool is called 'bb'. Did you mean 'b'?"]


def test_problems_of_many_unknown_active_names_are_bounded():
    problems = resolved(active=[f"x{index}" for index in range(30)]).problems
    assert len(problems) == 21
    assert "10 more" in problems[-1].cause


@pytest.mark.parametrize("argument", ["active", "order"])
def test_a_string_is_refused_as_a_list_of_names(argument):
    with pytest.raises(TypeError, match=f"{argument} must be a collection of str"):
        resolved(**{argument: "abc"})


def test_name_conflicts_are_settled_before_predicates_apply():
    """A tool that is filtered out keeps its name: no other can take it."""
    stranger = make_tool("a", tags=["y"])
    tools = resolved(toolsets=[PlainToolset("t", [stranger])], where=Matches("tag", "y"))
    assert names(tools) == []
    assert tools.was_held_back("a")


@pytest.mark.parametrize(
    "arrange",
    [
        lambda *toolsets: toolsets,
        lambda *toolsets: [CombinedToolset("all", toolsets)],
        lambda *toolsets: [CombinedToolset("all", [wrap(each).prefixed("a") for each in toolsets]).filtered("name:*")],
    ],
)
def test_a_failing_toolset_raises_on_request(arrange):
    error = OSError("down")
    with pytest.raises(ToolsetError, match="'odd' failed: OSError: down") as caught:
        resolved(toolsets=arrange(PlainToolset("whole"), PlainToolset("odd", error=error)), on_toolset_error="fail")
    assert (caught.value.toolset, caught.value.__cause__) == ("odd", error)


def test_a_reported_problem_raises_on_request_and_a_note_doesnt():
    def result(**facts):
        return PlainToolset("odd", ToolsetResult([make_tool("e")], [Problem("no schema", "gone", **facts)]))

    assert names(resolved(toolsets=[result(note=True)], on_toolset_error="fail")) == ["a", "b", "c", "d", "e"]
    with pytest.raises(ToolsetError, match="'odd' failed: tool 'gone': no schema"):
        resolved(toolsets=[result()], on_toolset_error="fail")


def test_a_reported_problem_explains_why_its_tool_is_missing():
    odd = PlainToolset("odd", ToolsetResult([], [Problem("no schema", "gone"), Problem("odd", "a")]))
    tools = resolved(toolsets=[odd])
    assert str(tools.explain("gone")).endswith("note: toolset 'odd': tool 'gone': no schema")
    assert "note" not in str(tools.explain("a")) + str(tools.explain("other"))


def fails(tool, context):
    if tool.name in "ab":
        raise KeyError(tool.name)
    return True


def test_a_predicate_that_raises_costs_only_that_tool():
    tools = resolved(where=Custom(fails))
    assert names(tools) == ["c", "d"]
    assert [str(problem) for problem in tools.problems] == [
        "where: <custom> failed for tool 'a' and 1 more, all out: KeyError: 'a'"
    ]
    assert "failed: KeyError: 'b'" in str(tools.explain("b"))
    assert "for tool 'c', all out" in resolved([STATIC[2]], where=Custom(lambda *_: 1 / 0)).problems[0].cause


def test_the_context_reaches_toolsets_and_predicates():
    context = ReadonlyContext(user="ann")
    toolset = PlainToolset("t", [make_tool("e")])
    tools = resolved(toolsets=[toolset], context=context, where=Matches("user", "ann"))
    assert (len(tools), tools.context, toolset.contexts) == (5, context, [context])


tool_names = st.sampled_from("abcdef")


@given(st.lists(tool_names, unique=True), st.lists(tool_names))
def test_an_order_lists_its_names_first_and_keeps_the_others(present, order):
    tools = [make_tool(name) for name in sorted(present)]
    wanted = [name for name in dict.fromkeys(order) if name in present]
    rest = [name for name in sorted(present) if name not in wanted]
    assert resolved(tools, order=order).names == (*wanted, *rest)
    assert resolved(tools, active=order).names == tuple(wanted)


@given(predicates, contexts)
def test_resolving_filters_by_the_predicate(predicate, context):
    tools = resolved(context=context, where=predicate)
    assert list(tools) == [tool for tool in STATIC if predicate(tool, context)]


def test_resolving_static_tools_loads_nothing_heavy():
    """Nor does it need an event loop."""
    code = """
import sys
import threading
import time
from pegboard import ToolSpec
from pegboard import Tool
from pegboard import parse_predicate
from pegboard.toolsets import resolve_tools
resolving = resolve_tools([Tool(ToolSpec("a"))], where=parse_predicate("name:a"))
try:
    resolving.send(None)
except StopIteration as end:
    assert end.value.explain("a").offered
heavy = {"asyncio", "cattrs", "jsonschema", "jsonschema_rs", "pluggy", "click", "hashlib", "importlib_metadata"}
print(*sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_note_doesnt_raise():
    toolset = wrap(PlainToolset("t", [make_tool("e")])).renamed({"absent": "x"})
    tools = resolved(toolsets=[toolset], on_toolset_error="fail")
    assert ("e" in tools.names, [each.note for each in tools.problems]) == (True, [True])


STATIC_NAMES = make_tool("a")
PLUGINS = make_tool("a", plugin="p")
FIRST = make_tool("a", plugin="p", toolset="first")
SECOND = make_tool("a", plugin="q", toolset="second")


def settled(static, *offers):
    return resolve_names(static, [ToolsetResult(offer) for offer in offers])


@pytest.mark.parametrize(
    ("static", "offers", "winner"),
    [
        ([STATIC_NAMES], [[FIRST]], STATIC_NAMES),
        ([PLUGINS], [[SECOND]], PLUGINS),
        ([], [[FIRST], [SECOND]], FIRST),
        ([PLUGINS], [[make_tool("a", toolset="mine")]], "mine"),
        ([], [[FIRST], [make_tool("a", toolset="mine")]], "mine"),
        ([STATIC_NAMES], [[make_tool("a", toolset="mine")]], STATIC_NAMES),
    ],
)
def test_precedence_of_tools_with_one_name(static, offers, winner):
    """A host's tool takes precedence over any plugin's; then the earlier one."""
    made = settled(static, *offers)
    (tool,) = made.tools
    assert tool.origin.toolset == winner if isinstance(winner, str) else tool is winner
    others = [other for other in (*static, *(tool for offer in offers for tool in offer)) if other is not tool]
    assert [(each.tool, each.plugin, each.subject) for each in made.problems] == [
        ("a", other.origin.plugin, other.origin.toolset and f"toolset {other.origin.toolset!r}") for other in others
    ]
    assert all(f"{tool.origin} has the name" in problem.cause for problem in made.problems)


def test_the_same_tool_twice_is_no_conflict():
    assert settled([STATIC_NAMES], [STATIC_NAMES]).problems == ()


LATE = make_tool("late", deferred=True)


def found_by(*names):
    return ReadonlyContext(state={"pegboard:found_tools": list(names)})


def test_found_tools_are_listed_before_predicates_apply():
    def listed(context, **options):
        return [tool.name for tool in resolved([make_tool("a"), LATE], context=context, where=~deferred, **options)]

    toolsets = [PlainToolset("t", [make_tool("later", deferred=True), make_tool("never", deferred=True)])]
    assert listed(EMPTY_CONTEXT, toolsets=toolsets) == ["a"]
    assert listed(found_by("late", "later", "gone"), toolsets=toolsets) == ["a", "late", "later"]
    assert resolve_static([LATE], found_by("late"), where=~deferred).names == ("late",)
    first, second = (resolved([LATE], context=found_by("late")).tools for _ in range(2))
    assert first[0] is second[0]


def test_a_found_tool_may_be_lazy():
    late, _ = late_tool(LATE)
    (tool,) = resolved([late], context=found_by("late"))
    assert not tool.handler.load().spec.deferred


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (["a", "b", "a"], ("a", "b")),
        (("a",), ("a",)),
        (["a", 1, None, ["b"], "c"], ("a", "c")),
        *((each, ()) for each in ("abc", {"a": 1}, None)),
        ([f"t{n}" for n in range(130)], tuple(f"t{n}" for n in range(2, 130))),
    ],
)
def test_invalid_found_names_in_a_state_are_ignored(found, names):
    assert found_names({"pegboard:found_tools": found}) == names


THREE = STATIC[:3]


def test_resolved_tools_are_a_collection():
    tools = resolved(THREE, where=Matches("tag", "x"))
    assert (len(tools), list(tools), tools.names) == (2, [THREE[0], THREE[2]], ("a", "c"))
    assert ("a" in tools, "b" in tools, THREE[0] in tools) == (True, False, False)
    assert (tools.get("a"), tools.get("b")) == (THREE[0], None)


def test_resolved_tools_dont_change_with_their_source():
    """A request runs exactly the tools that it was offered."""
    static = list(THREE)
    tools = resolved(static)
    static.clear()
    assert tools.tools == tuple(THREE)


def test_tools_that_exist_and_arent_offered_were_held_back():
    toolset = StaticToolset("t", [make_tool("e")]).filtered("edit")
    tools = resolved(THREE, toolsets=[toolset], where=Matches("tag", "x"))
    assert [tools.was_held_back(name) for name in ("a", "b", "e", "zzz")] == [False, True, True, False]
    assert tools.considered == {"a", "b", "c", "e"}


def test_its_digest_is_over_the_digests_of_its_tools_in_order():
    tools = resolved(THREE)
    assert tools.digest == digest_of([tool.spec.digest for tool in THREE])
    assert tools.digest == tools.digest
    assert resolved(THREE, order=["c"]).digest != tools.digest


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("a", {}, "a: offered\n  + offered: by the host\n  + order: 1 of 3"),
        (
            "c",
            {"default": Matches("name", "?"), "where": Matches("tag", "x"), "active": ["c", "a"], "order": ["a"]},
            (
                "c: offered\n  + offered: by the host\n  + matches the default filter: name:? (name: c)\n"
                "  + matches where: tag:x (tag: x)\n  + active: among the active names\n  + order: 2 of 2"
            ),
        ),
        (
            "b",
            {"where": Matches("name", "?") & Matches("tag", "x")},
            "b: not offered\n  + offered: by the host\n  - excluded by where: tag:x (tag: none)",
        ),
        (
            "b",
            {"default": Matches("tag", "x"), "where": Matches("name", "z")},
            "b: not offered\n  + offered: by the host\n  - excluded by the default filter: tag:x (tag: none)",
        ),
        ("b", {"active": ["a"]}, "b: not offered\n  + offered: by the host\n  - active: not among the active names"),
        ("bb", {}, "bb: there is no tool of this name. Did you mean 'b'?"),
    ],
)
def test_an_explanation_tells_each_step(name, options, text):
    assert str(resolved(THREE, **options).explain(name)) == text


def test_an_explanation_tells_where_a_tool_runs_and_its_limits():
    placed = make_tool("a").evolve(policy=Policy(executor="far", queue="gpu", timeout=5.0))
    told = "a: offered\n  + offered: by the host\n  + runs: executor far, queue gpu, timeout 5.0\n  + order: 1 of 1"
    assert str(resolved([placed]).explain("a")) == told


def test_an_explanation_names_held_back_tools():
    toolset = PlainToolset("t", [make_tool("a")])
    explanation = resolved(THREE, toolsets=[toolset]).explain("a")
    assert str(explanation) == (
        "a: offered\n  + offered: by the host\n"
        "  - name: the tool of the host, toolset 't' is held back: the host has the name\n  + order: 1 of 3"
    )


def test_an_explanation_names_toolsets_that_failed():
    """They might have the tool."""
    tools = resolved(THREE, toolsets=[PlainToolset("down", error=OSError("gone"))])
    assert tools.explain("zzz") == Explanation(
        "zzz", offered=False, reasons=(), notes=("toolset 'down': OSError: gone",)
    )
    assert "note: toolset 'down': OSError: gone" in str(tools.explain("zzz"))
    assert tools.explain("a").notes == ()


def test_evolve_replaces_tools_and_explains_it():
    changed, new = THREE[0].with_spec(title="A"), make_tool("new")
    made = resolved(THREE).evolve(tools=[changed, new])
    assert (made.tools, made.get("a"), "b" in made, made.was_held_back("b")) == ((changed, new), changed, False, True)
    assert str(made.explain("b")).endswith("- evolve: left out by evolve(tools=...)")
    assert "offered" in str(made.explain("new"))
    assert resolved(THREE).evolve(problems=()).names == resolved(THREE).names


FILES = make_tool("files", plugin="files")


def test_left_out_tools_are_explained_by_their_step():
    tools = resolved(THREE).without("budget", {"b": "it is too long"})
    assert tools.names == ("a", "c")
    assert str(tools.explain("b")) == "b: not offered\n  + offered: by the host\n  - budget: it is too long"
    assert str(tools.explain("c")) == (
        "c: offered\n  + offered: by the host\n  + budget: not removed\n  + order: 2 of 2"
    )
    assert tools.was_held_back("b")


def test_added_tools_come_last_and_are_explained():
    tools = resolved(THREE, where=Matches("tag", "x")).with_tools(FILES).without("budget", {"a": "it is too long"})
    assert tools.names == ("c", "files")
    assert tools.get("files") is FILES
    assert str(tools.explain("files")) == (
        "files: offered\n  + offered: by plugin 'files'\n  + budget: not removed\n  + order: 2 of 2"
    )
    assert "- excluded by where: tag:x" in str(tools.explain("b"))


def test_an_added_tool_cant_take_a_name_even_of_a_filtered_tool():
    """A tool that is filtered out keeps its name, and no other tool can take it."""
    tools = resolved(THREE, where=Matches("tag", "x")).with_tools(
        make_tool("a", plugin="p"), make_tool("b", plugin="p")
    )
    assert tools.names == ("a", "c")
    assert tools.get("a") is THREE[0]
    assert [(problem.tool, problem.plugin) for problem in tools.problems] == [("a", "p"), ("b", "p")]
    assert "- name: the tool of plugin 'p' is held back: the host has the name" in str(tools.explain("b"))


def test_of_two_added_tools_of_one_name_the_first_is_offered():
    first, second = make_tool("n"), make_tool("n", plugin="p")
    tools = resolved(THREE).with_tools(first, second)
    assert tools.get("n") is first
    assert [problem.tool for problem in tools.problems] == ["n"]


def test_an_added_tool_with_an_invalid_schema_is_refused():
    tools = resolved(THREE).with_tools(make_tool("bad", input_schema=BOMB))
    assert tools.names == ("a", "b", "c")
    assert [problem.tool for problem in tools.problems] == ["bad"]


def test_distinct_keeps_the_first_tool_of_each_name():
    tools = resolved(THREE)
    assert tools.distinct() is tools
    twice = attrs.evolve(tools, tools=(*tools.tools, make_tool("a", plugin="p"), make_tool("a", plugin="q")))
    made = twice.distinct()
    assert made.names == ("a", "b", "c")
    assert [problem.plugin for problem in made.problems] == ["p", "q"]


def test_findable_tools_are_stored_separately():
    tools = resolved(THREE)
    assert tools.finding(()) is tools
    assert tools.finding([FILES]).finding([THREE[0]]).findable == (FILES, THREE[0])


def test_resolved_tools_have_the_queried_toolsets():
    toolset = StaticToolset("t", [make_tool("t")])
    assert resolved(THREE, toolsets=[toolset]).toolsets == (toolset,)
    assert resolved(THREE).without("budget", {"a": ""}).toolsets == ()


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcdefg"))))
def test_every_tool_has_an_explanation_after_any_changes(changes):
    tools = resolved(THREE)
    for adds, name in changes:
        tools = tools.with_tools(make_tool(name)) if adds else tools.without("step", {name: "out"})
    for name in tools.considered:
        explanation = tools.explain(name)
        assert explanation.offered is (name in tools)
        assert explanation.reasons[-1].verdict == ("in" if name in tools else "out")


def test_leaving_out_unknown_names_changes_nothing():
    tools = resolved(THREE, where=Matches("tag", "x"))
    assert tools.without("budget", {"b": "", "nosuch": ""}) is tools


async def _of_a_coroutine():
    return True


@pytest.mark.parametrize("answer", ["no", "", 1, 0, None, [True], _of_a_coroutine])
@pytest.mark.parametrize("turned", [False, True])
def test_an_answer_other_than_true_or_false_keeps_the_tool_out(answer, turned):
    def wants(tool, context):
        return answer() if callable(answer) else answer

    predicate = ~Custom(wants) if turned else Custom(wants)
    tools = resolved(where=predicate)
    assert tools.names == ()
    (problem,) = tools.problems
    assert "wants returned" in problem.cause
    assert "failed" in str(tools.explain("a"))
    offer = asyncio.run(wrap(PlainToolset("t", THREE)).filtered(predicate).tools(EMPTY_CONTEXT))
    assert (len(offer), [each.tool for each in offer.dropped]) == (0, ["a", "b", "c"])


async def test_predicates_share_one_time_limit_off_the_event_loop():
    """Neither many slow answers nor one that never comes blocks the loop or the request."""
    never, goes_on = threading.Event(), threading.Event()
    asked = []

    def slow(tool, context):
        asked.append(goes_on.wait(60))  # times out, if it were called on the loop
        return not never.wait(0.02)

    def hangs(tool, context):
        return never.wait()

    asyncio.get_running_loop().call_soon(goes_on.set)
    many = [make_tool(f"t{number:03}") for number in range(1_000)]
    tools = await resolve_tools(many, default=Custom(slow), where=Custom(hangs), predicate_timeout=0.2)
    assert tools.names == ()
    assert all(asked)
    assert len(asked) < 20  # of 1,000
    assert all("no answer in time (predicate_timeout)" in problem.cause for problem in tools.problems)
    never.set()


async def test_tools_with_an_answer_in_time_stay(monkeypatch):
    never, loop, clock = threading.Event(), asyncio.get_running_loop(), time.monotonic

    def slow(tool, context):
        if tool.name == "a":
            return True
        loop.call_soon_threadsafe(monkeypatch.setattr, time, "monotonic", lambda: clock() + 60)  # the time is up
        return never.wait(60)

    tools = await resolve_tools(THREE, where=Custom(slow), predicate_timeout=60)
    never.set()
    assert tools.names == ("a",)
    assert "where: <custom> failed for tool 'b' and 1 more, all out: no answer in time" in tools.problems[0].cause


class Own(Predicate):
    """A custom predicate class."""

    def bound(self, context):
        return lambda tool: "yes" if tool.name == "a" else threading.current_thread() is not threading.main_thread()

    def to_json(self): ...

    def __str__(self):
        return "own"


def test_a_custom_predicate_class_has_the_same_rules():
    tools = resolved(where=Own())
    assert tools.names == ("b", "c", "d")
    assert "own failed for tool 'a', all out: the answer is of type str" in tools.problems[0].cause


def test_a_keyboard_interrupt_of_a_predicate_costs_only_its_tools():
    def interrupts(tool, context):
        raise KeyboardInterrupt

    assert resolved(where=Custom(interrupts)).names == ()


def test_no_renaming_escapes_a_predicate():
    delete = make_tool("delete_all")
    renamed = wrap(PlainToolset("t", [delete])).renamed({"delete_all": "run_tests"}).prefixed("my")
    assert resolved((), [renamed]).names == ("my_run_tests",)
    for text in ("not name:delete_*", "not name:run_tests", "not name:my_*"):
        tools = resolved((), [renamed], where=parse_predicate(text))
        assert tools.names == ()
        assert "(name: my_run_tests, delete_all, run_tests)" in str(tools.explain("my_run_tests"))
    assert resolved((), [renamed], where=Matches("name", "delete_all")).names == ("my_run_tests",)


@pytest.mark.parametrize(
    ("name", "other"),
    [("delete_all", "Delete_all"), ("delete_all", "de1ete_aIl"), ("read-file", "read_file"), ("to", "t0")],
)
def test_names_that_differ_only_in_case_or_in_look_alikes_are_reported(name, other):
    tools = resolved([make_tool(name)], [PlainToolset("t", [make_tool(other), make_tool("another")])])
    (problem,) = tools.problems
    first, second = sorted([name, other])
    assert f"tools {first!r} and {second!r} have names that differ only in case or in look-alikes" in problem.cause
    assert (problem.tool, problem.note, len(tools)) == (second, True, 3)


def test_static_tools_are_resolved_without_an_event_loop():
    options = {"default": Matches("tag", "x"), "where": Custom(lambda tool, context: tool.name == "c")}
    assert resolve_static(STATIC, **options).names == resolved(**options).names == ("c",)
