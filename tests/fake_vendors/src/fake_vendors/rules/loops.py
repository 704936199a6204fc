"""A whole tool loop with the real SDK and a scripted server, for either wire."""

from __future__ import annotations

from fake_vendors.server.talk import openai
from pegboard.messages.message import Message


def play(server, exporter, request, answer, *, streamed):
    """Asks until no tool is called any more; gives the answers.

    Args:
        server: Plays its script.
        exporter: Writes and reads.
        request: What is asked first.
        answer: Gives the result of a call.
        streamed: Whether answers come in pieces.
    """
    responses = []
    with openai(server.url) as client:
        create = client.responses.create if exporter.name == "openai-responses" else client.chat.completions.create
        while True:
            response = _ask(create, exporter, request, streamed=streamed)
            responses.append(response)
            request = request.with_messages(response.message)
            if not response.calls:
                return responses
            request = request.with_messages(Message.tool([(call, answer(call)) for call in response.calls]))


def _ask(create, exporter, request, *, streamed):
    body = exporter.request(request)
    if not streamed:
        return exporter.response(create(**body).model_dump(), request)
    reader = exporter.reader(request)
    broken = None
    try:
        for chunk in create(**body, stream=True):
            reader.feed(chunk.model_dump())
    except Exception as error:  # noqa: BLE001  whatever the client makes of a stream that breaks off
        broken = str(error)
    return reader.response(broken=broken)
