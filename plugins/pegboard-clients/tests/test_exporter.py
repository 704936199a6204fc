"""A third party's format of content blocks, written with the base classes alone."""

from __future__ import annotations

import re

import pytest
from attrs import define, field

from pegboard import ImageContent, Message, ModelError, ModelRequest, TextContent, Tool, ToolCall
from pegboard.messages import (
    CallPart,
    Citation,
    MediaPart,
    ModelResponse,
    ReasoningPart,
    TextDelta,
    TextPart,
)
from pegboard_clients.blocks import (
    FINISHES,
    AnsweredBlocks,
    BlockLimits,
    BlockReader,
    StreamedBlock,
    Wire,
    finish_of,
    turns_of,
)
from pegboard_clients.dialects import READ, Dialect
from pegboard_clients.exporter import BlockExporter
from pegboard_clients.strict import STRICT
from pegboard_clients.wire import SentIds, render_text, text_in

WEATHER = Tool.from_schema("weather", {"type": "object", "properties": {"city": {"type": "string"}}}).spec
PNG = ImageContent(b"\x89PNG\r\n\x1a\n" + bytes(24))
CALL = ToolCall("weather", {"city": "Oslo"}, "a")
RUN = ToolCall("search", {}, "b", provider_executed=True)
OWN = {"plum": {"signature": "s", "flag": True}}


class PlumWire(Wire[BlockLimits]):
    family = "plum"

    def text(self, text):
        return {"text": text}

    def cited(self, text, citations):
        return {"text": text, "cites": citations}

    def citation(self, own):
        return dict(own) or None

    def media(self, content):
        return {"shown": render_text(content)}

    def call(self, call_id, name, arguments):
        return {"do": name, "id": call_id, "with": arguments}

    def content(self, result, options):
        texts = [self.text(each.text) for each in result.content if isinstance(each, TextContent)]
        return [*texts, *({"shown": "media"} for each in result.content if not isinstance(each, TextContent))]

    def result(self, result, use_id, content):
        return {"did": use_id, "content": content}

    def thought(self, text, signature):
        return {"thought": text, "signature": signature}

    def redacted(self, data):
        return {"hidden": data}

    def hosted(self, data):
        return dict(data)

    def with_options(self, block, metadata):
        return {**block, **({"flag": True} if self.options(metadata).get("flag") else {})}

    def mark(self, blocks, metadata):
        blocks[-1]["mark"] = self.options(metadata)

    def is_result(self, block):
        return "did" in block

    def is_thought(self, block):
        return "thought" in block


class PlumAnswer(AnsweredBlocks):
    def part(self, block, fault=None):
        if "do" in block:
            return CallPart(self.calls.call(block["do"], block.get("with"), block.get("id"), {}, fault))
        return TextPart(text_in(block, "text"), self.citations(block.get("cites", ())))

    def source(self, citation):
        return "", text_in(citation, "url"), ""

    def response(self, body, parts):
        return ModelResponse(Message("assistant", tuple(parts)), finish_of(body.get("why"), parts, FINISHES))


class PlumBlock(StreamedBlock):
    own = frozenset({"text"})

    def take(self, delta):
        return TextDelta(self.grown.add(delta["text"]))

    def whole(self):
        return {"text": self.grown.text} if self.call is None else {"do": self.call.name, "with": self.call.arguments}


class PlumReader(BlockReader[PlumBlock]):
    block = PlumBlock

    def delta(self, event):
        if "why" in event:
            self.facts, self.end.reached = dict(event), True
            return None
        if "do" in event:
            return self.begin("do", {"name": event["do"], "input": event["with"]}, None, "a")
        block = self.blocks.at(event["at"]) or self.blocks.begin("text", {}, event["at"])
        return None if block is None else block.take(event)


@define(eq=False)
class Plum(BlockExporter[BlockLimits]):
    vendor = "Plum"
    dialects = (Dialect("plum", READ), Dialect("plum-strict", STRICT))
    answers = PlumAnswer
    readers = PlumReader
    error = staticmethod(lambda body: ModelError(text_in(body, "error") or "no answer", provider="plum"))

    limits: BlockLimits = field(factory=BlockLimits)
    name: str = field(default="plum", init=False)

    def request(self, request):
        wire = PlumWire(SentIds(re.compile(r"[^a-z]"), 8), self.limits, self.names(request))
        return {"turns": turns_of(request.messages, wire), "tools": list(self.exported(request).entries)}

    def declaration(self, name, schema, facts):
        return {"tool": name, "takes": schema, **facts}

    def hosted(self, kind, facts):
        return {"tool": f"{kind}_1", **facts} if kind == "search" else None

    def behind(self, options):
        return {"point": options.pop("point")} if "point" in options else None

    def entry_name(self, entry):
        return entry.get("tool")

    def schema_of(self, entry):
        return entry["takes"] if entry.get("strict") else None


def sent(*messages):
    return Plum().request(ModelRequest(messages))["turns"]


def test_parts_become_blocks_of_alternating_turns():
    cited = (Citation(uri="u", data={"plum": {"url": "u"}}), Citation(uri="v", data={"other": {"url": "v"}}))
    thoughts = [ReasoningPart("Hm", OWN), ReasoningPart("not ours"), ReasoningPart("", {"plum": {"redacted": "x"}})]
    parts = (*thoughts, TextPart("Yes", cited, OWN), CallPart(CALL), CallPart(RUN), MediaPart(PNG), TextPart("end "))
    assert sent("Hi", Message("assistant", parts)) == [
        {"role": "user", "content": [{"text": "Hi"}]},
        {
            "role": "assistant",
            "content": [
                {"thought": "Hm", "signature": "s"},
                {"hidden": "x"},
                {"text": "Yes", "cites": [{"url": "u"}], "flag": True},
                {"do": "weather", "id": "a", "with": {"city": "Oslo"}},
                {"text": render_text(PNG)},
                {"text": "end"},
            ],
        },
    ]


def test_tools_are_written_and_refused():
    search, other = Tool.provider("search", "plum.search").spec, Tool.provider("other", "plum.other").spec
    marked = WEATHER.evolve(provider_options={"plum": {"point": 1, "extra": 2}})
    exported = Plum(BlockLimits(name="[a-z]+")).tools([marked, search, other, WEATHER.evolve(name="W")])
    assert exported.entries == (
        {"tool": "weather", "takes": WEATHER.input_schema, "extra": 2},
        {"point": 1},
        {"tool": "search_1"},
    )
    assert [(loss.tool, loss.what) for loss in exported.losses] == [
        ("other", "'plum.other' is not one of Plum's tools"),
        ("W", "must match [a-z]+"),
    ]


def test_an_answer_is_read_whole_and_as_a_stream():
    blocks = [{"text": "Yes", "cites": [{"url": "u"}]}, {"do": "weather", "with": {"city": "Oslo"}, "id": "a"}]
    whole = Plum().response({"content": blocks, "why": "tool_use"})
    assert (whole.text, whole.finish_reason, whole.citations[0].uri) == ("Yes", "tool_calls", "u")
    reader = Plum().reader()
    events = [7, {"at": 0, "text": "Ye"}, {"at": 0, "text": "s"}, {"do": "weather", "with": {"city": "Oslo"}}]
    deltas = [delta for event in [*events, {"why": "tool_use"}] for delta in reader.feed(event)]
    assert [delta.text for delta in deltas[:2]] == ["Ye", "s"]
    assert (reader.response().text, reader.response().complete) == ("Yes", True)
    assert Plum().reader().response(broken="cut").error_message == "cut"
    with pytest.raises(ModelError, match="busy"):
        Plum().response({"error": "busy"})


def test_blocks_that_never_end_are_cut(monkeypatch):
    monkeypatch.setattr("pegboard_clients.blocks.MOST_BLOCKS", 2)
    reader = Plum().reader()
    for at, text in enumerate("abc"):
        reader.feed({"at": at, "text": text})
    reader.feed({"why": "end_turn"})
    assert (reader.response().text, reader.response().complete) == ("ab", False)
