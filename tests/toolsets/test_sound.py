from __future__ import annotations

import gc

import pytest

from pegboard.errors import SchemaError
from pegboard.schema.json import JsonText
from pegboard.toolsets import toolset as module
from pegboard.toolsets.toolset import MAX_REMEMBERED_CHARACTERS, check_sound
from toolsets.samples import BOMB, make_tool


@pytest.fixture
def looked_at(monkeypatch):
    """The texts that are looked at."""
    texts = []
    look = module._looked_at

    def looked(text, what):
        texts.append((what, text))
        return look(text, what)

    monkeypatch.setattr(module, "_looked_at", looked)
    monkeypatch.setattr(module, "_remembered", module.lru_cache(10)(looked))
    return texts


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"input_schema": BOMB}, "input_schema is refused: it comes to more than 100000 schemas"),
        ({"output_schema": BOMB}, "output_schema is refused: it comes to more than 100000 schemas"),
        ({"input_schema": {"type": "string"}}, "input_schema is refused: its root must be"),
        ({"input_schema": JsonText("nonsense")}, "input_schema is refused: it is no JSON"),
        ({"input_schema": {"type": "object", "patternProperties": 5}}, "input_schema is refused: patternProperties"),
        ({"input_schema": {"type": "object", "$ref": "http://x"}}, "input_schema is refused: its reference 'http://x'"),
    ],
)
def test_a_schema_that_cannot_judge_is_refused(facts, said):
    for _ in range(2):
        with pytest.raises(SchemaError) as caught:
            check_sound(make_tool("bad", **facts))
        assert str(caught.value).startswith(f"tool 'bad': {said}")


def test_a_text_is_looked_at_once(looked_at):
    schema = {"type": "object", "title": "once"}
    for name in "abc":
        check_sound(make_tool(name, input_schema=schema, output_schema=schema))
    assert [what for what, _ in looked_at] == ["input_schema", "output_schema"]


def test_a_long_text_is_not_remembered_but_its_tool_is(looked_at):
    schema = {"type": "object", "description": "x" * MAX_REMEMBERED_CHARACTERS}
    tool = make_tool("a", input_schema=schema)
    check_sound(tool)
    check_sound(tool)
    assert len(looked_at) == 1
    check_sound(make_tool("a", input_schema=schema))
    assert len(looked_at) == 2


def test_a_tool_is_not_kept_alive():
    before = len(module._sound)
    check_sound(make_tool())
    gc.collect()
    assert len(module._sound) <= before
