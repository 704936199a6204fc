"""`Reshape`: how the arguments of one tool are shown to the model, and how they are turned back for the tool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from attrs import field, frozen

from pegboard.errors import DefinitionError, did_you_mean, suggest
from pegboard.schema.json import JsonText, json_text
from pegboard.schema.problems import StructureError
from pegboard.typing import JsonObject, JsonSchema

_ROOT: Final = frozenset(
    {"$schema", "$defs", "definitions", "$comment", "title", "description", "type"}
    | {"properties", "required", "additionalProperties"}
)
"""What may stand at the root of a schema that is reshaped; other keywords could speak of arguments by name."""

_LEFT_OUT: Final = frozenset({"default", "examples"})
_DEFINITIONS: Final = ("#/$defs/", "#/definitions/")
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


def _as_texts(values: Mapping[str, Any]) -> dict[str, JsonText]:
    return {name: json_text(value) for name, value in values.items()}


@frozen
class Reshape:
    """How the arguments of one tool are shown to the model. Every mapping goes by the tool's own names.

    Values and schemas are given as JSON data and kept as its text.

    What the model sends still has to fit the tool's own schema once it is turned back, whatever `retype` allows.

    Attributes:
        rename: Argument -> the name that the model sees.
        hide: Argument -> the value that it always has; the model sees neither.
        default: Argument -> the value that it has where the model leaves it out.
        retype: Argument -> the JSON Schema that stands in place of its own.
        describe: Argument -> its description.

    Raises:
        DefinitionError: It contradicts itself, or a schema is invalid.
        TypeError: A value that JSON can't say.
    """

    rename: Mapping[str, str] = field(factory=dict[str, str], converter=dict[str, str])
    hide: Mapping[str, Any] = field(factory=dict[str, Any], converter=_as_texts)
    default: Mapping[str, Any] = field(factory=dict[str, Any], converter=_as_texts)
    retype: Mapping[str, Any] = field(factory=dict[str, Any], converter=_as_texts)
    describe: Mapping[str, str] = field(factory=dict[str, str], converter=dict[str, str])

    def __attrs_post_init__(self) -> None:
        for name in self.hide:
            if name in {*self.rename, *self.default, *self.retype, *self.describe}:
                raise DefinitionError("it is hidden: the model sees nothing else of it", parameter=name)
        if len(set(self.rename.values())) < len(self.rename):
            raise DefinitionError(f"two arguments get the same name in {dict(self.rename)}")
        for name, schema in self.retype.items():
            from pegboard.schema.validator import check_schema

            check_schema(schema, tool="", what=f"the schema for {name!r}")

    def shown(self, schema: JsonSchema) -> JsonSchema:
        """The schema that the model sees.

        Raises:
            DefinitionError: It has no such argument, two would get one name, a value that is hidden or a default
                doesn't fit its argument, or the schema can't be reshaped safely.
        """
        properties: dict[str, Any] = schema.get("properties", {})
        self._check(schema, properties)
        self._check_values(schema, properties)
        shown: JsonSchema = {key: value for key, value in schema.items() if key not in _LEFT_OUT}
        shown["properties"] = self._properties(properties)
        free = {*self.hide, *self.default}
        required = [self.rename.get(name, name) for name in schema.get("required", ()) if name not in free]
        shown.pop("required", None)
        if required:
            shown["required"] = required
        return shown

    def given(self, arguments: Mapping[str, Any]) -> JsonObject:
        """The arguments as the tool takes them.

        Raises:
            StructureError: A name that stands for something hidden or renamed, which the model can't know.
        """
        own = {new: old for old, new in self.rename.items()}
        given: JsonObject = {}
        for name, value in arguments.items():
            if name not in own and (name in self.rename or name in self.hide):
                raise StructureError("there is no such argument", (name,))
            given[own.get(name, name)] = value
        for name, text in self.default.items():
            if name not in given:
                given[name] = json.loads(text)
        for name, text in self.hide.items():
            given[name] = json.loads(text)
        return given

    def shown_arguments(self, given: JsonObject) -> JsonObject:
        """Arguments that the tool takes, as the model would write them."""
        return {self.rename.get(name, name): value for name, value in given.items() if name not in self.hide}

    def _properties(self, properties: Mapping[str, Any]) -> JsonObject:
        shown: JsonObject = {}
        for name, schema in properties.items():
            if name in self.hide:
                continue
            new = self.rename.get(name, name)
            if new in shown:
                raise DefinitionError(f"two arguments would be called {new!r}", parameter=name)
            shown[new] = self._property(name, schema)
        return shown

    def _property(self, name: str, own: Any) -> Any:
        schema: JsonSchema | bool = json.loads(self.retype[name]) if name in self.retype else own
        extra: JsonObject = {}
        if name in self.describe:
            extra["description"] = self.describe[name]
        if name in self.default:
            extra["default"] = json.loads(self.default[name])
        return {**(schema if isinstance(schema, dict) else {}), **extra} if extra else schema

    def _check(self, schema: JsonSchema, properties: Mapping[str, Any]) -> None:
        for name in {**self.rename, **self.hide, **self.default, **self.retype, **self.describe}:
            if name not in properties:
                near = did_you_mean(suggest(name, properties)) or f" There are {', '.join(properties) or 'none'}."
                raise DefinitionError(f"there is no such argument.{near}", parameter=name)
        for keyword in schema:
            if keyword not in _ROOT | _LEFT_OUT and not keyword.startswith("x-"):
                raise DefinitionError(
                    f"a schema with {keyword!r} at its root can't be reshaped: it may speak of arguments by name"
                )
        for reference in _references(schema):
            if not str(reference).startswith(_DEFINITIONS):
                raise DefinitionError(f"a schema with the reference {reference!r} can't be reshaped")

    def _check_values(self, schema: JsonSchema, properties: Mapping[str, Any]) -> None:
        for name, text in self.hide.items():
            if faults := _faults(schema, properties[name], text):
                secret = faults[0].partition(", got ")[0]
                raise DefinitionError(f"the value that it is hidden with doesn't fit: {secret}", parameter=name)
        for name, text in self.default.items():
            if faults := _faults(schema, properties[name], text):
                raise DefinitionError(f"its default doesn't fit: {'; '.join(faults)}", parameter=name)


def _faults(root: JsonSchema, own: Any, value: str) -> tuple[str, ...]:
    """What is wrong with a value by the schema of one argument, whose references lead to the root's definitions."""
    from pegboard.schema.validator import validator_of

    kept = {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}
    return validator_of(json_text({**kept, "allOf": [own]})).problems(json.loads(value))


def _references(value: Any) -> Iterator[Any]:
    """Everything under a keyword that refers to a place in the schema."""
    waiting = [value]
    while waiting:
        item: Any = waiting.pop()
        if isinstance(item, dict):
            members = cast("JsonObject", item)
            yield from (member for key, member in members.items() if key in _REFERENCES)
            waiting.extend(members.values())
        elif isinstance(item, list):
            waiting.extend(cast("list[Any]", item))
