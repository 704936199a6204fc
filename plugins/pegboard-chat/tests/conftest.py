"""The command with the plugin's own commands, on a registry that the test makes."""

from __future__ import annotations

import click
import pytest

from cli import conftest as of_commands
from pegboard import tool
from pegboard.testing import ScriptedModel
from pegboard_chat.plugin import Chat

home, others, run, stdin = of_commands.home, of_commands.others, of_commands.run, of_commands.stdin
empty_registry = of_commands.registry


@pytest.fixture(autouse=True)
def commands(monkeypatch):
    """The commands that the plugin adds."""
    group = click.Group()
    Chat().pegboard_register_commands(group)
    monkeypatch.setattr("pegboard.cli.main.plugin_command", lambda _context, name: group.commands.get(name))


@tool
async def weather(city: str) -> str:
    """Tell the weather."""
    return f"{city}: rain"


@tool(destructive=True)
async def wipe(path: str) -> str:
    """Remove a file."""
    return f"wiped {path}"


@pytest.fixture
def script():
    """The answers of models that are made from now on."""
    return []


@pytest.fixture
def models():
    """The models that were made."""
    return []


@pytest.fixture
def registry(empty_registry, script, models):
    """A registry with two tools and scripted models."""
    empty_registry.register(weather, wipe)

    def make(model):
        models.append(ScriptedModel([*script], name=model))
        return models[-1]

    empty_registry.add("models", "scripted", make)
    return empty_registry
