from __future__ import annotations

from pathlib import Path

import pytest

from fake_vendors.cases import cases_in, check
from pegboard import ModelConfig, ModelRequest, Tool
from pegboard_anthropic import Anthropic, AnthropicLimits, thinking_budgets

CITED = {"type": "web_search_result_location", "url": "https://a", "title": "A", "cited_text": "words"}


@pytest.mark.parametrize(("exporter", "cases"), cases_in(Path(__file__).parent / "cases"))
def test_the_wire(exporter, cases):
    check(exporter, cases)


@pytest.mark.parametrize(("most", "max_tokens"), [(None, 8_192), (3_000, 3_000), (2_000, 4_000), (500, 2_500)])
def test_a_thinking_budget_is_below_max_tokens(most, max_tokens):
    exporter = Anthropic(AnthropicLimits(reasoning=thinking_budgets(low=2_000)))
    body = exporter.request(ModelRequest("x", config=ModelConfig(max_output_tokens=most, reasoning="low")))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2_000}
    assert body["max_tokens"] == max_tokens


@pytest.mark.parametrize(("optional", "strict"), [(24, True), (25, None)])
def test_24_optional_parameters_are_strict(optional, strict):
    schema = {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(optional)}}
    entry = Anthropic().tools([Tool.from_schema("wide", schema, strict=True).spec]).entries[0]
    assert entry.get("strict") is strict


def delta(index, kind, **facts):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **facts}}


def read(*events):
    reader = Anthropic().reader()
    for event in [*events, {"type": "message_stop"}]:
        reader.feed(event)
    return reader.response()


def test_citations_that_never_end_are_cut(monkeypatch):
    monkeypatch.setattr("pegboard_anthropic._anthropic.MOST_CITATIONS", 2)
    response = read(delta(0, "text_delta", text="a"), *[delta(0, "citations_delta", citation=CITED)] * 5)
    assert len(response.citations) == 2
