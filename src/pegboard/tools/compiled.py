"""The compiled form of a JSON Schema: jsonschema_rs, held to linear time and to no network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jsonschema_rs import Validator

PATTERN_BYTES: Final = 1 << 20
"""Memory that one compiled pattern may take; `^.{1,1000}$` takes some 600 KiB."""


def compiled(schema: str) -> Validator:
    """Compiles a schema.

    Patterns run in linear time (no lookaround, no backreferences). References outside the schema are refused,
    never fetched. `format` says something to people and isn't asserted, as JSON Schema 2020-12 has it by
    default. The draft is the one that `$schema` names, else 2020-12.

    Args:
        schema: As JSON text.

    Raises:
        ValueError: The schema is invalid, refers to what isn't there, or has a pattern that can't be compiled.
    """
    import jsonschema_rs

    return jsonschema_rs.validator_for(
        str(schema),  # it takes exactly this type
        validate_formats=False,
        pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES),
        offline=True,
    )
