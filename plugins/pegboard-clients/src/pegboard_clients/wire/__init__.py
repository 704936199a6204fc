"""Building blocks of wire formats, for authors of exporters: tool entries, calls, bodies and streams.

A wire format is a class with the methods of `pegboard.Exporter`. `Entries` writes its tools, `SentIds` and
`arguments_object` its calls; `MadeCalls` parses the calls of an answer, `StreamReader` and `TextBuffer` a stream.
"""

from __future__ import annotations

from pegboard.tools import (
    BINARY as BINARY,
    Content as Content,
    arguments_object as arguments_object,
    encodable_text as encodable_text,
    media_type as media_type,
    parsed_object as parsed_object,
)
from pegboard_clients.wire.bodies import (
    INPUT as INPUT,
    SizeBudget as SizeBudget,
    StreamEnd as StreamEnd,
    StreamReader as StreamReader,
    TextBuffer as TextBuffer,
    admit as admit,
    arguments_text as arguments_text,
    as_object as as_object,
    check_choice as check_choice,
    config_facts as config_facts,
    count_in as count_in,
    decoded as decoded,
    facts_of as facts_of,
    input_text as input_text,
    known_text as known_text,
    list_in as list_in,
    merged as merged,
    none_readable as none_readable,
    object_in as object_in,
    object_or_none as object_or_none,
    objects_in as objects_in,
    place_in as place_in,
    render_json as render_json,
    render_text as render_text,
    text_in as text_in,
    without_empty as without_empty,
)
from pegboard_clients.wire.entries import (
    ConvertedSchema as ConvertedSchema,
    Entries as Entries,
    Entry as Entry,
    WriteEntry as WriteEntry,
    convert_schema as convert_schema,
    description_of as description_of,
    hosted_type as hosted_type,
    losses_of as losses_of,
    output_schema as output_schema,
    passthrough as passthrough,
    refusal as refusal,
)
from pegboard_clients.wire.ids import (
    ARGUMENTS_TOO_LONG as ARGUMENTS_TOO_LONG,
    CALL_CUT_OFF as CALL_CUT_OFF,
    ORIGINAL as ORIGINAL,
    CallIdAllocator as CallIdAllocator,
    MadeCalls as MadeCalls,
    SentIds as SentIds,
    StrictSchema as StrictSchema,
    called_before as called_before,
    in_call_order as in_call_order,
    made_call as made_call,
    shown as shown,
    strict_schemas as strict_schemas,
    unreadable as unreadable,
    wire_name as wire_name,
)
