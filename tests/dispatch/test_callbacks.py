from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext, suppress

import attrs
import pytest

from pegboard import (
    Abort,
    CallError,
    ChangeArguments,
    Deny,
    Limits,
    Once,
    PluginRecord,
    ResultLimits,
    Tool,
    ToolCall,
    ToolContext,
    ToolRegistry,
    ToolResult,
    tool,
)
from pegboard.callbacks import Callback, nonblocking
from pegboard.dispatch.callbacks import run_tool_wrapped
from pegboard.dispatch.stages import run_call
from pegboard.errors import FatalToolError, RegistrationError, ToolError, TurnAbortedError
from pegboard.events import CallCompleted, CallSuspended
from pegboard.timeout import Watchdog

DEFAULT_LIMITS = Limits()

EMPTY = ToolResult()
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}


def later(function):
    """The same callback as an async function."""

    async def asked(*facts):
        await asyncio.sleep(0)
        return function(*facts)

    return asked


both = pytest.mark.parametrize(
    "as_written", [lambda function: function, nonblocking, later], ids=["plain", "quick", "async"]
)


def nothing(*_):
    return None


def raising(error):
    def callback(*_):
        raise error

    return callback


class Diary(list):
    """Records calls, by name."""

    def tool(self, **_):
        self.append("tool")
        return "done"

    def failing_tool(self, **_):
        self.append("tool")
        raise ValueError("broken")

    def callback(self, word, answer=None):
        def noted(*_):
            self.append(word)
            return answer

        return noted


@pytest.fixture
def diary():
    return Diary()


@both
@pytest.mark.parametrize("fails", [False, True])
def test_the_order_is_before_tool_on_error_where_it_failed_after(make, send, diary, as_written, fails):
    def two(word):
        return [as_written(diary.callback(f"{word} {number}")) for number in (1, 2)]

    function, errors = (diary.failing_tool, ["error 1", "error 2"]) if fails else (diary.tool, [])
    send(make(function), before=two("before"), on_error=two("error"), after=two("after"))
    assert diary == ["before 1", "before 2", "tool", *errors, "after 1", "after 2"]


@both
def test_a_result_from_before_answers_instead_of_the_tool(make, send, diary, as_written):
    """An empty result is an answer: `is not None` decides."""
    state = send(
        make(diary.tool),
        before=[as_written(diary.callback("before 1", EMPTY)), diary.callback("before 2")],
        after=[diary.callback("after")],
    )
    assert state.result is EMPTY
    assert diary == ["before 1", "after"]


@both
def test_deny_refuses_with_the_reason(make, send, diary, as_written):
    state = send(make(diary.tool), before=[as_written(diary.callback("before", Deny("not at night")))])
    assert (state.result.kind, state.result.text) == ("denied", "probe was denied: not at night")
    assert diary == ["before"]


@both
def test_changed_arguments_reach_the_next_callback_and_the_tool(make, send, as_written):
    seen = []

    def look(context, tool, arguments):
        seen.append(dict(arguments))

    state = send(
        make(lambda n: f"got {n}", schema=NUMBER),
        {"n": 1},
        before=[as_written(lambda *_: ChangeArguments({"n": 2})), look],
        after=[lambda context, tool, arguments, result: seen.append(dict(arguments))],
    )
    assert state.result.text == "got 2"
    assert seen == [{"n": 2}, {"n": 2}]


@pytest.mark.parametrize("changed", [{"n": "two"}, {"n": float("nan")}, {"m": 1}, {"n": object()}, {1: 1}])
def test_changed_arguments_are_validated_again(make, send, diary, changed):
    state = send(
        make(diary.tool, schema=NUMBER), '{"n": 1}', before=[lambda *_: ChangeArguments(changed)], on_error=[nothing]
    )
    assert state.result.kind == "invalid_arguments"
    assert diary == []


@pytest.mark.parametrize("answer", ["yes", True, {}, [], 0, Deny])
@pytest.mark.parametrize("stage", ["before", "after", "on_error"])
def test_any_other_answer_is_the_callbacks_error(make, send, diary, stage, answer):
    function = diary.failing_tool if stage == "on_error" else diary.tool
    state = send(make(function), **{stage: [lambda *_: answer, diary.callback("next")]})
    assert state.result.kind == "callback_failure"
    assert "lambda" in state.result.detail
    assert f"answered {type(answer).__name__}" in state.result.detail
    assert ("next" in diary) is (stage == "after")


@pytest.mark.parametrize("stage", ["before_tool", "after_tool", "wrap_tool"])
@pytest.mark.parametrize("where", ["tag:network", lambda tool, context: "network" in tool.spec.tags])
def test_a_callback_may_be_limited_to_some_tools(stage, where):
    def tagged(*tags):
        return Tool.from_function(lambda: "done", name="_".join(("tool", *tags)), tags=tags)

    registry, seen = ToolRegistry(), []
    registry.register(tagged(), tagged("network"))

    def note(tool, call_next=None):
        seen.append(tool.name)
        return call_next and call_next()

    registry.add_callback(stage, note, where=where)
    kinds = [registry.call_sync(name).kind for name in ("tool", "tool_network", "unknown")]
    assert (kinds, seen) == ([None, None, "unknown_tool"], ["tool_network"])


@pytest.mark.parametrize("stage", ["before_tool", "after_tool", "wrap_tool"])
def test_a_failing_where_predicate_fails_the_call(stage):
    registry, seen = ToolRegistry(), []
    registry.register(Tool.from_function(lambda: "done", name="probe"))
    registry.add_callback(stage, lambda: seen.append(stage), where=lambda tool, context: 1 / 0)
    assert (registry.call_sync("probe").kind, seen) == ("callback_failure", [])


@pytest.mark.parametrize("stage", ["before_model", "observe", "repair_call"])
def test_where_is_refused_for_hooks_without_a_tool(stage):
    with pytest.raises(RegistrationError, match="where= selects tools"):
        ToolRegistry().add_callback(stage, nothing, where="read_only")


def test_before_is_asked_only_for_valid_arguments(make, send, diary):
    state = send(make(diary.tool, schema=NUMBER), {"n": "x"}, before=[diary.callback("before")])
    assert state.result.kind == "invalid_arguments"
    assert diary == []


@both
def test_the_first_result_from_on_error_clears_the_error(make, send, diary, as_written):
    state = send(
        make(diary.failing_tool),
        on_error=[nothing, as_written(diary.callback("on error 1", EMPTY)), diary.callback("on error 2")],
        after=[diary.callback("after")],
    )
    assert state.result is EMPTY
    assert diary == ["tool", "on error 1", "after"]


def test_on_error_gets_the_error_and_what_is_known(make, send):
    seen = []
    error = ValueError("broken")

    def failing(**_):
        raise error

    tool = make(failing)
    send(tool, {"n": 1}, on_error=[lambda context, tool, arguments, error: seen.append((tool, arguments, error))])
    assert seen == [(tool, {"n": 1}, error)]


def test_on_error_sees_an_unknown_tool_as_none(send):
    seen = []
    state = send(
        CallError("unknown_tool", "No tool is called 'missing'."),
        on_error=[lambda context, tool, arguments, error: seen.append((tool, error.kind))],
    )
    assert seen == [(None, "unknown_tool")]
    assert state.result.kind == "unknown_tool"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"before": [lambda *_: Deny("no")]}, "denied"),
        ({"before": [raising(ValueError())]}, "callback_failure"),
        ({"arguments": "{"}, "invalid_arguments"),
        ({"arguments": {"n": "x"}}, "invalid_arguments"),
    ],
)
def test_on_error_sees_denied_and_invalid_calls_and_errors_of_before(make, send, diary, options, kind):
    seen = []

    def recover(context, tool, arguments, error):
        seen.append(error.kind)
        return ToolResult("recovered")

    state = send(make(diary.tool, schema=NUMBER), on_error=[recover], **options)
    assert (seen, state.result.text, diary) == ([kind], "recovered", [])


def test_on_error_is_not_asked_where_nothing_failed(make, send, diary):
    send(make(diary.tool), on_error=[diary.callback("on error")])
    send(make(diary.tool), before=[lambda *_: EMPTY], on_error=[diary.callback("on error")])
    assert diary == ["tool"]


@pytest.mark.parametrize("answer", [None, EMPTY])
def test_on_error_sees_a_returned_error_result(make, send, answer):
    seen, own = [], ToolResult("its own", is_error=True)

    def look(context, tool, arguments, error):
        seen.append((type(error), error.kind, error.text))
        return answer

    assert send(make(lambda: own), on_error=[look]).result == (own if answer is None else EMPTY)
    assert seen == [(CallError, "tool_failure", "its own")]


def test_on_error_is_skipped_for_a_call_that_the_provider_has_executed(make, prepare, diary):
    state = prepare(make(diary.tool), on_error=[diary.callback("on error")], after=[diary.callback("after")])
    state.replace(ToolCall("probe", provider_executed=True))
    asyncio.run(run_call(state))
    assert (state.result.kind, diary) == ("not_executed", ["after"])
    assert state.result.text == "probe was not run here: the model's provider has executed it."


@both
def test_each_after_sees_the_result_as_the_one_before_has_left_it(make, send, diary, as_written):
    def redact(context, tool, arguments, result):
        return ToolResult(result.text.replace("secret", "***"))

    note = as_written(diary.callback("note", ToolResult("done, secret")))
    assert send(make(diary.tool), after=[nothing, note, as_written(redact), nothing]).result.text == "done, ***"


def test_an_after_that_fails_makes_an_error_which_the_others_see(make, send):
    seen = []
    after = [lambda *_: 1 / 0, lambda _context, _tool, _arguments, result: seen.append(result.kind)]
    assert send(make(lambda: "done"), after=after).result.kind == "callback_failure"
    assert seen == ["callback_failure"]


@pytest.mark.parametrize(
    ("function", "options", "kind"),
    [
        (lambda **_: "fine", {}, None),
        (lambda **_: 1 / 0, {}, "tool_failure"),
        (lambda **_: "fine", {"before": [lambda *_: Deny("no")]}, "denied"),
        (lambda **_: "fine", {"before": [lambda *_: EMPTY]}, None),
        (lambda **_: "fine", {"arguments": "["}, "invalid_arguments"),
        (lambda **_: object(), {}, "invalid_output"),
        (lambda **_: 1 / 0, {"on_error": [raising(KeyError("deeper"))]}, "callback_failure"),
    ],
)
def test_after_sees_every_outcome(make, send, function, options, kind):
    seen = []
    send(
        make(function),
        after=[lambda context, tool, arguments, result: seen.append((tool.name, result.kind))],
        **options,
    )
    assert seen == [("probe", kind)]


def test_no_callback_sees_the_placeholder_of_a_call_that_the_host_runs(make, send, diary):
    callbacks = {"on_error": [diary.callback("on error", EMPTY)], "after": [diary.callback("after", EMPTY)]}
    state = send(make(None), **callbacks)
    assert (state.result.kind, state.running.runs_on_host, diary) == ("not_executed", True, [])


@pytest.mark.parametrize("how", ["waits", "goes on"])
async def test_callbacks_see_a_suspended_call_once_it_is_answered(how):
    seen, events, registry = [], [], ToolRegistry()

    @registry.register
    @tool
    async def ask(context: ToolContext) -> str:
        """Ask."""
        if context.confirmation is None:
            with suppress(CallError) if how == "goes on" else nullcontext():
                context.suspend("Sure?")
        return "asked"

    def hide(result):
        seen.append(result.text)
        return ToolResult("hidden")

    registry.add_callback("after_tool", hide)
    batch = await registry.batch([ToolCall("ask", {}, "1")])
    batch.listener = events.append
    outcome = await batch.run()
    assert isinstance(events[-1], CallSuspended if how == "waits" else CallCompleted)
    if how == "waits":
        assert (outcome.results[0].kind, seen) == ("confirmation_required", [])
        outcome = await registry.resume(outcome.pending, {outcome.pending.calls[0].id: Once()})
    assert (outcome.results[0].text, seen) == ("hidden", ["asked"])


@pytest.mark.parametrize("stage", ["before", "after", "on_error"])
@pytest.mark.parametrize("error", [ValueError("secret"), SystemExit("secret"), asyncio.CancelledError("secret")])
def test_a_callbacks_exception_fails_the_call_with_details_for_the_operator_only(
    make, send, diary, logged, *, stage, error
):
    function = diary.failing_tool if stage == "on_error" else diary.tool
    callbacks = {stage: [later(nothing), later(raising(error)), diary.callback("next")]}
    state = send(make(function), **callbacks)
    assert state.result.kind == "callback_failure"
    assert state.result.text == "probe was not completed: a callback failed."
    assert "plugin 1" in state.result.detail
    assert "secret" in state.result.detail
    assert logged() == [("callback of plugin 1", error)]
    assert ("next" in diary) is (stage == "after")


def test_the_operator_also_reads_what_a_failed_on_error_was_handling(make, send, diary):
    state = send(make(diary.failing_tool), on_error=[raising(KeyError("deeper"))])
    assert "deeper" in state.result.detail
    assert "ValueError: broken" in state.result.detail


@pytest.mark.parametrize(
    "later", [{"on_error": [raising(KeyError("deeper"))]}, {"after": [lambda *_: Abort("enough")]}]
)
def test_what_ends_the_turn_first_is_what_ended_it(make, send, later):
    error = FatalToolError("stop")
    assert send(make(raising(error)), **later).fatal is error


@pytest.mark.parametrize("stage", ["before", "after", "on_error"])
def test_a_callbacks_tool_error_is_shown_to_the_model(make, send, diary, logged, stage):
    function = diary.failing_tool if stage == "on_error" else diary.tool
    raises = [raising(ToolError("for the model", hint="try later"))]
    result = send(make(function), **{stage: raises}).result
    assert (result.kind, result.text, logged()) == ("tool_failure", "for the model\ntry later", [])


@pytest.mark.parametrize("stage", ["before", "after"])
async def test_cancellation_while_a_callback_waits_goes_through(make, prepare, diary, stage):
    waits = asyncio.Event()

    async def stuck(*_):
        waits.set()
        await asyncio.Event().wait()

    state = prepare(make(diary.tool), **{stage: [stuck]})
    task = asyncio.ensure_future(run_call(state))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@both
def test_abort_before_ends_the_turn_and_the_tool_doesnt_run(make, send, diary, as_written):
    state = send(
        make(diary.tool),
        before=[as_written(diary.callback("before 1", Abort("enough"))), diary.callback("before 2")],
        on_error=[diary.callback("on error")],
        after=[diary.callback("after")],
    )
    assert (state.result.kind, state.result.text) == ("aborted", "probe was not run: enough")
    assert isinstance(state.fatal, TurnAbortedError)
    assert (state.fatal.reason, str(state.fatal)) == ("enough", "the turn was aborted: enough")
    assert diary == ["before 1", "after"]


@both
def test_abort_after_ends_the_turn_and_leaves_the_result(make, send, diary, as_written):
    """The tool has run; its result is never removed."""
    state = send(
        make(diary.tool), after=[as_written(diary.callback("after 1", Abort("enough"))), diary.callback("after 2")]
    )
    assert (state.result.text, state.result.is_error) == ("done", False)
    assert isinstance(state.fatal, TurnAbortedError)
    assert diary == ["tool", "after 1", "after 2"]


def test_abort_on_an_error_ends_the_turn_and_leaves_the_error(make, send, diary):
    state = send(make(diary.failing_tool), on_error=[lambda *_: Abort("enough")])
    assert (state.result.kind, state.fatal.reason) == ("tool_failure", "enough")


@pytest.mark.parametrize(("answer", "text"), [(Deny(""), "probe was denied."), (Abort(""), "probe was not run.")])
def test_an_empty_reason_leaves_a_whole_sentence(make, send, answer, text):
    assert send(make(nothing), before=[lambda *_: answer]).result.text == text


class Mute:
    def __str__(self):
        raise ValueError("mute")


@pytest.mark.parametrize("answer", [Deny, Abort])
def test_a_reason_is_a_text_or_the_callback_has_failed(make, send, answer):
    assert answer(ValueError("late")).reason == "late"
    assert send(make(nothing), before=[lambda *_: answer(Mute())]).result.kind == "callback_failure"


@pytest.mark.parametrize("stage", ["before", "after", "on_error"])
def test_plain_callbacks_run_off_the_loop_and_all_others_in_it(make, send, diary, stage):
    seen = []

    def note(*_):
        seen.append(threading.current_thread() is threading.main_thread())

    function = diary.failing_tool if stage == "on_error" else diary.tool
    send(make(function), **{stage: [note, nonblocking(lambda *_: note()), later(note)]})
    assert seen == [False, True, True]


@pytest.mark.parametrize("stage", ["before", "after", "on_error"])
@pytest.mark.parametrize("is_plain", [True, False])
async def test_a_callback_that_hangs_fails_its_call_and_no_other(make, prepare, diary, logged, *, stage, is_plain):
    let_go = threading.Event()

    def hangs(*_):
        let_go.wait(60)

    async def hangs_too(*_):
        await asyncio.Event().wait()

    function = diary.failing_tool if stage == "on_error" else diary.tool
    limits = attrs.evolve(Limits(), callback_timeout=0.02)
    callbacks = {stage: [hangs if is_plain else hangs_too]}
    stuck = prepare(make(function), limits=limits, **callbacks)
    other = prepare(make(lambda: "fine"))
    await asyncio.gather(run_call(stuck), run_call(other))
    let_go.set()
    assert (stuck.result.kind, other.result.text) == ("callback_failure", "fine")
    ((who, error),) = logged()
    assert (who, str(error)) == ("callback of plugin 0", "gave no answer within 0.02 s")
    assert "hangs" in stuck.result.detail


def test_an_async_callback_that_ignores_its_limit_is_closed(make, send):
    async def stubborn(*_):
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    limits = attrs.evolve(Limits(), callback_timeout=0.01, grace=0.01)
    assert send(make(nothing), before=[stubborn], limits=limits).result.kind == "callback_failure"


@pytest.mark.parametrize(("callback", "steps"), [(nonblocking(lambda *_: None), 1), (later(nothing), 2)])
def test_a_callback_that_blocks_the_loop_is_named(make, prepare, callback, steps):
    """As a tool is; the watchdog sees each step."""
    seen = []
    state = prepare(make(lambda: "fine"), before=[callback])
    dog = Watchdog(limit=-1.0, report=lambda name, *_: seen.append(name))
    dog.is_running = True
    state.runtime = attrs.evolve(state.runtime, watchdog=dog)
    asyncio.run(run_call(state))
    assert seen.count("callback of plugin 0") >= steps


def test_arguments_are_read_only_all_the_way_down(make, send):
    """No callback changes what runs, or what the next one sees."""
    seen = []

    def meddles(context, tool, arguments):
        with pytest.raises(TypeError, match="read-only"):
            arguments["rows"][0].update(n=2)
        seen.append((context, tool, arguments))

    tool = make(lambda rows: f"{rows}")
    state = send(
        tool,
        {"rows": [{"n": 1}]},
        before=[meddles, meddles],
        after=[lambda context, tool, arguments, result: seen.append((context, tool, arguments))],
    )
    assert state.result.text == "[{'n': 1}]"
    assert seen == [(state.context, tool, {"rows": [{"n": 1}]})] * 3


def test_what_was_answered_can_not_be_changed_later(make, send):
    """Even if a callback holds a reference to a list in the arguments."""
    rows = [1]
    state = send(
        make(lambda rows: f"{rows}", schema={"type": "object"}),
        before=[lambda *_: ChangeArguments({"rows": rows}), lambda *_: rows.append(2)],
    )
    assert state.result.text == "[1]"


def test_arguments_may_be_answered_as_they_were_seen(make, send):
    """Read-only lists become plain ones, which the schema takes."""

    def add(context, tool, arguments):
        return ChangeArguments({**arguments, "more": [*arguments["rows"], {}]})

    tool = make(lambda rows, more: f"{rows} {more}", schema={"type": "object"})
    assert send(tool, {"rows": [{"n": [1]}]}, before=[add]).result.text == "[{'n': [1]}] [{'n': [1]}, {}]"


@pytest.mark.parametrize("stage", ["before", "after", "on_error"])
def test_the_model_gets_only_a_part_of_a_callbacks_long_result(make, send, diary, stage):
    function = diary.failing_tool if stage == "on_error" else diary.tool
    limits = attrs.evolve(Limits(), results=ResultLimits(lines=1))
    state = send(make(function), limits=limits, **{stage: [lambda *_: ToolResult("1\n2\n3\n")]})
    assert state.result.text.startswith("1\n[Only the first of 3 lines is")


@pytest.fixture
def registry():
    return ToolRegistry()


def chain_of(registry, stage="before_model", *functions):
    for function in functions:
        registry.add_callback(stage, function)
    return registry.chain(stage)


async def test_an_empty_chain_has_no_answer(registry):
    chain = await chain_of(registry)
    assert (list(chain), await chain.first_answer(1, 2)) == ([], None)


async def test_the_first_answer_is_returned(registry):
    """A coroutine that returns `None` isn't an answer."""
    asked = []

    async def silent():
        asked.append("silent")

    async def answers(request):
        asked.append(request)
        return 0

    chain = await chain_of(registry, "before_model", silent, answers, lambda: asked.append("late"))
    assert (await chain.first_answer("context", "request"), asked) == (0, ["silent", "request"])


async def test_tell_calls_all_callbacks_and_logs_failures(registry, caplog):
    outcomes = []

    def broken():
        raise ValueError("oops")

    chain = await chain_of(
        registry, "after_turn", broken, nonblocking(lambda outcome: outcomes.append(outcome) or None)
    )
    await chain.tell(1, 2, "the outcome")
    assert outcomes == ["the outcome"]
    assert "oops" in caplog.text


def test_a_lazy_plugin_is_not_loaded_for_hooks_that_it_lacks(registry):
    woken = []
    plugin = PluginRecord("sleepy", hooks=("pegboard_register_tools",), load=lambda: woken.append(1))
    registry.contributions.change(lambda catalogue: catalogue.evolve(plugins={"sleepy": plugin}))
    asyncio.run(registry.chain("before_model"))
    assert woken == []


@pytest.fixture
def wrap(prepare, make):
    """Runs a tool (an async function without arguments) inside these wrappers, the outermost first."""

    def wrap(inner, *functions, limits=DEFAULT_LIMITS, arguments=None):
        links = tuple(Callback(function, f"plugin {place}") for place, function in enumerate(functions))
        state = prepare(make(), limits=limits)
        state.tool = make()
        state.arguments = {} if arguments is None else arguments
        state.snapshot = attrs.evolve(state.snapshot, callbacks={"wrap_tool": links})
        return asyncio.run(run_tool_wrapped(state, inner))

    return wrap


class Notes(list):
    def wrapper(self, word):
        async def noted(context, tool, arguments, call_next):
            self.append(f"{word} in")
            try:
                return await call_next()
            finally:
                self.append(f"{word} out")

        return noted

    async def tool(self):
        self.append("tool")
        return "value"


@pytest.fixture
def notes():
    return Notes()


async def forever():
    await asyncio.Event().wait()


def test_the_outermost_is_the_first_in_order(wrap, notes):
    assert wrap(notes.tool, notes.wrapper("one"), notes.wrapper("two")) == "value"
    assert notes == ["one in", "two in", "tool", "two out", "one out"]


def test_it_gets_context_tool_and_the_arguments_read_only(wrap, notes):
    seen = []

    async def look(context, tool, arguments, call_next):
        seen.append((context.values, tool.name, arguments))
        with pytest.raises(TypeError, match="read-only"):
            arguments["rows"].append(2)
        return await call_next()

    wrap(notes.tool, look, arguments={"rows": [1]})
    assert seen == [({}, "probe", {"rows": [1]})]


def test_call_next_takes_no_arguments(wrap, notes):
    """What was approved is what runs."""

    async def edits(context, tool, arguments, call_next):
        return await call_next({"rows": []})

    with pytest.raises(CallError) as caught:
        wrap(notes.tool, edits)
    assert (caught.value.kind, notes) == ("callback_failure", [])


async def from_a_cache(context, tool, arguments, call_next):
    return "kept"


@pytest.mark.parametrize("function", [from_a_cache, lambda *_: "kept"], ids=["async", "plain"])
def test_a_wrapper_may_run_nothing_at_all(wrap, notes, function):
    assert wrap(notes.tool, function) == "kept"
    assert notes == []


async def again(context, tool, arguments, call_next):
    while True:
        try:
            return await call_next()
        except ToolError:
            continue


def test_a_wrapper_may_run_it_again(wrap):
    runs = []

    async def flaky():
        runs.append(1)
        if len(runs) < 3:
            raise ToolError("busy", retryable=True)
        return "value"

    assert wrap(flaky, again) == "value"
    assert len(runs) == 3


def test_it_may_not_run_it_without_end(wrap):
    runs = []

    async def busy():
        runs.append(1)
        raise ToolError("busy")

    with pytest.raises(CallError) as caught:
        wrap(busy, again)
    assert len(runs) == 100
    assert "call_next() was called more than 100 times" in caught.value.detail


@pytest.mark.parametrize("error", [ValueError("broken"), ToolError("for the model"), SystemExit(1)])
def test_what_the_tool_raises_stays_the_tools(wrap, notes, error):
    async def failing():
        raise error

    with pytest.raises(type(error)) as caught:
        wrap(failing, notes.wrapper("one"), notes.wrapper("two"))
    assert caught.value is error


@pytest.mark.parametrize("error", [ValueError("secret"), SystemExit("secret"), StopIteration()])
def test_a_wrappers_exception_is_detailed_for_the_operator_only(wrap, notes, logged, error):
    async def broken(context, tool, arguments, call_next):
        await call_next()
        raise error

    with pytest.raises(CallError) as caught:
        wrap(notes.tool, notes.wrapper("one"), broken)
    assert caught.value.kind == "callback_failure"
    assert caught.value.text == "probe was not completed: a callback failed."
    assert "broken of plugin 1" in caught.value.detail
    assert [who for who, _ in logged()] == ["callback of plugin 1"]


def test_a_wrapper_may_word_the_tools_error_for_the_model(wrap):
    async def failing():
        raise ValueError("broken")

    async def other(context, tool, arguments, call_next):
        try:
            await call_next()
        except ValueError as error:
            raise ToolError("better") from error

    with pytest.raises(ToolError, match="better"):
        wrap(failing, other)


def test_a_plain_one_runs_off_the_loop_and_may_pass_on_what_call_next_gives(wrap, notes):
    threads = []

    def passes_on(context, tool, arguments, call_next):
        threads.append(threading.current_thread() is threading.main_thread())
        return call_next()

    @nonblocking
    def passes_on_too(context, tool, arguments, call_next):
        return passes_on(context, tool, arguments, call_next)

    assert wrap(notes.tool, passes_on, passes_on_too) == "value"
    assert threads == [False, True]


SHORT = attrs.evolve(Limits(), callback_timeout=0.05, grace=0.02)


def test_a_wrappers_time_limit_is_paused_during_call_next(wrap, notes):
    async def slow():
        loop = asyncio.get_running_loop()
        time = loop.time
        loop.time = lambda: time() + 3600  # any timer that runs is due now
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        loop.time = time
        return "value"

    async def later(context, tool, arguments, call_next):
        await asyncio.sleep(0)
        return await call_next()

    assert wrap(slow, notes.wrapper("one"), later) == "value"


@pytest.mark.parametrize("runs_it_first", [True, False])
def test_a_wrapper_that_hangs_by_itself_is_cut_short(wrap, notes, runs_it_first):
    async def hangs(context, tool, arguments, call_next):
        if runs_it_first:
            await call_next()
        await forever()

    with pytest.raises(CallError) as caught:
        wrap(notes.tool, hangs, limits=SHORT)
    assert caught.value.kind == "callback_failure"
    assert "TimeoutError: gave no answer within 0.05 s" in caught.value.detail


def test_a_wrapper_may_have_a_limit_of_its_own(wrap):
    """`asyncio.timeout` around `call_next` doesn't affect the registry's own limit."""

    async def limits(context, tool, arguments, call_next):
        try:
            async with asyncio.timeout(0.01):
                return await call_next()
        except TimeoutError:
            await asyncio.sleep(0.04)
            return "too slow"

    assert wrap(forever, limits, limits=attrs.evolve(SHORT, callback_timeout=60)) == "too slow"


@pytest.mark.parametrize("suspends", [True, False])
def test_the_tools_time_limit_holds_for_a_later_attempt_in_another_task(suspends):
    """Its deadline was made for the first attempt, or for a nested call after that."""
    attempts = []

    @tool(timeout=0.05)
    async def hang() -> str:
        """Hangs the second time."""
        attempts.append("")
        if suspends:
            await asyncio.sleep(0)
        return "done" if len(attempts) == 1 else await forever()

    @tool
    async def asks(context: ToolContext) -> str:
        """Asks."""
        await context.ask("net", ["x"])
        return ""

    async def again(context, tool, arguments, call_next):
        if tool.name == "hang":
            await asyncio.create_task(call_next())
            await asyncio.create_task(context.call("asks", {}))
        return await call_next()

    registry = ToolRegistry(approver=lambda request: Once())
    registry.register(hang)
    registry.register(asks)
    registry.add_callback("wrap_tool", again)
    result = asyncio.run(asyncio.wait_for(registry.call("hang", {}), 30))
    assert result.text == "hang gave no result within 0.05 s. It was cancelled."


def test_it_doesnt_run_twice_at_once(wrap):
    async def both(context, tool, arguments, call_next):
        return await asyncio.gather(call_next(), call_next())

    async def slow():
        await asyncio.sleep(0.01)
        return "value"

    with pytest.raises(CallError) as caught:
        wrap(slow, both)
    assert "call_next() is running already" in caught.value.detail


def test_it_runs_nothing_when_its_wrapper_is_done(wrap, notes):
    kept = []

    async def keeps(context, tool, arguments, call_next):
        kept.append(call_next)
        return "value"

    async def runs_it_later(context, tool, arguments, call_next):
        await call_next()
        return await kept[0]()

    with pytest.raises(CallError) as caught:
        wrap(notes.tool, runs_it_later, keeps)
    assert "call_next() was called after its wrapper had returned" in caught.value.detail
    assert notes == []


def test_what_a_wrapper_leaves_running_is_cancelled(wrap):
    ended = []

    async def slow():
        try:
            await forever()
        finally:
            ended.append("tool")

    tasks = []

    async def leaves(context, tool, arguments, call_next):
        tasks.append(asyncio.ensure_future(call_next()))
        await asyncio.sleep(0)
        return "value"

    assert wrap(slow, leaves) == "value"
    assert ended == ["tool"]
    assert tasks[0].cancelled()


async def test_cancellation_goes_through_every_wrapper(prepare, make, notes):
    waits = asyncio.Event()

    async def stuck():
        waits.set()
        await forever()

    state = prepare(make())
    state.tool = make()
    links = (Callback(notes.wrapper("one")), Callback(notes.wrapper("two")))
    state.snapshot = attrs.evolve(state.snapshot, callbacks={"wrap_tool": links})
    task = asyncio.ensure_future(run_tool_wrapped(state, stuck))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert notes == ["one in", "two in", "two out", "one out"]
