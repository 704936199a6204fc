"""The source of a plugin with tools and commands, for tests of the command."""

from __future__ import annotations

DEMO = """
import sys

import click

from pegboard import hookimpl, tool


@tool(read_only=True)
def count_words(text: str) -> int:
    "Count the words of a text."
    return len(text.split())


@tool(destructive=True)
def wipe(path: str) -> str:
    "Remove a file."
    return "wiped " + path


@hookimpl
def pegboard_register_tools(register, settings):
    register(count_words)
    if not settings.get("careful"):
        register(wipe)


@hookimpl
def pegboard_register_commands(group):
    @group.command("greet")
    @click.argument("name")
    def greet(name):
        "Greet somebody."
        click.echo(f"Hello {name}")
        return 5

    @group.command("list")
    def other_list():
        "Not ours."
        click.echo("never")
"""
