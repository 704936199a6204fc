from __future__ import annotations

import asyncio
import contextlib
import threading
from contextlib import suppress

import attrs
import pytest
from hypothesis import given, strategies as st

from pegboard import ModelRequest, Origin, Pipeline, Position, Problem, ReadonlyContext, Tool, ToolContext, ToolRegistry
from pegboard.callbacks import Callback, nonblocking
from pegboard.errors import ProcessorError, RegistrationError
from pegboard.messages import Message
from pegboard.request.pipeline import Processor, Runner, built_in
from pegboard.tools import EMPTY_CONTEXT, HOST
from pegboard.toolsets import resolve_tools
from toolsets.samples import make_tool

FILES, GIT = Origin("files"), Origin("git")
REQUEST = ModelRequest("a")
DEFAULT_PIPELINE = ToolRegistry().pipeline


def says(text):
    """A step that says something."""
    return nonblocking(lambda request: request.with_instructions(text))


ABC = built_in(("a", says("a")), ("b", says("b")), ("c", says("c")))


def process(pipeline, request=REQUEST, **options):
    return asyncio.run(pipeline.process(request, **options))


# Changing it ----------------------------------------------------------------------------------------------------------


def test_steps_are_put_in_out_and_in_anothers_place():
    assert ABC.insert_before("a", "x", says("x")).names == ("x", "a", "b", "c")
    assert ABC.insert_after("a", "x", says("x")).names == ("a", "x", "b", "c")
    assert ABC.insert_after("c", "x", says("x")).names == ABC.append("x", says("x")).names == ("a", "b", "c", "x")
    assert ABC.remove("b").names == ("a", "c")
    assert ABC.replace("b", says("x")).names == ("a", "b", "c")
    assert process(ABC.replace("b", says("x"))).instructions == ("a", "x", "c")
    assert ABC.names == ("a", "b", "c")


def test_it_is_a_collection_of_steps():
    assert (len(ABC), [step.name for step in ABC], "b" in ABC, "x" in ABC) == (3, ["a", "b", "c"], True, False)
    assert ABC.get("b").name == "b"


def test_a_processor_belongs_to_its_registrant():
    pipeline = ABC.append("x", says("x")).insert_before("x", "y", says("y"), owner=FILES).replace("a", says("a"))
    assert [(step.owner, step.built_in) for step in pipeline] == [
        (HOST, False),
        (HOST, True),
        (HOST, True),
        (FILES, False),
        (HOST, False),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda: DEFAULT_PIPELINE.get("pack_tool"),
        lambda: DEFAULT_PIPELINE.insert_before("pack_tool", "x", says("x")),
        lambda: DEFAULT_PIPELINE.insert_after("pack_tool", "x", says("x")),
        lambda: DEFAULT_PIPELINE.replace("pack_tool", says("x")),
        lambda: DEFAULT_PIPELINE.remove("pack_tool"),
    ],
)
def test_an_unknown_step_is_refused_with_near_misses(change):
    with pytest.raises(RegistrationError, match=r"no request processor is called 'pack_tool'\. Did you mean 'pack_to"):
        change()


def test_an_empty_pipeline_says_that_there_are_none():
    with pytest.raises(RegistrationError, match="There are none"):
        Pipeline().remove("x")


@pytest.mark.parametrize("change", ["insert_before", "insert_after"])
def test_a_name_that_is_taken_is_refused(change):
    with pytest.raises(RegistrationError, match="'b' is taken: pegboard has registered one"):
        getattr(ABC, change)("a", "b", says("x"))
    with pytest.raises(RegistrationError, match="'x' is taken: plugin 'files' has registered one"):
        ABC.append("x", says("x"), owner=FILES).append("x", says("x"))


def test_duplicate_names_are_refused():
    with pytest.raises(RegistrationError, match="'a' is there twice"):
        Pipeline((*ABC.processors, *ABC.processors))


@given(
    st.lists(
        st.tuples(st.sampled_from(["insert_before", "insert_after", "remove"]), st.integers(0, 9), st.integers(0, 99))
    )
)
def test_every_change_keeps_names_unique(changes):
    pipeline = ABC
    for change, place, number in changes:
        if not pipeline:
            break
        name = pipeline.names[place % len(pipeline)]
        new = f"x{number}"
        if change == "remove":
            pipeline = pipeline.remove(name)
        elif new not in pipeline:
            pipeline = getattr(pipeline, change)(name, new, says(new))
            assert abs(pipeline.names.index(name) - pipeline.names.index(new)) == 1
    assert len(set(pipeline.names)) == len(pipeline)
    assert process(pipeline).instructions == pipeline.names


# What is registered ---------------------------------------------------------------------------------------------------

SHAPE = built_in(*((name, says(name)) for name in ("tool_requests", "instructions", "repair_history", "pack_tools")))


def brought(*named):
    """The names in order, behind the first two steps and before the last two where nobody placed them elsewhere."""
    return SHAPE.with_registered(named).names


def test_registered_processors_follow_the_first_steps():
    assert brought(("x", says("x"), FILES), ("y", says("y"), HOST)) == (
        "tool_requests",
        "instructions",
        "x",
        "y",
        "repair_history",
        "pack_tools",
    )


@pytest.mark.parametrize("removed", [("instructions",), ("instructions", "tool_requests"), SHAPE.names])
def test_they_follow_the_first_steps_that_are_left(removed):
    pipeline = SHAPE
    for name in removed:
        pipeline = pipeline.remove(name)
    made = pipeline.with_registered([("x", says("x"), FILES)])
    assert made.names.index("x") == ("tool_requests" in made)


@pytest.mark.parametrize(
    ("placed", "place"),
    [
        ({"before": "tool_requests"}, 0),
        ({"after": "tool_requests"}, 1),
        ({"before": "pack_tools"}, 3),
        ({"after": "pack_tools"}, 4),
        ({"after": "nosuch"}, 2),
    ],
)
def test_a_placed_processor_goes_to_its_place(placed, place):
    assert brought(("x", Position(says("x"), **placed), FILES)).index("x") == place


def test_a_neighbour_may_be_registered_later_or_be_itself():
    first = ("x", Position(says("x"), after="y"), FILES)
    second = ("y", Position(says("y"), before="pack_tools"), GIT)
    assert brought(first, second)[-3:] == ("y", "x", "pack_tools")
    circle = [("x", Position(says("x"), after="y"), FILES), ("y", Position(says("y"), after="x"), GIT)]
    assert sorted(brought(*circle)[2:4]) == ["x", "y"]
    assert brought(("x", Position(says("x"), after="x"), FILES))[2] == "x"


def test_later_ones_follow_earlier_ones_and_precede_the_hosts():
    first, second = ("x", says("x"), FILES), ("y", says("y"), GIT)
    own = SHAPE.with_registered([first]).insert_before("repair_history", "mine", says("mine"))
    assert own.with_registered([first, second]).names[2:5] == ("x", "y", "mine")


def test_a_registered_processor_stays_where_the_host_has_moved_it():
    entry = ("x", says("x"), FILES)
    pipeline = SHAPE.with_registered([entry])
    moved = Pipeline((pipeline.get("x"), *(step for step in pipeline if step.name != "x")))
    assert moved.with_registered([entry]).names[0] == "x"


def test_an_unregistered_processor_is_removed_or_replaced():
    old, new = ("x", says("old"), FILES), ("x", says("new"), FILES)
    pipeline = SHAPE.with_registered([old])
    assert pipeline.with_registered([]).names == SHAPE.names
    assert "new" in process(pipeline.with_registered([new])).instructions
    assert "old" not in process(pipeline.with_registered([new])).instructions


def test_the_hosts_changes_override_registrations():
    entry = ("x", says("brought"), FILES)
    pipeline = SHAPE.with_registered([entry])
    assert "x" not in pipeline.remove("x").with_registered([entry])
    replaced = pipeline.replace("x", says("mine")).with_registered([entry])
    assert "mine" in process(replaced).instructions
    assert "brought" not in process(replaced).instructions
    assert replaced.with_registered([]).names == replaced.names
    again = pipeline.remove("x").append("x", says("mine")).remove("x")
    assert "x" not in again.with_registered([entry])


def test_a_registered_processor_neednt_be_hashable():
    class Unhashable:
        __hash__ = None

        def __call__(self, request):
            return request.with_instructions("x")

    entry = ("x", Unhashable(), FILES)
    assert "x" in process(SHAPE.with_registered([entry]).with_registered([entry])).instructions


@given(st.permutations(range(4)))
def test_registering_is_idempotent(order):
    entries = [(f"x{number}", says("x"), FILES) for number in range(3)]
    entries.append(("x3", Position(says("x"), after="x1"), GIT))
    entries = [entries[number] for number in order]
    once = SHAPE.with_registered(entries)
    assert once.with_registered(entries) == once


# Processing -----------------------------------------------------------------------------------------------------------


def test_each_step_gets_what_the_last_one_gave():
    seen = []

    async def third(request, context):
        seen.append((request.instructions, context.user))

    def second(request):
        assert threading.current_thread() is not threading.main_thread()
        return request.with_instructions("second")

    pipeline = built_in(("first", says("first"))).append("second", second).append("third", third)
    made = process(pipeline, context=ReadonlyContext(user="ann"))
    assert made.instructions == ("first", "second")
    assert seen == [(("first", "second"), "ann")]
    assert REQUEST.instructions == ()


def test_an_empty_pipeline_returns_the_same_request():
    assert process(Pipeline()) is REQUEST


def fails(request):
    raise ValueError("no luck")


@nonblocking  # a thread that is late would drop the coroutine, which warns in another test
def never():
    return asyncio.Event().wait()


def nonsense():
    return "a text"


def ends():
    raise SystemExit(3)


def interrupts():
    raise KeyboardInterrupt


async def cancels_itself():
    raise asyncio.CancelledError


FAULTS = [
    (fails, "ValueError: no luck"),
    (nonblocking(nonsense), "TypeError: returned str; it must return a ModelRequest or None"),
    (never, "TimeoutError: gave no answer within 0.05 s"),
    (ends, "SystemExit: 3"),
    (nonblocking(interrupts), "KeyboardInterrupt"),
    (cancels_itself, "CancelledError"),
]


NO_TOOLS = nonblocking(lambda request: request.evolve(tools=[1]))


@pytest.mark.parametrize(
    ("function", "cause"), [*FAULTS, (NO_TOOLS, "AttributeError: 'list' object has no attribute 'provided_by'")]
)
def test_a_plugins_failing_step_is_skipped(function, cause):
    """It is reported with its cause, and everything else works."""
    observed = []
    pipeline = ABC.insert_after("a", "bad", function, owner=FILES)
    pipeline = attrs.evolve(pipeline, timeout=0.05 if function is never else 30)
    made = process(pipeline, observe=lambda what, error: observed.append((what, type(error).__name__)))
    assert made.instructions == ("a", "b", "c")
    who = "request processor 'bad' of plugin 'files'"
    assert made.problems == (Problem(cause, subject=who, plugin="files"),)
    assert str(made.problems[0]) == f"{who}: {cause}"
    assert observed == [(who, cause.partition(":")[0])]


@pytest.mark.parametrize(("function", "cause"), FAULTS)
def test_errors_of_the_hosts_steps_are_raised(function, cause):
    pipeline = attrs.evolve(ABC.insert_after("a", "bad", function), timeout=0.05 if function is never else 30)
    with pytest.raises(ProcessorError) as caught:
        process(pipeline)
    assert caught.value.processor == "bad"
    assert str(caught.value) == f"request processor 'bad': {cause}"
    assert caught.value.__cause__ is not None


OWN, TOOL = make_tool("own"), make_tool("tool")


def of_static(tools):
    return asyncio.run(resolve_tools(tools))


def more(request):
    """Brings a tool that calls itself the host's."""
    return request.evolve(tools=request.tools.with_tools(make_tool("new", description="a\u202eb")))


def findable(request):
    return request.evolve(tools=request.tools.finding([make_tool("new", description="a\u202eb")]))


def other(request):
    """Puts a tool of its own in place of the host's."""
    tools = tuple(make_tool("new", description="a\u202eb") if tool is TOOL else tool for tool in request.tools)
    return request.evolve(tools=attrs.evolve(request.tools, tools=tools))


@pytest.mark.parametrize("change", [more, findable, other])
@pytest.mark.parametrize("owner", [FILES, Origin("files", "dist", "1", trusted=False)])
@pytest.mark.parametrize("by_tool", [False, True])
def test_tools_added_by_a_plugin_get_its_origin(change, owner, by_tool):
    if by_tool:
        static = [OWN, TOOL, make_tool("z").evolve(origin=owner, process_request=change)]
        pipeline = DEFAULT_PIPELINE
    else:
        static, pipeline = [OWN, TOOL], ABC.append("x", change, owner=owner)
    made = process(pipeline, ModelRequest("a", tools=of_static(static)))
    tools = {tool.name: tool for tool in (*made.tools, *made.tools.findable)}
    assert (tools["new"].origin, tools["new"].spec.description) == (owner, "a\\u{202e}b")
    assert (tools["own"], tools["own"].origin, made.problems) == (OWN, HOST, ())
    if change is more:
        assert str(made.tools.explain("new").reasons[0]) == f"+ offered: by {owner}"
    of_the_host = process(ABC.append("x", change), ModelRequest("a", tools=of_static([OWN, TOOL]))).tools
    assert {tool.origin for tool in (*of_the_host, *of_the_host.findable)} == {HOST}


def test_a_tool_with_hidden_characters_fails_the_plugins_step():
    hidden = make_tool("new", input_schema={"type": "object", "properties": {"a\u202eb": {}}})
    step = ABC.append("x", lambda request: request.evolve(tools=request.tools.with_tools(hidden)), owner=FILES)
    made = process(step, ModelRequest("a", tools=of_static([OWN])))
    assert ([*made.tools], len(made.problems)) == ([OWN], 1)
    assert "hidden characters" in str(made.problems[0])


def test_problems_are_of_this_run_and_no_step_loses_them():
    step = built_in(("anew", nonblocking(lambda request: ModelRequest("b")))).processors
    pipeline = Pipeline((*ABC.append("bad", fails, owner=FILES).processors, *step))
    once = process(pipeline)
    assert [problem.subject for problem in once.problems] == ["request processor 'bad' of plugin 'files'"]
    assert once.messages == (Message.user("b"),)
    assert process(pipeline, once).problems == once.problems
    assert process(ABC, once).problems == ()


def test_a_problem_without_an_exception_is_observed_too():
    observed = []
    noted = nonblocking(lambda request: request.with_problems(Problem("odd")))
    process(built_in(("note", noted)), observe=lambda what, error: observed.append((what, str(error))))
    assert observed == [("request processor 'note' of the host", "odd")]


def test_processing_can_be_cancelled():
    async def waits():
        await never()

    async def cancelled():
        task = asyncio.ensure_future(ABC.append("x", waits, owner=FILES).process(REQUEST))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


RUNNER = Runner()


def ask(function, **facts):
    return asyncio.run(Processor("p", function, **facts).ask(REQUEST, EMPTY_CONTEXT, RUNNER))


@pytest.mark.parametrize("built_in", [True, False])
def test_arguments_are_passed_by_name(built_in):
    assert ask(lambda: 1, built_in=built_in) == 1
    assert ask(lambda request: request, built_in=built_in) is REQUEST
    assert ask(lambda context: context, built_in=built_in) is EMPTY_CONTEXT
    assert ask(lambda runner, request: (runner, request), built_in=built_in) == (RUNNER, REQUEST)
    assert ask(lambda request, other=2: other, built_in=built_in) == 2


@pytest.mark.parametrize("built_in", [True, False])
def test_exceptions_of_built_in_steps_are_problems_too(built_in):
    (problem,) = process(Pipeline([Processor("p", lambda: 1 / 0, FILES, built_in=built_in)])).problems
    assert isinstance(problem.error, ZeroDivisionError)


@pytest.mark.parametrize(
    ("name", "function", "says"),
    [
        ("p", lambda tools: None, r"request processor 'p': .* has a parameter 'tools'; it may have request, "),
        *(("p", function, r"request processor 'p': .* is not a callable object") for function in (None, 5, "text")),
        *((name, print, "name must be a text") for name in ("", None, 5)),
    ],
)
def test_invalid_names_and_functions_are_refused_at_once(name, function, says):
    with pytest.raises(RegistrationError, match=says):
        Processor(name, function)


def test_its_summary_is_the_first_line_of_its_docstring():
    def remember(request):
        """Adds what is remembered.

        And more.
        """

    class Limit:
        """Limits."""

        def __call__(self, request):
            """Cuts what is long."""

    assert Processor("p", remember).summary == "Adds what is remembered."
    assert Processor("p", Limit()).summary == "Cuts what is long."
    assert Processor("p", lambda: None).summary == ""


@pytest.mark.parametrize("places", [{}, {"before": "a", "after": "b"}])
def test_exactly_one_place_is_required(places):
    with pytest.raises(ValueError, match="exactly one of the two"):
        Position(print, **places)


SHORT, PATIENT = Runner(timeout=0.05), Runner(timeout=30)


def ask_runner(function, *arguments, runner=PATIENT):
    return asyncio.run(runner.ask(Callback(function), *arguments))


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, KeyboardInterrupt, StopIteration, asyncio.CancelledError, GeneratorExit]
)
def test_any_exception_becomes_a_problem(error):
    def plain():
        raise error

    async def waiting():
        await asyncio.sleep(0)
        raise error

    for function in (plain, nonblocking(lambda: plain() or None), waiting):
        (problem,) = process(Pipeline().append("p", function, owner=FILES)).problems
        assert isinstance(problem.error, error | RuntimeError)  # which coroutines raise for `StopIteration`


def test_a_function_that_never_returns_times_out():
    released = threading.Event()

    async def waits():
        await asyncio.Event().wait()

    for function in (waits, released.wait):
        with pytest.raises(TimeoutError, match=r"gave no answer within 0\.05 s"):
            ask_runner(function, runner=SHORT)
    released.set()


def test_without_a_limit_there_is_no_timeout():
    async def later():
        for _ in range(9):
            await asyncio.sleep(0)
        return "a"

    assert ask_runner(later, runner=Runner(timeout=None)) == "a"


def test_a_function_that_ignores_its_cancellation_is_abandoned():
    async def stubborn():
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match="gave no answer"):
        asyncio.run(SHORT.ask(Callback(stubborn)))


def test_plain_functions_run_in_the_given_runner():
    seen = []

    async def elsewhere(function, *arguments):
        seen.append(arguments)
        return function(*arguments)

    assert ask_runner(lambda value: value, "a", runner=Runner(elsewhere)) == "a"
    assert seen == [("a",)]


class TestServices:
    """Steps, and tools that process requests, find what is provided."""

    @pytest.fixture
    def log(self):
        return []

    @pytest.fixture
    def registry(self, log):
        @contextlib.contextmanager
        def open_database():
            log.append("open")
            yield {"ann": "likes pears"}
            log.append("close")

        made = ToolRegistry()
        made.provide(dict, open_database)
        return made

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_step_finds_memory_artifacts_and_services(self, registry, log, is_async):
        def plain(request, services):
            text = services.service(dict)[services.user]
            entries = services.wait(services.memory.search("pears"))
            names = services.wait(services.artifacts.list())
            return request.with_instructions(text, *(entry.text for entry in entries), *names)

        async def later(request, services):
            log.append("used")
            text = (await services.use(dict))[services.user]
            entries = await services.memory.search("pears")
            return request.with_instructions(text, *(entry.text for entry in entries), *await services.artifacts.list())

        async def main():
            context = ReadonlyContext(user="ann")
            mine = ToolContext(context, services=registry.services)
            await mine.memory.add("She ate two pears.")
            await mine.artifacts.save("pears.txt", "pears")
            registry.add("processors", "recall", later if is_async else plain)
            return await registry.process(ModelRequest("hello"), context)

        made = asyncio.run(main())
        assert made.problems == ()
        assert made.instructions == ("likes pears", "She ate two pears.", "pears.txt")
        assert [each for each in log if each != "used"] == ["open", "close"]

    def test_a_tool_that_processes_requests_does_too(self, registry, log):
        async def recall(services, request):
            return request.with_instructions((await services.use(dict))["ann"])

        registry.register(Tool.processor("recall", recall))
        made = asyncio.run(registry.process(ModelRequest("hello")))
        assert (made.instructions, log) == (("likes pears",), ["open", "close"])

    def test_what_is_open_is_closed_where_a_step_fails(self, registry, log):
        async def fails(services):
            await services.use(dict)
            raise ValueError("no")

        registry.pipeline = registry.pipeline.append("fails", fails)
        with pytest.raises(ProcessorError, match="no"):
            asyncio.run(registry.process(ModelRequest("hello")))
        assert log == ["open", "close"]
