"""The corpus that exports are held against: tool specs of every form, each with arguments that its schema takes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from fake_vendors.rules import raw_tools, special_tools, type_forms, written_tools
from pegboard import Tool, ToolSpec
from pegboard.testing import NoSampleError, Samples

TOOLS: Final[tuple[Tool, ...]] = (
    *type_forms.TOOLS,
    *written_tools.TOOLS,
    *raw_tools.TOOLS,
    *special_tools.TOOLS,
)
SPECS: Final[tuple[ToolSpec, ...]] = tuple(tool.spec for tool in TOOLS)
BY_NAME: Final[Mapping[str, ToolSpec]] = {spec.name: spec for spec in SPECS}

UNJUDGED: Final = frozenset(
    {"raw_look_around", "raw_not_well_formed", "raw_reference_to_elsewhere", "raw_reference_to_nothing"}
)
"""Those whose schemas can't judge: no arguments are known to be valid."""

_UNSAMPLED: Final = frozenset({"raw_draft_7_tuple"})
"""What the sampler can't read: `items` as a list, of older drafts."""

_MOST: Final = 4
_OWN: Final[Mapping[str, tuple[dict[str, Any], ...]]] = {
    "takes_text": (
        {"value": ""},
        {"value": 'a "quoted"\n\tline \\ of {json: [1, 2]}\u2028'},
        {"value": "Grüße aus 東京 👩‍👩‍👧"},
        {"value": "</tool_call> null NaN"},
        {"value": "x" * 5_000},
    ),
    "takes_integer": ({"value": 2**53 - 1}, {"value": -(2**53) + 1}),
    "takes_number": ({"value": 1e-7}, {"value": 1.5e300}, {"value": -0.1}),
    "takes_anything": ({"value": {"a": [1, None, {"b": [[]]}]}}, {"value": []}, {"value": "text"}),
    "takes_json": ({"value": {"a": [True, None, 1.5, {"b": ""}]}},),
    "takes_linked_list": ({"value": {"value": 1, "next": {"value": 2, "next": {"value": 3, "next": None}}}},),
    "takes_dict_of_integers": ({"value": {"größe": 1, "a b": 2, "": 3}},),
    "takes_tree": ({"value": {"value": 1, "children": [{"value": 2}, {"value": 3, "children": [{"value": 4}]}]}},),
    "raw_nothing_said": ({}, {"a": 1}),
    "raw_draft_7_tuple": ({"value": ["a", 1]}, {"value": []}),
    "raw_contains": ({"value": [7]}, {"value": [1, 7, 7]}),
    "raw_thirteen_levels": (functools.reduce(lambda inner, _: {"inner": inner}, range(12), {"leaf": "x"}),),
    "free_by_lark": ({"input": "one, two"},),
    "free_by_regex": ({"input": "abc = 12"},),
    "free": ({"input": ""}, {"input": '*** Begin\n+ "x"\n\\ {"a": 1}\n'}),
}
"""Arguments that no sampler thinks of."""


@functools.cache
def arguments_of(name: str) -> tuple[dict[str, Any], ...]:
    """Arguments that the schema of a tool of the corpus takes, an ordinary set first; none for `UNJUDGED`."""
    spec, own = BY_NAME[name], _OWN.get(name, ())
    if name in UNJUDGED or name in _UNSAMPLED:
        return own
    schema = spec.input_schema
    try:
        samples = Samples(schema, Tool(spec).validator.accepts).of()
        objects = (sample for sample in samples if isinstance(sample, dict))
        return (*islice(objects, _MOST), *own)
    except NoSampleError:
        return own
