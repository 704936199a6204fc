from __future__ import annotations

from pathlib import Path

import pytest

from fake_vendors.cases import cases_in, check
from pegboard_bedrock.bedrock import Bedrock

WEB = {"title": "A", "sourceContent": [{"text": "x"}], "location": {"web": {"url": "https://a"}}}


@pytest.mark.parametrize(("exporter", "cases"), cases_in(Path(__file__).parent / "cases"))
def test_the_wire(exporter, cases):
    check(exporter, cases)


def delta(index, **facts):
    return {"contentBlockDelta": {"delta": facts, "contentBlockIndex": index}}


def read(*events):
    reader = Bedrock().reader()
    for event in [*events, {"messageStop": {"stopReason": "end_turn"}}]:
        reader.feed(event)
    return reader.response()


def test_citations_that_never_end_are_cut(monkeypatch):
    monkeypatch.setattr("pegboard_bedrock._bedrock.MOST_LISTED", 2)
    assert len(read(delta(0, text="a"), *[delta(0, citation=WEB)] * 5).citations) == 2
