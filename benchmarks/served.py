"""Servers of the Model Context Protocol: `registry serve`, the official SDK's bare server, and fastmcp.

The client is made of bare bytes, and what is counted is the server's processor time: how long a client takes says
nothing of the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import define, frozen
from bench import FULL as FULL_SIZES, INSIDE, Bench, tell
from processes import medians

SERVERS = INSIDE / "servers"
REVISION = "2025-11-25"
_TICK = os.sysconf("SC_CLK_TCK")
_PATIENCE = 60.0


@frozen
class Rounds:
    """How much is measured.

    Attributes:
        times: How often, each server in its turn.
        calls: Calls of one client, one after the other.
        clients: Clients at once.
        calls_each: Calls of each of them.
        tools: Tools that are listed.
        sessions: Sessions that are open while memory is measured.
    """

    times: int
    calls: int
    clients: int
    calls_each: int
    tools: int
    sessions: int


FULL = Rounds(times=7, calls=500, clients=100, calls_each=5, tools=1000, sessions=500)
QUICK = Rounds(times=1, calls=20, clients=5, calls_each=2, tools=20, sessions=5)


@frozen
class Program:
    """A server as a command.

    Attributes:
        words: That starts it over standard input and output.
        http_words: What is added for a port.
    """

    words: Sequence[str | Path]
    http_words: Callable[[int], Sequence[str]]


def programs(python: Path) -> dict[str, Program]:
    """The servers, by name."""
    functions = ("--functions", str(SERVERS / "tools.py"), "-T", "add,tool_*")
    return {
        "sdk": Program((python, SERVERS / "bare.py"), lambda port: [str(port)]),
        "pegboard": Program(
            (python.with_name("registry"), "serve", *functions), lambda port: ["--http", f"127.0.0.1:{port}"]
        ),
        "fastmcp": Program((python, SERVERS / "fast.py"), lambda port: [str(port)]),
    }


@define
class Server:
    """A server that runs.

    Attributes:
        process: Its process.
        port: Where it listens, or `None`.
    """

    process: asyncio.subprocess.Process
    port: int | None = None

    def cpu_seconds(self) -> float:
        """Processor time of all its threads up to now."""
        facts = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(facts[11]) + int(facts[12])) / _TICK

    def resident_kib(self) -> float:
        """How much of it stands in memory."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith(("Pss:", "SwapPss:")))


class Lines:
    """A client over standard input and output."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._count = 0

    async def request(self, method: str, **params: Any) -> Any:
        self._count += 1
        self._write({"id": self._count, "method": method, "params": params})
        while True:
            line = await asyncio.wait_for(self._process.stdout.readline(), _PATIENCE)
            if not line:
                raise EOFError("the server has ended")
            message = json.loads(line)
            if message.get("id") == self._count:
                return answer_of(message)

    async def notify(self, method: str) -> None:
        self._write({"method": method})

    def _write(self, message: Mapping[str, Any]) -> None:
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


class Posts:
    """A client over HTTP, on one connection, which it opens anew where the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._session = ""
        self._count = 0

    async def request(self, method: str, **params: Any) -> Any:
        self._count += 1
        await self._write({"id": self._count, "method": method, "params": params})
        return answer_of(await asyncio.wait_for(self._answer(), _PATIENCE))

    async def notify(self, method: str) -> None:
        await self._write({"method": method})
        await self._body()

    async def close(self) -> None:
        if self._streams is not None:
            await _close(self._streams[1])

    async def _write(self, message: Mapping[str, Any]) -> None:
        if self._streams is None or self._streams[0].at_eof():
            await self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {REVISION}\r\n"
            f"{self._session}Content-Length: {len(body)}\r\n\r\n"
        )
        self._streams[1].write(head.encode() + body)

    async def _answer(self) -> Any:
        text = await self._body()
        if text.startswith(b"{"):
            return json.loads(text)
        events = [json.loads(line[5:]) for line in text.splitlines() if line.startswith(b"data:") and line[5:].strip()]
        return next(event for event in events if event.get("id") == self._count)

    async def _body(self) -> bytes:
        assert self._streams is not None
        reader = self._streams[0]
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        if "mcp-session-id" in fields:
            self._session = f"Mcp-Session-Id: {fields['mcp-session-id']}\r\n"
        if fields.get("transfer-encoding") != "chunked":
            return await reader.readexactly(int(fields.get("content-length", 0)))
        parts: list[bytes] = []
        while size := int(await reader.readline(), 16):
            parts.append((await reader.readexactly(size + 2))[:-2])
        await reader.readline()
        return b"".join(parts)


def answer_of(message: Mapping[str, Any]) -> Any:
    """What a response answers."""
    if "result" not in message:
        raise ValueError(f"the server refuses: {message}")
    return message["result"]


async def opened(client: Any) -> Any:
    """The client, once it has shaken hands."""
    facts = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    assert (await client.request("initialize", **facts))["protocolVersion"] == REVISION
    await client.notify("notifications/initialized")
    return client


async def called(client: Any, times: int) -> None:
    """Calls a tool, one call after the other."""
    for number in range(times):
        result = await client.request("tools/call", name="add", arguments={"a": number, "b": 1})
        assert result["structuredContent"] == {"result": number + 1}, result


async def listed(client: Any) -> int:
    """How many tools all pages of the list have."""
    count, page = 0, {}
    while True:
        answer = await client.request("tools/list", **page)
        count += len(answer["tools"])
        if not answer.get("nextCursor"):
            return count
        page = {"cursor": answer["nextCursor"]}


@asynccontextmanager
async def running(
    words: Sequence[str | Path], env: Mapping[str, str], port: int | None = None
) -> AsyncIterator[Server]:
    """A server while it runs; one with a port listens."""
    pipes = dict.fromkeys(("stdin", "stdout"), asyncio.subprocess.PIPE) if port is None else {}
    with (Path(env["HOME"]) / "complaints").open("wb") as complaints:
        process = await asyncio.create_subprocess_exec(*words, env=env, stderr=complaints, limit=2**26, **pipes)
    try:
        if port is not None:
            async with asyncio.timeout(_PATIENCE):
                while not await _listens(port):  # noqa: ASYNC110  not every server says so
                    await asyncio.sleep(0.05)
        yield Server(process, port)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    await _close(writer)
    return True


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):  # the server was faster
        await writer.wait_closed()


async def posting(server: Server) -> Posts:
    """A client of a server that listens, with a session of its own."""
    assert server.port is not None
    return await opened(Posts(server.port))


async def timed(server: Server, work: Any, each: int) -> dict[str, float]:
    """Microseconds of one of `each`: the server's processor time, and the time that passes."""
    cpu, wall = server.cpu_seconds(), time.perf_counter()
    await work
    wall = time.perf_counter() - wall
    return {"cpu_us": (server.cpu_seconds() - cpu) / each * 1e6, "wall_us": wall / each * 1e6}


async def start(words: Sequence[str | Path], env: Mapping[str, str]) -> dict[str, float]:
    """Milliseconds from nothing to the first list of tools."""
    started = time.perf_counter()
    async with running(words, env) as server:
        assert await listed(await opened(Lines(server.process))) > 0
        return {"cpu_ms": server.cpu_seconds() * 1e3, "wall_ms": (time.perf_counter() - started) * 1e3}


async def over_stdio(
    found: dict[str, Any], all_of: Mapping[str, Program], env: Mapping[str, str], size: Rounds
) -> None:
    """Starts, calls, and lists of many tools, over standard input and output."""
    for _ in range(size.times):
        for name, program in all_of.items():
            found[name].append({"start": await start(program.words, env)})
    many = {**env, "BENCH_TOOLS": str(size.tools - 1)}
    async with AsyncExitStack() as stack:
        for what, environment in (("stdio", env), ("list", many)):
            clients: dict[str, tuple[Server, Any]] = {}
            for name, program in all_of.items():
                server = await stack.enter_async_context(running(program.words, environment))
                clients[name] = server, await opened(Lines(server.process))
                await (called(clients[name][1], size.calls) if what == "stdio" else listed(clients[name][1]))
            for _ in range(size.times):
                for name, (server, client) in clients.items():
                    if what == "stdio":
                        found[name].append({"stdio": await timed(server, called(client, size.calls), size.calls)})
                    else:
                        assert await listed(client) == size.tools
                        found[name].append({"list": await timed(server, _often(listed, client, 10), 10)})


async def _often(work: Any, client: Any, times: int) -> None:
    for _ in range(times):
        await work(client)


async def over_http(found: dict[str, Any], all_of: Mapping[str, Program], env: Mapping[str, str], size: Rounds) -> None:
    """Calls of one client and of many at once, and memory of sessions, over HTTP."""
    async with AsyncExitStack() as stack:
        servers: dict[str, Server] = {}
        for name, program in all_of.items():
            port = free_port()
            words = (*program.words, *program.http_words(port))
            servers[name] = await stack.enter_async_context(running(words, env, port))
        one = {name: await posting(server) for name, server in servers.items()}
        crowds = {name: [await posting(server) for _ in range(size.clients)] for name, server in servers.items()}
        for client in (*one.values(), *(client for crowd in crowds.values() for client in crowd)):
            stack.push_async_callback(client.close)
        for name, server in servers.items():
            await called(one[name], size.calls)
            found[name].append({"session": {"kib": await session_memory(server, size.sessions)}})
        for _ in range(size.times):
            for name, server in servers.items():
                found[name].append({"http": await timed(server, called(one[name], size.calls), size.calls)})
            for name, server in servers.items():
                crowd = asyncio.gather(*(called(client, size.calls_each) for client in crowds[name]))
                found[name].append({"crowd": await timed(server, crowd, size.clients * size.calls_each)})


async def session_memory(server: Server, sessions: int) -> float:
    """KiB by which a server grows with each session that stays open."""
    before = server.resident_kib()
    for _ in range(sessions):
        client = await posting(server)
        await called(client, 1)
        await client.close()
    return (server.resident_kib() - before) / sessions


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def served(bench: Bench, python: Path, names: Sequence[str] = ("sdk", "pegboard", "fastmcp")) -> dict[str, Any]:
    """By server: `start`, `stdio`, `list`, `http`, `crowd` and `session`.

    Args:
        bench: The run.
        python: The interpreter that has the servers.
        names: Some of them.
    """
    size = FULL if bench.sizes is FULL_SIZES else QUICK
    tell("served")
    all_of = {name: program for name, program in programs(python).items() if name in names}
    found: dict[str, Any] = {name: [] for name in all_of}
    env = {**bench.env, "HOME": bench.new_home("served"), "FASTMCP_CHECK_FOR_UPDATES": "off"}
    asyncio.run(over_stdio(found, all_of, env, size))
    asyncio.run(over_http(found, all_of, env, size))
    return {name: medians(samples) for name, samples in found.items()}
