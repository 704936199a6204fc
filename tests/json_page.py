"""The page of JSON Schemas, as tests hold what is written against it: every object is closed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
SCHEMA = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])


def closed(schema: Any) -> Any:
    """The schema, but an object has no other keys than those that it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    written = {key: closed(each) for key, each in schema.items()}
    return (
        {"additionalProperties": False, **written}
        if isinstance(schema.get("properties"), dict) and "type" in schema
        else written
    )


CLOSED = closed(SCHEMA)


def faults(name: str, data: Any) -> list[str]:
    """What keeps data from being what the page says of this name."""
    assert name in SCHEMA["$defs"], name
    reference = {"$ref": "#/$defs/" + name.replace("~", "~0").replace("/", "~1").replace(" ", "%20")}
    written = json.loads(json.dumps(data, allow_nan=False))
    found = Draft202012Validator({**CLOSED, **reference}).iter_errors(written)
    return [f"{each.json_path}: {each.message[:300]}" for each in found]
