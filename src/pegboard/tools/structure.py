"""JSON into Python and back, by type.

The law: what the derived schema takes is structured, what it refuses is refused here too; but for what no schema
can judge (dates, decimals, checks in Python), which is a `StructureError` with its path.
"""

from __future__ import annotations

from typing import Any

from pegboard.schema.problems import StructureError
from pegboard.tools.forms.foreign import converter
from pegboard.tools.forms.form import Hook, is_identity
from pegboard.tools.forms.json_data import to_json_data
from pegboard.tools.forms.reader import form_of


def structurer(annotation: object) -> Hook | None:
    """What turns JSON that the derived schema has taken into the Python value; made once a type.

    Args:
        annotation: As `typing.get_type_hints(..., include_extras=True)` gives it.

    Returns:
        JSON value -> Python value; raises `StructureError`, and nothing else, for what isn't of the type, and
        converts nothing that JSON Schema tells apart. `None` where the JSON value is the Python value already
        (text, `list[str]`, `Literal`s, `Any`), so that there is nothing to do once the schema has judged.

    Raises:
        DefinitionError: JSON can't say the type.
    """
    return None if is_identity(form_of(annotation)) else strict_structurer(annotation)


def strict_structurer(annotation: object) -> Hook:
    """As `structurer`, but never `None`: for values that no derived schema has judged.

    Raises:
        DefinitionError: JSON can't say the type.
    """
    hook = form_of(annotation).structure()

    def structure(value: Any) -> Any:
        try:
            return hook(value)
        except StructureError:
            raise
        except RecursionError as error:
            raise StructureError("nested too deep") from error
        except Exception as error:
            raise StructureError(f"can't be structured ({type(error).__name__})") from error

    return structure


def unstructurer(annotation: object) -> Hook | None:
    """What turns a value of a type into JSON data; made once a type.

    A value of a derived class is written with the fields of the declared one. A value of another type is written by
    its own class, as `to_json_data` does, so that a schema can judge it.

    Returns:
        Python value -> JSON data; raises `TypeError` or `ValueError` with the path of what has no JSON form. `None`
        where the value is JSON data already.

    Raises:
        DefinitionError: JSON can't say the type.
    """
    hook = form_of(annotation).unstructure()
    if hook is None or hook is to_json_data:
        return hook

    def unstructure(value: Any) -> Any:
        try:
            return hook(value)
        except Exception:  # noqa: BLE001  (whatever a value of another type makes of a hook)
            return to_json_data(value)

    return unstructure


__all__ = ["StructureError", "converter", "strict_structurer", "structurer", "to_json_data", "unstructurer"]
