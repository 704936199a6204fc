"""The HTTP API."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from socket import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import pegboard
from http_host.script import TOOLS, Script
from http_host.turns import ConflictError, RunningTurn, Turns


def make_app(folder: Path) -> Starlette:
    """The application.

    Args:
        folder: Where turns are stored.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with pegboard.load() as registry:  # with the tools of all installed plugins
            registry.register(*TOOLS)
            app.state.turns = turns = Turns(registry, Script(), folder)
            yield
            await turns.close()

    routes = [
        Route("/turns", start, methods=["POST"]),
        Route("/turns/{id:uuid}", show, methods=["GET"]),
        Route("/turns/{id:uuid}", cancel, methods=["DELETE"]),
        Route("/turns/{id:uuid}/events", stream, methods=["GET"]),
        Route("/turns/{id:uuid}/answers", resume, methods=["POST"]),
    ]
    errors = {HTTPException: _error, ConflictError: _error}
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=errors)


async def start(request: Request) -> Response:
    """`POST /turns` with `{"text"}`: starts a turn."""
    text = (await _body(request)).get("text")
    if not isinstance(text, str):
        raise HTTPException(400, 'the body must be {"text": "..."}')
    return JSONResponse(_turns(request).start(text).to_json(), 201)


async def show(request: Request) -> Response:
    """`GET /turns/ID`: the state of a turn, and its waiting calls."""
    return JSONResponse(_turn(request).to_json())


async def resume(request: Request) -> Response:
    """`POST /turns/ID/answers` with `{WAITING_ID: {"answer": "once"}}`: resumes a suspended turn."""
    running = _turn(request)
    _turns(request).resume(running, await _body(request))
    return JSONResponse(running.to_json(), 202)


async def cancel(request: Request) -> Response:
    """`DELETE /turns/ID`: cancels a running turn."""
    running = _turn(request)
    await _turns(request).cancel(running)
    return JSONResponse(running.to_json())


async def stream(request: Request) -> Response:
    """`GET /turns/ID/events`: the events of a turn, as server-sent events, until it ends or is suspended."""
    running = _turn(request)
    seen = request.headers.get("last-event-id", "")
    start = int(seen) + 1 if seen.isdecimal() else 0
    if start > len(running.events):  # the server was restarted, and numbers begin at 0 again
        start = 0
    return StreamingResponse(_server_sent(running, start), media_type="text/event-stream")


async def _server_sent(running: RunningTurn, start: int) -> AsyncGenerator[str]:
    async for number, event in running.follow(start):
        yield f"id: {number}\nevent: {event['type']}\ndata: {json.dumps(event)}\n\n"


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        raise HTTPException(400, "the body must be JSON") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "the body must be an object")
    return body  # pyright: ignore[reportUnknownVariableType]


def _turns(request: Request) -> Turns:
    return request.app.state.turns


def _turn(request: Request) -> RunningTurn:
    running = _turns(request).find(str(request.path_params["id"]))
    if running is None:
        raise HTTPException(404, "there is no such turn")
    return running


async def _error(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    return JSONResponse({"error": str(error)}, 409)


def main() -> None:
    """Serves the API on this machine."""
    parser = argparse.ArgumentParser(prog="http-host", description="Runs turns of a model behind an HTTP API.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--folder", type=Path, default=Path("turns"), help="where turns are stored")
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):  # raised again after the shutdown
        _Server(make_app(given.folder), given.port).run()


class _Server(uvicorn.Server):
    """Server that ends the turns before it waits for connections to close, as clients may follow a turn."""

    def __init__(self, app: Starlette, port: int) -> None:
        super().__init__(uvicorn.Config(app, port=port))
        self._app = app

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Ends the turns, then shuts down as the base class does."""
        await self._app.state.turns.close()
        await super().shutdown(sockets)
