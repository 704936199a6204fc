from __future__ import annotations

from pegboard.messages.response import ModelResponse
from pegboard.request.model_request import can_stream


class Whole:
    name = provider = "whole"

    async def respond(self, _request):
        return ModelResponse("a")


class Pieces(Whole):
    async def stream(self, _request):
        yield ModelResponse("a")


def test_a_model_says_by_its_methods_whether_it_streams():
    assert [can_stream(model) for model in (Whole(), Pieces(), None)] == [False, True, False]
