"""Models by their names."""

from __future__ import annotations

import pytest

from pegboard import ToolRegistry
from pegboard.errors import ModelError
from pegboard.testing import ScriptedModel


@pytest.fixture
def registry():
    made = ToolRegistry()
    made.add("models", "scripted", lambda model, **options: ScriptedModel([], name=model, **options))
    return made


def test_a_model_is_made_by_its_provider(registry):
    model = registry.model("scripted/small/v2", loads_deferred=True)
    assert (model.name, model.loads_deferred) == ("small/v2", True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("scriptet/small", r"nobody provides 'scriptet'\. Did you mean 'scripted'\? There are scripted;"),
        ("gpt-5", r"'gpt-5' must be PROVIDER/MODEL, and nobody provides 'gpt-5'\. There are scripted;"),
        ("scripted", r"scripted: 'scripted' names no model; write scripted/MODEL"),
        ("scripted/", r"names no model"),
    ],
)
def test_what_nobody_provides_is_told(registry, name, text):
    with pytest.raises(ModelError, match=text):
        registry.model(name)


def test_a_board_without_models_says_where_they_come_from():
    with pytest.raises(ModelError, match="Nobody has brought any; packages such as pegboard-openai"):
        ToolRegistry().model("openai/gpt-5")


def test_a_client_that_can_not_be_made_is_named(registry):
    with pytest.raises(ModelError, match=r"no client for 'scripted/x': TypeError: .*color"):
        registry.model("scripted/x", color="red")


def test_what_a_provider_says_itself_comes_through(registry):
    def refuse(model):
        raise ModelError("no key", provider="strict")

    registry.add("models", "strict", refuse)
    with pytest.raises(ModelError, match="strict: no key"):
        registry.model("strict/x")


def test_what_is_no_model_is_refused(registry):
    registry.add("models", "odd", lambda model: 5)
    with pytest.raises(ModelError, match="odd: what it makes is no model, but 5"):
        registry.model("odd/x")


def test_plugins_that_bring_models_are_imported_when_one_is_asked_for(registry):
    class Sleeper:
        hooks = frozenset({"register_models"})

        def wake(self):
            registry.add("models", "late", lambda model: ScriptedModel([], name=model))

    registry.expect("late", Sleeper())
    assert registry.model("late/x").name == "x"
