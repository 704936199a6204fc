"""The API, as clients use it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import httpx
import pytest

from http_host.app import make_app
from http_host.script import HELP

ORDER = 'order {"item": "screws", "count": 50}'
NO_TURN = "/turns/00000000-0000-0000-0000-000000000000"


@pytest.fixture(autouse=True)
def _own_tools_only(monkeypatch):
    monkeypatch.setenv("PEGBOARD_AUTOLOAD", "0")


@asynccontextmanager
async def serving(folder):
    app = make_app(folder)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://host") as made:
        yield made


async def start(client, text):
    answer = await client.post("/turns", json={"text": text})
    assert answer.status_code == 201
    return f"/turns/{answer.json()['id']}"


async def events_of(client, turn, **headers):
    """All events until the turn ends or is suspended: (number, kind, data)."""
    answer = await client.get(f"{turn}/events", headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = re.findall(r"id: (\d+)\nevent: (\w+)\ndata: (.+)\n\n", answer.text)
    return [(int(number), kind, json.loads(data)) for number, kind, data in found]


async def suspended(client):
    turn = await start(client, ORDER)
    await events_of(client, turn)
    (waiting,) = (await client.get(turn)).json()["waiting"]
    return turn, waiting


def test_a_turn_runs_and_streams_its_events(tmp_path):
    async def main():
        async with serving(tmp_path) as client:
            turn = await start(client, 'stock_of {"item": "nails"}')
            events = await events_of(client, turn)
            kinds = [kind for _, kind, _ in events]
            assert (kinds[0], kinds[-1]) == ("round", "end")
            assert kinds.index("call_running") < kinds.index("call_completed")
            assert await events_of(client, turn, **{"Last-Event-ID": str(len(events) - 2)}) == events[-1:]
            shown = (await client.get(turn)).json()
            assert (shown["state"], shown["text"]) == ("answered", 'Done: {"result": 12}')

    asyncio.run(main())


def test_an_answer_is_streamed_word_by_word(tmp_path):
    async def main():
        async with serving(tmp_path) as client:
            events = await events_of(client, await start(client, "Hello."))
            words = [data["delta"]["text"] for _, kind, data in events if kind == "delta"]
            assert len(words) > 1
            assert "".join(words) == HELP

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "state", "text"),
    [
        ({"answer": "once"}, "answered", "Done: 50 screws ordered"),
        ({"answer": "reject"}, "rejected", ""),
        ({"answer": "later"}, "suspended", ""),
    ],
    ids=lambda value: value["answer"] if isinstance(value, dict) else "",
)
def test_an_approval_is_answered_by_a_later_request(tmp_path, answer, state, text):
    async def main():
        async with serving(tmp_path) as client:
            turn, waiting = await suspended(client)
            assert (waiting["tool"], waiting["summary"]) == ("order", "Order 50 screws")
            resumed = await client.post(f"{turn}/answers", json={waiting["id"]: answer})
            assert (resumed.status_code, resumed.json()["state"]) == (202, "running")
            await events_of(client, turn)
            shown = (await client.get(turn)).json()
            assert (shown["state"], shown["text"]) == (state, text)

    asyncio.run(main())


def test_an_approval_outlives_the_process(tmp_path):
    async def main():
        async with serving(tmp_path) as client:
            turn, waiting = await suspended(client)
        async with serving(tmp_path) as client:
            assert (await client.get(turn)).json()["waiting"] == [waiting]
            await client.post(f"{turn}/answers", json={waiting["id"]: {"answer": "once"}})
            events = await events_of(client, turn, **{"Last-Event-ID": "1000"})
            ended = [kind for _, kind, _ in events if kind in {"end", "call_completed"}]
            assert ended == ["end", "call_completed", "end"]
            assert (await client.get(turn)).json()["text"] == "Done: 50 screws ordered"

    asyncio.run(main())


def test_an_approval_counts_once(tmp_path):
    async def main():
        async with serving(tmp_path) as client:
            turn, waiting = await suspended(client)
            body = {waiting["id"]: {"answer": "once"}}
            both = await asyncio.gather(*(client.post(f"{turn}/answers", json=body) for _ in range(2)))
            assert sorted(answer.status_code for answer in both) == [202, 409]
            events = await events_of(client, turn)
            assert sum(kind == "call_completed" for _, kind, _ in events) == 1

    asyncio.run(main())


def test_a_turn_is_cancelled_and_its_call_has_a_result(tmp_path):
    async def main():
        async with serving(tmp_path) as client:
            turn = await start(client, "take_stock")
            following = asyncio.create_task(events_of(client, turn))
            cancelled = await client.delete(turn)
            assert cancelled.json()["state"] == "interrupted"
            assert (await following)[-1][2]["detail"] == "cancelled by the client"
            assert (await client.delete(turn)).status_code == 409

    asyncio.run(main())


def test_running_turns_end_with_the_server(tmp_path):
    async def main():
        async with serving(tmp_path) as client:
            turn = await start(client, "take_stock")
        async with serving(tmp_path) as client:
            assert (await client.get(turn)).json()["state"] == "interrupted"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/turns", b"no JSON", 400),
        ("POST", "/turns", b"[]", 400),
        ("POST", "/turns", b'{"text": 1}', 400),
        ("GET", NO_TURN, b"", 404),
        ("GET", f"{NO_TURN}/events", b"", 404),
        ("POST", f"{NO_TURN}/answers", b"{}", 404),
        ("GET", "/turns/..%2Fsecret", b"", 404),
    ],
)
def test_a_wrong_request_is_an_error(tmp_path, method, path, body, status):
    async def main():
        async with serving(tmp_path) as client:
            answer = await client.request(method, path, content=body)
            assert (answer.status_code, list(answer.json())) == (status, ["error"])

    asyncio.run(main())


@pytest.mark.slow
def test_the_command_serves_and_ends_by_ctrl_c_while_a_client_follows(tmp_path):
    command = [sys.executable, "-m", "http_host", "--port", "0", "--folder", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        address = next(found[0] for line in server.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        with httpx.Client(base_url=address, trust_env=False, timeout=120) as client:
            turn = f"/turns/{client.post('/turns', json={'text': 'take_stock'}).json()['id']}"
            with client.stream("GET", f"{turn}/events") as following:
                lines = following.iter_lines()
                assert next(lines) == "id: 0"
                server.send_signal(signal.SIGINT)
                assert "event: end" in list(lines)
        assert "Traceback" not in server.stderr.read()
    assert json.loads(next(tmp_path.iterdir()).read_text())["ended"] == "interrupted"
