"""What the tests of both wires of OpenAI's are made of."""

from __future__ import annotations

import asyncio
import copy
import json

from hypothesis import strategies as st

from pegboard import Tool
from pegboard.request.model_request import ModelConfig, ModelRequest
from pegboard.tools.call import ToolCall
from pegboard.tools.content import AudioContent, FileContent, ImageContent, LinkContent
from pegboard.toolsets.resolve import resolve_tools

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool.from_schema("weather", CITY, description="Tells the weather.")
NOTE = Tool.freeform("note", description="Takes a note.")

PNG = ImageContent(b"\x89PNG")
WAV = AudioContent(b"RIFF")
BMP = ImageContent(b"BM", "image/bmp")
PDF = FileContent("file:///a/re%20port.pdf", b"%PDF", "application/pdf")
LINK = LinkContent("https://example.com/p.png", "A picture", "image/png")


def resolved(*tools):
    return asyncio.run(resolve_tools(list(tools), ()))


def asked(*messages, tools=(WEATHER, NOTE), options=None, **facts):
    """A request, with options of the provider's by name."""
    config = facts.pop("config", None) or ModelConfig(provider_options=options or {})
    return ModelRequest(list(messages), tools=resolved(*tools), config=config, **facts)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def like(draw, shape):
    """JSON of about this shape: at some places stands any value, or nothing."""
    shape = copy.deepcopy(shape)
    for _ in range(draw(st.integers(0, 4))):
        holder, key = draw(st.sampled_from(list(_places(shape))))
        if draw(st.booleans()):
            holder[key] = draw(json_values)
        else:
            del holder[key]
        if not shape:
            break
    return shape


def _places(value):
    for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)


def nested(levels):
    value = None
    for _ in range(levels):
        value = {"a": value}
    return value


called = st.builds(
    ToolCall,
    st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    st.dictionaries(st.text(max_size=3), st.integers() | st.none() | st.text(max_size=3), max_size=3).map(json.dumps),
    st.from_regex(r"call_[a-z0-9]{1,8}", fullmatch=True),
)
"""Calls as a provider that follows its own rules would have them."""
