from __future__ import annotations

from pathlib import Path

import pytest

from fake_vendors.cases import cases_in, check
from pegboard_clients.wire.bodies import SizeBudget
from pegboard_ollama.ollama import OllamaReader


@pytest.mark.parametrize(("exporter", "cases"), cases_in(Path(__file__).parent / "cases"))
def test_the_wire(exporter, cases):
    check(exporter, cases)


def line(*, done=False, **message):
    return {"model": "m", "message": {"role": "assistant", **message}, "done": done}


@pytest.mark.parametrize(
    ("message", "budget", "count"),
    [
        ({"content": "12345"}, 10, 1),
        ({"tool_calls": [{"function": {"name": "f"}}]}, 2_500, 2),
        ({"images": ["aGk="]}, 2_500, 2),
    ],
)
def test_a_stream_is_cut_at_its_size_limit(message, budget, count):
    reader = OllamaReader(budget=SizeBudget(budget))
    for each in (*[line(**message)] * 5, line(done=True) | {"done_reason": "stop"}):
        reader.feed(each)
    response = reader.response()
    assert response.text in ("", "1234512345")
    assert (len(response.parts), response.finish_reason, response.complete) == (count, "length", False)
