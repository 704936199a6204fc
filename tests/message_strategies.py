"""Messages and what they are made of, as hypothesis makes them."""

from __future__ import annotations

from typing import get_args

from hypothesis import strategies as st

from pegboard import AudioContent, CallFault, FileContent, ImageContent, LinkContent, TextContent, ToolCall, ToolResult
from pegboard.messages import (
    CallPart,
    Citation,
    FinishReason,
    HostedPart,
    MediaPart,
    Message,
    ModelResponse,
    ReasoningPart,
    ResultPart,
    TextPart,
    Usage,
)
from strategies import json_values

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
OPTIONAL = st.none() | TEXTS
IDS = st.sampled_from(["", "a", "b", "c"])
NAMES = st.sampled_from(["add", "read"])
DATA = st.dictionaries(TEXTS, json_values(leaves=3), max_size=2)
COUNTS = st.integers(0, 1 << 40)

CITATIONS = st.builds(Citation, OPTIONAL, OPTIONAL, OPTIONAL, st.none() | COUNTS, st.none() | COUNTS, DATA)
MEDIA = (
    st.builds(ImageContent, st.binary(max_size=4), TEXTS)
    | st.builds(AudioContent, st.binary(max_size=4), TEXTS)
    | st.builds(FileContent, TEXTS, st.binary(max_size=4) | TEXTS, OPTIONAL)
    | st.builds(LinkContent, TEXTS, TEXTS, OPTIONAL)
)
RESULTS = st.builds(
    ToolResult,
    st.lists(st.builds(TextContent, TEXTS) | MEDIA, max_size=2),
    json_values(leaves=3),
    kind=st.none(),
    title=OPTIONAL,
    metadata=DATA,
) | st.builds(ToolResult.error, st.sampled_from(["timeout", "denied"]), TEXTS)
CALLS = st.builds(
    ToolCall,
    NAMES,
    DATA | TEXTS,
    IDS,
    title=OPTIONAL,
    error=st.none() | st.builds(CallFault, st.just("invalid_arguments"), TEXTS),
    provider_executed=st.booleans(),
    provider_metadata=st.none() | DATA,
)
TEXT_PARTS = st.builds(TextPart, TEXTS, st.lists(CITATIONS, max_size=1), DATA)
PARTS = (
    TEXT_PARTS
    | st.builds(MediaPart, MEDIA, DATA)
    | st.builds(CallPart, CALLS)
    | st.builds(ResultPart, IDS, NAMES, RESULTS, DATA)
    | st.builds(ReasoningPart, TEXTS, DATA)
    | st.builds(HostedPart, TEXTS, DATA, st.sampled_from(["call", "result"]), TEXTS, TEXTS)
)
ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
MESSAGES = st.builds(Message, ROLES, st.lists(PARTS, max_size=4), OPTIONAL, DATA, DATA)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
RESPONSES = st.builds(
    ModelResponse,
    st.builds(Message, st.just("assistant"), st.lists(PARTS, max_size=2)),
    st.sampled_from(get_args(FinishReason)),
    USAGES,
    model=OPTIONAL,
    id=OPTIONAL,
    partial=st.booleans(),
    complete=st.booleans(),
    interrupted=st.booleans(),
    grounding=DATA,
    custom_metadata=DATA,
    error_code=OPTIONAL,
    error_message=OPTIONAL,
)
