"""The plugin and its command: settings, services, and what shows of a password."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import pegboard
from pegboard import ReadonlyContext, ToolContext, tool
from pegboard.backends import LockBackend, OperationStore
from pegboard.cli.main import main
from pegboard.config import Config
from pegboard.testing import check_plugin
from pegboard_guard import Counters, JournalSink
from pegboard_postgres import PostgresGrants, PostgresJournal
from pegboard_postgres.plugin import Plugin
from postgres_server import PASSWORD

ALONE = Config(enable=("postgres",))


@tool
async def remember(context: ToolContext, text: str) -> str:
    """Remember a text."""
    await context.memory.add(text)
    return f"token {context.fencing_token}"


def load(database, **options):
    settings = {"postgres": {"url": database.address.url, "schema": database.schema, "seconds": 30.0}}
    return pegboard.load(config=ALONE, settings=settings, **options)


@pytest.mark.slow
async def test_two_registries_share_what_the_plugin_provides(database):
    ann = ReadonlyContext(user="ann", session="s")
    tokens = []
    for _ in range(2):
        async with load(database) as registry:
            registry.register(remember)
            tokens.append((await registry.call("remember", {"text": "plums"}, ann)).text)
            context = ToolContext(ann, services=registry.services)
            found = len(await context.memory.search("plum"))
            for kind in (LockBackend, OperationStore, Counters, JournalSink, PostgresGrants):
                assert kind in registry.services
    assert found == 2
    assert int(tokens[0].split()[1]) < int(tokens[1].split()[1])


async def test_without_an_address_it_provides_nothing(database):
    async with pegboard.load(config=ALONE) as registry:
        assert LockBackend not in registry.services
        assert [each for each in registry.problems() if each.plugin == "postgres"] == []


@pytest.mark.slow
async def test_no_call_runs_where_there_are_settings_and_no_address():
    async with pegboard.load(config=ALONE, settings={"postgres": {"schema": "tools"}}) as registry:
        registry.register(remember)
        result = await registry.call("remember", {"text": "plums"})
    assert result.is_error
    assert "No call runs while" in result.text


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"url": "postgresql://db", "schem": "a"}, "schem"),
        ({"url": "postgresql://db", "seconds": 0}, "seconds"),
        ({"url": "postgresql://db", "connections": 1.5}, "connections"),
        ({"url": 7}, "url"),
        ({"schema": "tools"}, "plugins.postgres.url is missing"),
    ],
)
def test_a_wrong_setting_is_named(settings, wrong):
    with pytest.raises(ValueError, match=wrong):
        Plugin(settings)


async def test_an_address_that_is_none_is_an_error_of_each_use_and_hidden():
    settings = {"postgres": {"url": "postgresql://ann:hunter2/x@db"}}
    async with pegboard.load(config=ALONE, settings=settings) as registry:
        registry.register(remember)
        result = await registry.call("remember", {"text": "plums"})
    assert result.is_error
    assert "hunter2" not in repr(result)


@pytest.mark.slow
def test_the_plugin_passes_the_checks_of_plugins():
    check_plugin("postgres")
    check_plugin("postgres", settings={"url": "postgresql://db/tools"})


@pytest.mark.slow
def test_loading_it_imports_no_driver():
    program = """
import pegboard, sys
from pegboard.config import Config
registry = pegboard.load(config=Config(enable=("postgres",)), live=True, settings={"postgres": {"url": "postgresql://db/tools"}})
registry.plugins()
print([name for name in sys.modules if name.startswith("psycopg")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# The command


@pytest.fixture
def run(empty, tmp_path, monkeypatch, capfd):
    """Runs `registry`; its output is checked for the password."""
    file = tmp_path / "pegboard.toml"
    monkeypatch.setenv("TOOLS_URL", empty.address.url)

    def run(*arguments, url='{ env = "TOOLS_URL" }'):
        file.write_text(
            f'enable = ["postgres"]\n[plugins.postgres]\nurl = {url}\nschema = "{empty.schema}"\nseconds = 30\n'
        )
        code = main(["--config", str(file), *arguments])
        out, err = capfd.readouterr()
        assert PASSWORD not in out + err
        return code, out + err

    return run


@pytest.mark.slow
def test_migrate_makes_the_tables_and_check_says_what_there_is(run, empty):
    code, text = run("postgres", "check")
    assert code == 1
    assert "The shared database can't be used: it has no tables yet. Run: registry postgres migrate\n" in text
    assert run("postgres", "migrate")[1].endswith(f"(schema {empty.schema}): the tables were made; version 2\n")
    assert run("postgres", "migrate")[1].endswith("the tables are up to date; version 2\n")
    code, text = run("postgres", "check")
    assert (code, text.split(": ")[-1]) == (0, "up to date; version 2\n")


@pytest.mark.slow
def test_a_server_that_is_gone_is_said_with_what_to_do(run, tmp_path):
    nowhere = f"postgresql://ann:{PASSWORD}@/tools?host={tmp_path}"
    code, text = run("postgres", "check", url=f'"{nowhere}"')
    assert code == 1, text
    assert f"Start the server, or correct the address: {tmp_path}/tools." in text
    code, text = run("postgres", "journal", url=f'"{nowhere}"')
    assert (code, "The shared database can't be reached." in text) == (2, True), text
    code, text = run("postgres", "migrate", url=f'"{nowhere}"')
    assert code == 2, text
    assert "can't be reached" in text
    code, text = run("doctor", url=f'"{nowhere}"')
    assert "can't be reached" in text


@pytest.mark.slow
@pytest.mark.parametrize("url", ['""', f'"postgresql://ann:{PASSWORD}/x@db"', '{ env = "NO_SUCH_NAME" }', "7"])
def test_an_address_that_is_missing_or_wrong_is_named(run, url):
    code, text = run("postgres", "migrate", url=url)
    assert code == 2
    assert "url" in text


def test_the_journal_is_printed_as_guard_verifies_it(run, database, tmp_path):
    PostgresJournal(database).append([{"kind": "call", "tool": "plums"}])
    code, text = run("postgres", "journal")
    assert (code, [json.loads(line)["kind"] for line in text.splitlines()]) == (0, ["journal", "call"])
    (tmp_path / "journal").write_text(text)
    assert main(["guard", "verify", str(tmp_path / "journal")]) == 0
