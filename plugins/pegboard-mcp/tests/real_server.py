"""A server on the SDK, for tests of clients: `real_server.py stdio|http|sse FILE`; FILE has more tools, as JSON."""

# A script that serves one test: what blocks here holds up nothing.
# ruff: noqa: ASYNC220, ASYNC240

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import warnings
from contextvars import ContextVar
from pathlib import Path

import anyio
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListRootsRequest,
    ListRootsResult,
    ListToolsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

warnings.simplefilter("ignore")
ANY = {"type": "object", "additionalProperties": True}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = {"type": "string"}
NAMES = ["media", "fail", "wait", "die", "say", "change", "ask", "sample", "roots", "env"]
TOOLS = [
    {"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object", "properties": {"text": TEXT}}},
    {"name": "read", "inputSchema": ANY, "annotations": {"readOnlyHint": True, "title": "Reads"}},
    {"name": "remove", "inputSchema": ANY, "annotations": {"destructiveHint": True}},
    {"name": "data", "inputSchema": ANY, "outputSchema": NUMBER},
    {"name": "wrong_data", "inputSchema": ANY, "outputSchema": NUMBER},
    *({"name": name, "inputSchema": ANY} for name in NAMES),
]
CALL, ASKED = ContextVar("call"), ContextVar("asked")
FILE = Path(sys.argv[2]) if len(sys.argv) > 2 else None


def more():
    return json.loads(FILE.read_text()) if FILE and FILE.exists() else []


async def list_tools(context, params):
    tools = list({tool["name"]: tool for tool in [*TOOLS, *more()]}.values())
    first = int(params.cursor or 0) if params else 0
    rest = {"nextCursor": str(first + 5)} if len(tools) > first + 5 else {}
    return ListToolsResult.model_validate({"tools": tools[first : first + 5], **rest})


async def call_tool(context, params):
    CALL.set(params)
    answer = await CALLS[params.name](context, params.arguments or {})
    if answer is None:
        return InputRequiredResult(input_requests={"one": ASKED.get()})
    return CallToolResult.model_validate(answer, by_name=False)


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


async def echo(context, arguments):
    return text(arguments.get("text", ""))


async def data(context, arguments):
    return text("42", structuredContent={"n": 42})


async def wrong_data(context, arguments):
    return text("x", structuredContent={"n": "x"})


async def media(context, arguments):
    blob = base64.b64encode(b"RIFF").decode()
    return {
        "content": [
            {"type": "image", "data": blob, "mimeType": "image/png"},
            {"type": "audio", "data": blob, "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "words"}},
            {"type": "resource_link", "uri": "https://example.com/", "name": "a page"},
        ]
    }


async def fail(context, arguments):
    return text("that went wrong", isError=True)


async def wait(context, arguments):
    Path(arguments["begun"]).touch()
    try:
        await asyncio.sleep(3600)
    finally:
        Path(arguments["ended"]).touch()


async def die(context, arguments):
    if "child" in arguments:
        child = subprocess.Popen(["sleep", "3600"])
        Path(arguments["child"]).write_text(str(child.pid))
    os._exit(3)


async def say(context, arguments):
    await context.session.report_progress(1, 2, "half")
    await context.session.send_log_message("warning", "a word", "where", related_request_id=context.request_id)
    return text("said")


async def change(context, arguments):
    FILE.write_text(json.dumps(arguments["tools"]))
    await bus.publish(ToolsListChanged())
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        await context.session.send_tool_list_changed()
    return text("changed")


async def ask(context, arguments):
    properties = {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}}
    schema = {"type": "object", "properties": properties}
    asked = ElicitRequestFormParams(message="What is your name?", requested_schema=schema)
    answer = await of_client(context, "elicitation/create", asked, ElicitResult)
    return answer if answer is None else text(json.dumps([answer.action, answer.content]))


async def sample(context, arguments):
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Say hi"))
    asked = CreateMessageRequestParams(messages=[message], max_tokens=10, system_prompt="Be short.")
    answer = await of_client(context, "sampling/createMessage", asked, CreateMessageResult)
    return answer if answer is None else text(answer.content.text)


async def roots(context, arguments):
    answer = await of_client(context, "roots/list", None, ListRootsResult)
    return answer if answer is None else text(" ".join(str(root.uri) for root in answer.roots))


async def of_client(context, method, params, result):
    """What the client answers to a request: at once, or in a later revision with its next call; until then `None`."""
    request = {"method": method} if params is None else {"method": method, "params": params}
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        kinds = {"elicitation/create": ElicitRequest, "sampling/createMessage": CreateMessageRequest}
        kind = kinds.get(method, ListRootsRequest)
        return await context.session.send_request(kind(**request), result)
    given = (CALL.get().input_responses or {}).get("one")
    if given is None:
        ASKED.set(request)
        return None
    return result.model_validate(given.model_dump(by_alias=True))


async def env(context, arguments):
    return text(json.dumps({"env": dict(os.environ), "cwd": str(Path.cwd())}))


CALLS = {name: globals().get(name, echo) for name in [tool["name"] for tool in TOOLS]} | {"added": echo}


async def list_resources(context, params):
    return ListResourcesResult(resources=[Resource(uri="note://one", name="one", description="The first note.")])


async def read_resource(context, params):
    return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, text=f"text of {params.uri}")])


async def list_prompts(context, params):
    return ListPromptsResult(prompts=[Prompt(name="greet", arguments=[PromptArgument(name="who", required=True)])])


async def get_prompt(context, params):
    message = PromptMessage(role="user", content=TextContent(type="text", text=f"Greet {params.arguments['who']}"))
    return GetPromptResult(messages=[message])


bus = InMemorySubscriptionBus()
server = Server(
    "real",
    on_subscriptions_listen=ListenHandler(bus),
    instructions="Echo before you read.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_read_resource=read_resource,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
)


async def without_discovery(incoming, to_server):
    """Ends at a request that it doesn't know, as there are servers."""
    async with to_server:
        async for item in incoming:
            if "server/discover" in repr(item):
                os._exit(1)
            await to_server.send(item)


async def stdio():
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as tasks:
        if "LEGACY" not in os.environ:
            await server.run(incoming, outgoing, options)
            return
        to_server, passed = anyio.create_memory_object_stream(0)
        tasks.start_soon(without_discovery, incoming, to_server)
        await server.run(passed, outgoing, options)


def authorization(address):
    """An authorization server in the same process, which lets everybody in, and whose tokens hold for a second."""
    import secrets
    import time

    from mcp.server.auth.provider import AccessToken, AuthorizationCode, ProviderTokenVerifier, RefreshToken
    from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
    from mcp.shared.auth import OAuthToken

    known = {}

    class Provider:
        async def get_client(self, client_id):
            return known.get(client_id)

        async def register_client(self, client):
            known[client.client_id] = client

        async def authorize(self, client, params):
            code = AuthorizationCode(
                code=secrets.token_hex(20),
                client_id=client.client_id,
                expires_at=time.time() + 60,
                **params.model_dump(include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly"}),
                scopes=[],
            )
            known[code.code] = code
            return f"{params.redirect_uri}?code={code.code}&state={params.state}"

        async def load_authorization_code(self, client, code):
            return known.get(code)

        async def exchange_authorization_code(self, client, code):
            return await self.exchange_refresh_token(client, None, [])

        async def load_refresh_token(self, client, token):
            return known.get(token)

        async def exchange_refresh_token(self, client, token, scopes):
            access, refresh = secrets.token_hex(20), secrets.token_hex(20)
            known[access] = AccessToken(token=access, client_id=client.client_id, scopes=[])
            known[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=[])
            return OAuthToken(access_token=access, refresh_token=refresh, expires_in=1)

        async def load_access_token(self, token):
            return known.get(token)

    provider = Provider()
    settings = AuthSettings(
        issuer_url=address,
        resource_server_url=f"{address}/mcp",
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=False,
    )
    return {"auth": settings, "auth_server_provider": provider, "token_verifier": ProviderTokenVerifier(provider)}


def web(kind):
    import socket

    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    if kind == "http":
        app = server.streamable_http_app()
    elif kind == "oauth":
        app = server.streamable_http_app(**authorization(address))
    else:
        from mcp.server.sse import SseServerTransport
        from starlette.applications import Starlette
        from starlette.responses import Response
        from starlette.routing import Mount, Route

        transport = SseServerTransport("/messages/")

        async def connect(request):
            async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
                await server.run(*streams, server.create_initialization_options())
            return Response()

        app = Starlette(routes=[Route("/mcp", connect), Mount("/messages/", transport.handle_post_message)])
    sys.stdout.write(f"{address}/mcp\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve([listening]))


if __name__ == "__main__":
    anyio.run(stdio) if sys.argv[1] == "stdio" else web(sys.argv[1])
