"""Whether JSON fits a vendor's typed definitions, by pydantic, and more strictly than the SDKs' own: `faults`."""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any, Final

import pydantic
from pydantic_core import ErrorDetails, SchemaValidator

Faults = list[str]

_MOST: Final = 3


def faults(value: Any, annotation: Any, where: str = "") -> Faults:
    """What is wrong with JSON of a type, as `"path: reason"`; empty where it fits.

    Of a union, where no member takes the value, pydantic has the faults of each: those that lie deepest are told, which
    are those of the member that it is nearest to.

    Args:
        value: JSON, as Python holds it.
        annotation: A `TypedDict`, a pydantic model, or anything made of these and of the forms that `typing` has.
        where: The path so far.
    """
    try:
        text = json.dumps([value], allow_nan=False)
    except (TypeError, ValueError) as error:
        return [f"{where or '.'}: no JSON ({error})"]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            _validator(annotation).validate_json(text, strict=True)
        except pydantic.ValidationError as error:
            found = sorted(error.errors(include_url=False), key=lambda each: -len(each["loc"]))
            return [f"{where}{_path(each)}: {each['msg']}, found {each['input']!r:.60}" for each in found[:_MOST]]
    return [f"{where or '.'}: {each.message}" for each in warned]  # google-genai takes unknown members of enums so


def _path(error: ErrorDetails) -> str:
    """Where it is, from the value; on the way are the names of the members of unions, too."""
    steps = error["loc"][1:]
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step:.40}" for step in steps) or "."


@cache
def _validator(annotation: Any) -> SchemaValidator:
    """Of a list of one: an annotation that is a class may have a schema that isn't built yet."""
    return SchemaValidator(_strictly(pydantic.TypeAdapter(list[annotation]).core_schema))


def _strictly(schema: Any) -> Any:
    """A schema that looks into iterables now, and takes no unknown keys."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_strictly, schema))
    if not isinstance(schema, dict):
        return schema
    is_open = schema.get("config", {}).get("extra_fields_behavior") == "allow"
    if schema.get("type") == "model" and is_open:  # an answer's object, which some SDKs take back; no JSON is one
        return {"type": "is-instance", "cls": schema["cls"], "ref": schema.get("ref")}
    made = {key: _strictly(each) for key, each in schema.items() if key != "metadata"}
    if made.get("type") == "generator":
        return {**made, "type": "list"}
    extra = {"extra_behavior": "allow" if is_open else "forbid"} if made.get("type") == "typed-dict" else {}
    return {**made, **extra}
