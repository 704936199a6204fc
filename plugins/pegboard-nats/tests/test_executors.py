"""Both executors over a real server: the checks of executors, and what happens where a side is missing."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import attrs
import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import FlushTimeoutError, NoRespondersError
from nats.js.errors import NotFoundError
from nats_running import KINDS, PATIENCE, WorkerProcess, calling, until_there, worker

from pegboard import Once, Permissions, Policy, ReadonlyContext, ToolContext, ToolRegistry, tool, tool_of
from pegboard.execution import LocalExecutor
from pegboard.testing import executors as suite
from pegboard.worker import Worker
from pegboard_nats import NatsExecutor

both = pytest.mark.parametrize("kind", KINDS)
ANN = ReadonlyContext(user="ann", session="s", message="m")


@both
async def test_a_call_runs_on_a_worker_of_its_queue(kind, server, serving):
    settings = server.settings(prefix=f"queues-{kind}")
    async with (
        serving(KINDS[kind](settings), worker(queue="texts")),
        calling(KINDS[kind](settings), queue="texts") as registry,
    ):
        assert (await registry.call("check_add", {"a": 1, "b": 2})).structured_content == {"result": 3}


@both
async def test_without_a_worker_of_its_queue_a_call_is_not_run(kind, server):
    executor = KINDS[kind](server.settings(prefix=f"alone-{kind}", wait=0.3))
    async with calling(executor, queue="texts") as registry:
        result = await registry.call("check_add", {"a": 1, "b": 2})
    assert result.kind == "not_executed"
    assert "from the queue 'texts'" in result.text or "listens to the queue 'texts'" in result.text
    assert result.detail == "Start one: registry worker --executor far --queue texts"


async def test_a_call_that_was_given_up_is_not_run_by_a_worker_that_comes_later(server, serving, tmp_path):
    settings, file = server.settings(prefix="late", wait=0.3), tmp_path / "effects"
    arguments = {"a": 1, "b": 2, "file": str(file)}
    async with calling(KINDS["jetstream"](settings)) as registry:
        assert (await registry.call("check_add", arguments)).kind == "not_executed"
        async with serving(KINDS["jetstream"](settings), worker()):
            assert (await registry.call("check_add", {"a": 1, "b": 2})).structured_content == {"result": 3}
    assert not file.exists()


@both
async def test_status_lists_workers_with_what_they_run_and_what_waits(kind, server, serving, tmp_path):
    executor = KINDS[kind](server.settings(prefix=f"status-{kind}", wait=PATIENCE))
    async with (
        serving(KINDS[kind](executor.settings), worker(name="w", max_concurrency=1)),
        calling(executor) as registry,
    ):
        file = tmp_path / "effects"
        endless = asyncio.create_task(registry.call("check_endless", {"file": str(file)}, ANN, call_id="toolu_1"))
        await until_there(file)
        async with asyncio.timeout(PATIENCE):
            waiting = asyncio.create_task(registry.call("check_add", {"a": 1, "b": 2}))
            while not (status := await executor.status()).queues.get("default"):
                pass
        (found,) = status.workers
        assert (found.name, found.queue, found.max_concurrency) == ("w", "default", 1)
        assert dict(found.running) == {"toolu_1": "check_endless"}
        assert status.queues == {"default": 1}
        endless.cancel()
        assert (await waiting).structured_content == {"result": 3}


@both
async def test_status_lists_no_workers_of_the_other_executor(kind, server, serving):
    settings = server.settings(prefix=f"others-{kind}")
    (other,) = {*KINDS} - {kind}
    async with serving(KINDS[kind](settings), worker()):
        assert (await KINDS[other](settings).status()).workers == ()


async def test_status_lists_calls_of_a_queue_that_no_worker_has_served(server):
    executor = KINDS["jetstream"](server.settings(prefix="unserved", wait=PATIENCE))
    async with calling(executor, queue="texts") as registry, asyncio.timeout(PATIENCE):
        call = asyncio.create_task(registry.call("check_add", {"a": 1, "b": 2}))
        while (await executor.status()).queues != {"texts": 1}:
            pass
        call.cancel()


async def test_status_lists_running_calls_of_other_sessions_with_equal_ids(server, serving, tmp_path):
    executor = NatsExecutor(server.settings(prefix="equal-ids", wait=PATIENCE))
    async with serving(NatsExecutor(executor.settings), worker(max_concurrency=2)), calling(executor) as registry:
        calls = []
        for session in ("s1", "s2"):
            file, context = tmp_path / session, attrs.evolve(ANN, session=session)
            endless = registry.call("check_endless", {"file": str(file)}, context, call_id="toolu_1")
            calls.append(asyncio.create_task(endless))
            await until_there(file)
        (found,) = (await executor.status()).workers
        assert [*found.running.values()] == ["check_endless"] * 2
        assert all(name.startswith("toolu_1") for name in found.running)
        for call in calls:
            call.cancel()


async def test_a_worker_that_has_too_much_to_do_refuses_what_has_waited_too_long(server, serving, tmp_path):
    executor = NatsExecutor(server.settings(prefix="busy", wait=1))
    async with serving(NatsExecutor(executor.settings), worker(max_concurrency=1)), calling(executor) as registry:
        file = tmp_path / "effects"
        endless = asyncio.create_task(registry.call("check_endless", {"file": str(file)}))
        await until_there(file)
        result = await registry.call("check_add", {"a": 1, "b": 2})
        endless.cancel()
    assert (result.kind, "its worker was busy" in result.text) == ("not_executed", True)


async def test_a_worker_for_which_too_many_calls_wait_refuses_more(server, serving, tmp_path, monkeypatch):
    monkeypatch.setattr("pegboard_nats.executor._MOST_WAITING", 0)
    executor = NatsExecutor(server.settings(prefix="crowded", wait=PATIENCE))
    async with serving(NatsExecutor(executor.settings), worker(max_concurrency=1)), calling(executor) as registry:
        file = tmp_path / "effects"
        endless = asyncio.create_task(registry.call("check_endless", {"file": str(file)}))
        await until_there(file)
        async with asyncio.timeout(PATIENCE):
            result = await registry.call("check_add", {"a": 1, "b": 2})
        endless.cancel()
    assert (result.kind, "too many calls wait" in result.text) == ("not_executed", True)


@tool
async def ask(context: ToolContext) -> str:
    """Asks."""
    await context.request_confirmation("Really?")
    return "asked"


@both
async def test_a_person_may_take_longer_than_a_worker_waits_for_a_sign(kind, server, serving, monkeypatch):
    monkeypatch.setattr("pegboard_nats.connection._CHECK_SECONDS", 0.1)
    settings, client = server.settings(prefix=f"patient-{kind}", dead_after=PATIENCE), await nats.connect(server.url)
    signs = await client.subscribe("_INBOX.*.*.alive")

    async def decide(request, context):
        for _ in range(10):
            await signs.next_msg(PATIENCE)
        return Once()

    tools = LocalExecutor([ask], permissions=Permissions(mode="bypass"))
    async with serving(KINDS[kind](settings), Worker(tools)), ToolRegistry(approver=decide) as registry:
        registry.add("executors", "far", KINDS[kind](settings))
        registry.register(tool_of(ask).evolve(policy=Policy(executor="far")))
        assert (await registry.call("ask", {}, ANN)).text == "asked"
    await tools.aclose()
    await client.close()


@both
@pytest.mark.parametrize("lost", [".question", ".reply."])
async def test_a_question_or_its_reply_that_is_lost_on_its_way_is_sent_again_and_the_user_asked_once(
    kind, lost, server, serving, monkeypatch
):
    monkeypatch.setattr("pegboard_nats.connection._CHECK_SECONDS", 0.1)
    settings, dropped, asked = server.settings(prefix=f"lost-{kind}"), [], []
    publish = Client.publish

    async def publish_all_but_one(client, subject, *arguments, **options):
        if lost in subject and not dropped:
            dropped.append(subject)
        else:
            await publish(client, subject, *arguments, **options)

    monkeypatch.setattr(Client, "publish", publish_all_but_one)

    def decide(request, context):
        asked.append(request)
        return Once()

    tools = LocalExecutor([ask], permissions=Permissions(mode="bypass"))
    async with serving(KINDS[kind](settings), Worker(tools)), ToolRegistry(approver=decide) as registry:
        registry.add("executors", "far", KINDS[kind](settings))
        registry.register(tool_of(ask).evolve(policy=Policy(executor="far")))
        async with asyncio.timeout(PATIENCE):
            assert (await registry.call("ask", {}, ANN)).text == "asked"
    await tools.aclose()
    assert (len(dropped), len(asked)) == (1, 1)


async def nested_call(kind, server, serving, outer, inner):
    """What a tool of a worker returns that calls a tool of its caller."""
    executor = KINDS[kind](server.settings(prefix=f"nested-{kind}"))
    tools = LocalExecutor([outer], permissions=Permissions(mode="bypass"))
    async with serving(KINDS[kind](executor.settings), Worker(tools)), ToolRegistry() as registry:
        registry.add("executors", "far", executor)
        registry.register(inner, tool_of(outer).evolve(policy=Policy(executor="far")))
        async with asyncio.timeout(PATIENCE):
            result = await registry.call(tool_of(outer).name, {})
    await tools.aclose()
    return result.text


@both
async def test_a_nested_call_that_its_tool_waits_for_no_longer_is_cancelled_at_the_caller(kind, server, serving):
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def endless() -> None:
        """Never ends."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    @tool
    async def give_up(context: ToolContext) -> str:
        """Stops waiting for another tool."""
        nested = asyncio.ensure_future(context.call("endless", {}))
        await begun.wait()
        nested.cancel()
        await ended.wait()
        return "gave up"

    assert await nested_call(kind, server, serving, give_up, endless) == "gave up"


@both
async def test_a_tool_may_ask_more_at_once_than_its_caller_answers_at_once(kind, server, serving, monkeypatch):
    monkeypatch.setattr("pegboard_nats.connection._CHECK_SECONDS", 0.1)
    asked, client = asyncio.Event(), await nats.connect(server.url)
    questions = await client.subscribe("_INBOX.*.*.question")
    await client.flush()

    @tool
    async def wait() -> None:
        """Waits until all have been asked."""
        await asked.wait()

    @tool
    async def ask_much(context: ToolContext) -> int:
        """Calls another tool a hundred times at once."""
        return len(await asyncio.gather(*(context.call("wait", {}) for _ in range(100))))

    asking = asyncio.create_task(nested_call(kind, server, serving, ask_much, wait))
    for _ in range(100):
        await questions.next_msg(PATIENCE)
    asked.set()
    assert await asking == '{"result": 100}'
    await client.close()


async def test_a_tool_may_ask_on_where_its_caller_never_hears_that_it_has_the_replies(server, serving, monkeypatch):
    publish = Client.publish

    async def publish_others(client, subject, *arguments, **options):
        if not subject.endswith(".heard"):
            await publish(client, subject, *arguments, **options)

    monkeypatch.setattr(Client, "publish", publish_others)

    @tool
    async def nothing() -> None:
        """Does nothing."""

    @tool
    async def ask_long(context: ToolContext) -> str:
        """Calls another tool, again and again."""
        for _ in range(130):
            await context.call("nothing", {})
        return "done"

    assert await nested_call("nats", server, serving, ask_long, nothing) == "done"


async def test_questions_that_are_cancelled_count_until_they_have_ended(server, serving, monkeypatch):
    monkeypatch.setattr("pegboard_nats.connection._CHECK_SECONDS", 0.1)
    begun, all_begun, refused, client = [], asyncio.Event(), asyncio.Event(), await nats.connect(server.url)
    questions = await client.subscribe("_INBOX.*.*.question")
    await client.flush()

    @tool
    async def end_late(is_last: bool) -> str:
        """Takes its time to end."""
        if is_last:
            return "answered"
        begun.append(1)
        if len(begun) == 64:
            all_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await refused.wait()

    @tool
    async def ask_on(context: ToolContext) -> str:
        """Asks another question where it waits no longer for 64."""
        asked = [asyncio.ensure_future(context.call("end_late", {"is_last": False})) for _ in range(64)]
        await all_begun.wait()
        for each in asked:
            each.cancel()
        await asyncio.wait(asked)
        return (await context.call("end_late", {"is_last": True})).text

    asking = asyncio.create_task(nested_call("nats", server, serving, ask_on, end_late))
    for _ in range(66):  # the last one twice
        await questions.next_msg(PATIENCE)
    refused.set()
    assert await asking == "answered"
    await client.close()


async def test_a_worker_that_is_away_for_a_moment_keeps_its_call(server, serving, monkeypatch):
    monkeypatch.setattr("pegboard_nats.connection._CHECK_SECONDS", 0.1)
    settings, signs, runs = server.settings(prefix="moment", wait=PATIENCE, dead_after=1), [], []
    over, request = asyncio.Event(), Client.request

    async def request_later(client, subject, *arguments, **options):
        if subject.startswith("_INBOX."):
            signs.append(subject)
            if len(signs) <= 2:
                raise NoRespondersError
            over.set()
        return await request(client, subject, *arguments, **options)

    async def be_silent(message):
        """As while the connection is lost."""

    monkeypatch.setattr(Client, "request", request_later)
    monkeypatch.setattr(Msg, "in_progress", be_silent)

    @tool
    async def wait() -> int:
        """Waits."""
        runs.append(1)
        await over.wait()
        return len(runs)

    tools = LocalExecutor([wait], permissions=Permissions(mode="bypass"))
    async with (
        serving(KINDS["jetstream"](settings), Worker(tools, name="w1", max_concurrency=1)),
        serving(KINDS["jetstream"](settings), Worker(tools, name="w2", max_concurrency=1)),
        ToolRegistry() as registry,
    ):
        registry.add("executors", "far", KINDS["jetstream"](settings))
        registry.register(tool_of(wait).evolve(policy=Policy(executor="far")))
        async with asyncio.timeout(PATIENCE):
            assert (await registry.call("wait", {})).structured_content == {"result": 1}
    await tools.aclose()
    assert len(signs) > 2


async def test_only_inboxes_are_sent_to_where_the_other_side_names_a_subject(server, serving):
    settings, client = server.settings(prefix="named", wait=PATIENCE), await nats.connect(server.url)
    other, asked = await client.subscribe("other.>"), await client.subscribe(own := client.new_inbox())

    async def play(message):
        """A hostile worker."""
        inbox = message.reply.removesuffix(".answer")
        for subject in (own, "other.worker"):
            await client.publish(f"{inbox}.worker", subject.encode())
        for kind in ("question", "alive"):
            await client.publish(f"{inbox}.{kind}", b"{}", reply="other.reply")
        await client.request(f"{inbox}.question", b"{}", timeout=PATIENCE)
        await asked.next_msg(PATIENCE)
        await client.publish(message.reply, b'{"response": {"structuredContent": {"result": 3}}}')

    playing = await client.subscribe("named.call.default", cb=play)
    async with calling(NatsExecutor(settings)) as registry:
        assert (await registry.call("check_add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        await playing.unsubscribe()
        async with serving(NatsExecutor(settings), worker()):
            await client.publish("named.call.default", b"{}", reply="other.inbox.answer")
            assert (await registry.call("check_add", {"a": 1, "b": 2})).structured_content == {"result": 3}
    async with serving(KINDS["jetstream"](settings), worker()), asyncio.timeout(PATIENCE):
        await client.jetstream().publish("named.queue.default.id", b'["other.inbox",false,"","",0,""]\n{}')
        while (await client.jetstream().stream_info("named-calls")).state.messages:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await client.flush()
    assert other.pending_msgs == 0
    await client.close()


@pytest.mark.slow
async def test_the_outcome_of_a_call_whose_worker_is_killed_is_unknown(server, tmp_path):
    executor = NatsExecutor(server.settings(prefix="killed"))
    process = WorkerProcess("nats", {"servers": server.url, "prefix": "killed"}).wait()
    async with calling(executor) as registry:
        file = tmp_path / "effects"
        call = asyncio.create_task(registry.call("check_endless", {"file": str(file)}))
        await until_there(file)
        async with asyncio.timeout(PATIENCE):
            process.kill()
            assert (await call).kind == "unknown_outcome"


@pytest.mark.slow
async def test_a_call_that_its_workers_die_of_runs_three_times(server, tmp_path):
    facts = {"servers": server.url, "prefix": "deadly", "synced": True, "dead_after": 1}
    file = tmp_path / "effects"
    async with calling(KINDS["jetstream"](server.settings(prefix="deadly", wait=PATIENCE))) as registry:
        arguments = {"file": str(file), "go": str(tmp_path / "go")}
        call = asyncio.create_task(registry.call("check_wait_again", arguments))
        for runs in (1, 2, 3):
            process = await asyncio.to_thread(WorkerProcess("jetstream", facts).wait)
            await until_there(file, runs)
            process.kill()
        process = await asyncio.to_thread(WorkerProcess("jetstream", facts).wait)
        async with asyncio.timeout(PATIENCE):
            assert (await call).kind == "unknown_outcome"
        process.kill()
    assert len(suite.effects_in(str(file))) == 3


@pytest.mark.slow
async def test_a_cancelled_call_of_a_dead_worker_does_not_run_again(server, tmp_path):
    facts = {"servers": server.url, "prefix": "cancelled", "synced": True, "dead_after": 1}
    file, client = tmp_path / "effects", await nats.connect(server.url)
    async with calling(KINDS["jetstream"](server.settings(prefix="cancelled", wait=PATIENCE))) as registry:
        process = await asyncio.to_thread(WorkerProcess("jetstream", facts).wait)
        arguments = {"file": str(file), "go": str(tmp_path / "go")}
        call = asyncio.create_task(registry.call("check_wait_again", arguments))
        await until_there(file)
        process.kill()
        call.cancel()
        await asyncio.wait([call])
    process = await asyncio.to_thread(WorkerProcess("jetstream", facts).wait)
    async with asyncio.timeout(PATIENCE):
        while (await client.jetstream().stream_info("cancelled-calls")).state.messages:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    process.kill()
    await client.close()
    assert len(suite.effects_in(str(file))) == 1


async def test_a_result_that_is_longer_than_the_server_passes_on_is_refused_or_stored_apart(server, serving):
    for kind, wanted in (("nats", "limit"), ("jetstream", None)):
        settings = server.settings(prefix=f"long-{kind}")
        async with serving(KINDS[kind](settings), worker()), calling(KINDS[kind](settings)) as registry:
            result = await registry.call("check_large", {"length": 3 << 20})
            assert result.kind == wanted
            added = await registry.call("check_add", {"a": 1, "b": 2, "file": "x" * (2 << 20)})
            assert added.kind == ("limit" if wanted else "tool_failure")  # the file's name is too long for the system


async def test_a_server_that_may_acknowledge_before_it_syncs_is_warned_of_once(server, caplog):
    for synced, warnings in ((False, 1), (True, 0)):
        caplog.clear()
        executor = KINDS["jetstream"](server.settings(prefix="synced", synced=synced))
        for _ in range(2):
            assert await executor.attach("sha256:0") is None
        await executor.aclose()
        assert [each.levelname for each in caplog.records if each.name == "pegboard"] == ["WARNING"] * warnings


@tool
async def save_report(context: ToolContext) -> None:
    """Saves a report."""
    await context.artifacts.save("report", "x" * (2 << 20))


@tool
async def load_report(context: ToolContext) -> int:
    """Loads the report."""
    return len((await context.artifacts.load("report")).text)


@both
async def test_a_reply_that_is_longer_than_the_server_passes_on_is_an_error_of_the_tool(kind, server, serving):
    settings = server.settings(prefix=f"long-{kind}")
    tools = LocalExecutor([save_report, load_report], permissions=Permissions(mode="bypass"))
    async with serving(KINDS[kind](settings), Worker(tools)), ToolRegistry() as registry:
        registry.add("executors", "far", KINDS[kind](settings))
        far = Policy(executor="far")
        registry.register(save_report, tool_of(load_report).evolve(policy=far))
        assert not (await registry.call("save_report", {}, ANN)).is_error
        async with asyncio.timeout(PATIENCE):
            result = await registry.call("load_report", {}, ANN)
    await tools.aclose()
    assert (result.kind, "The reply can't be sent" in result.text) == ("tool_failure", True)


async def test_what_was_stored_apart_and_changed_since_is_not_run(server, serving):
    settings = server.settings(prefix="damaged", wait=30)
    client = await nats.connect(server.url)
    async with calling(KINDS["jetstream"](settings)) as registry:
        call = asyncio.create_task(registry.call("check_length", {"text": "x" * (2 << 20)}))
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(NotFoundError):
                    blobs = await client.jetstream().object_store("damaged-blobs")
                    if names := [info.name for info in await blobs.list()]:
                        break
        await blobs.put(names[0], b"another one")
        await client.close()
        async with serving(KINDS["jetstream"](settings), worker()):
            result = await call
    assert (result.kind, "what was stored for it was changed" in result.text) == ("not_executed", True)


@pytest.mark.parametrize("damage", [b"[" * 100_000, b'["x"]', b"\xff"])
async def test_a_call_whose_record_was_changed_may_have_run_and_its_worker_works_on(damage, server, serving):
    prefix = f"changed-{len(damage)}"
    settings = server.settings(prefix=prefix, wait=PATIENCE)
    client = await nats.connect(server.url)
    jetstream = client.jetstream()
    async with calling(KINDS["jetstream"](settings)) as registry:
        call = asyncio.create_task(registry.call("check_add", {"a": 1, "b": 1}))
        found = {}
        async with asyncio.timeout(PATIENCE):
            while not found:
                with suppress(NotFoundError):
                    found = (await jetstream.stream_info(f"{prefix}-calls", subjects_filter=">")).state.subjects or {}
        records = await jetstream.key_value(f"{prefix}-results")
        await records.put(next(iter(found)).rpartition(".")[2], damage)
        async with serving(KINDS["jetstream"](settings), worker()):
            result = await call
            assert (result.kind, "what is stored of it was changed" in result.text) == ("unknown_outcome", True)
            assert (await registry.call("check_add", {"a": 1, "b": 2})).structured_content == {"result": 3}
            async with asyncio.timeout(PATIENCE):  # until the worker has given up the call, too
                while (await jetstream.stream_info(f"{prefix}-calls")).state.messages:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
    await client.close()


async def test_a_worker_that_is_stopped_while_the_server_is_away_lets_its_calls_end_and_takes_no_more(
    server, tmp_path, monkeypatch
):
    executor, failed = NatsExecutor(server.settings(prefix="away", wait=1)), asyncio.Event()

    async def fail(subscription):
        failed.set()
        raise FlushTimeoutError

    monkeypatch.setattr(Subscription, "drain", fail)
    file, go = tmp_path / "effects", tmp_path / "go"
    async with calling(executor) as registry, asyncio.timeout(PATIENCE):
        serving = asyncio.create_task(executor.serve(one := worker()))
        await one.started.wait()
        call = asyncio.create_task(registry.call("check_wait_again", {"file": str(file), "go": str(go)}))
        await until_there(file)
        one.stopping.set()
        await failed.wait()
        assert (await registry.call("check_add", {"a": 1, "b": 2})).kind == "not_executed"
        go.touch()
        assert not (await call).is_error
        await serving
        assert (await registry.call("check_add", {"a": 1, "b": 2})).kind == "not_executed"
        patient = NatsExecutor(server.settings(prefix="away", wait=PATIENCE))
        serving = asyncio.create_task(NatsExecutor(executor.settings).serve(other := worker()))
        await other.started.wait()
        async with calling(patient) as others:
            for _ in range(3):
                assert (await others.call("check_add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        other.stopping.set()
        await serving


@both
@pytest.mark.parametrize("how", ["stopped", "cancelled"])
async def test_a_worker_that_has_ended_takes_and_runs_no_calls(kind, how, server, tmp_path):
    executor = KINDS[kind](server.settings(prefix=f"{how}-{kind}", wait=1, dead_after=1))
    file = tmp_path / "effects"
    async with calling(KINDS[kind](executor.settings)) as registry, asyncio.timeout(PATIENCE):
        serving = asyncio.create_task(executor.serve(one := worker()))
        await one.started.wait()
        call = asyncio.create_task(registry.call("check_endless", {"file": str(file)}))
        await until_there(file)
        if how == "stopped":
            call.cancel()
            one.stopping.set()
            await serving
        else:
            serving.cancel()
            await asyncio.wait([serving])
            assert not one.running
        assert (await executor.status()).workers == ()
        assert (await registry.call("check_add", {"a": 1, "b": 2})).kind == "not_executed"
        call.cancel()
    await executor.aclose()
