"""The form of a class that somebody else knows how to make: by hooks of cattrs, with a schema given beside."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import TYPE_CHECKING, Any

from attrs import frozen

from pegboard.schema.problems import StructureError
from pegboard.tools.forms.form import ALL_KINDS, OWN_DEPTH, Form, Hook, Kinds, Writer
from pegboard.tools.forms.json_data import to_json_data
from pegboard.tools.forms.refusal import refused_by
from pegboard.typing import JsonMapping, JsonSchema

if TYPE_CHECKING:
    from cattrs import Converter


@cache
def converter() -> Converter:
    """The one cattrs converter: register hooks in it for classes of your own, and say their schema in `Annotated`.

    `Annotated[Money, {"type": "string", "pattern": "^[0-9]+ EUR$"}]` then is a type like others.
    """
    from cattrs import Converter

    return Converter(forbid_extra_keys=True, detailed_validation=False, use_alias=True)


@frozen(eq=False)
class ForeignForm(Form):
    """A class with hooks in the converter.

    Attributes:
        cls: The class.
        said: Its schema, as it was given.
    """

    cls: type[Any]
    said: JsonMapping

    def wanted(self) -> str:
        """The class by name."""
        return f"a {self.cls.__name__}"

    def kinds(self) -> Kinds:
        """Any: its schema isn't read."""
        return ALL_KINDS

    def is_hashable(self) -> bool:
        """As the class is."""
        return issubclass(self.cls, Hashable)

    def schema(self, writer: Writer) -> JsonSchema:  # noqa: ARG002  (every form's signature)
        """As it was given."""
        return dict(self.said)

    def structure(self) -> Hook:
        """By its hook, whatever it raises."""
        cls = self.cls
        hook = converter().get_structure_hook(cls)

        def structure_foreign(value: Any) -> Any:
            try:
                return hook(value, cls)
            except StructureError:
                raise
            except Exception as error:
                raise refused_by(cls, error) from error

        return structure_foreign

    def unstructure(self) -> Hook | None:
        """By its hook, which may give what isn't JSON yet."""
        hook = converter().get_unstructure_hook(self.cls)
        return lambda value: to_json_data(hook(value))

    def owns(self, value: Any, depth: int = OWN_DEPTH) -> bool:  # noqa: ARG002  (every form's signature)
        """Instances of the class."""
        return isinstance(value, self.cls)


def is_known(cls: type[Any]) -> bool:
    """Whether a hook was registered that makes `cls`."""
    from cattrs.errors import StructureHandlerNotFoundError

    try:
        converter().get_structure_hook(cls, cache_result=False)
    except StructureHandlerNotFoundError:
        return False
    return True
