from __future__ import annotations

import asyncio

from pegboard import ToolCall
from pegboard.testing import ScriptedModel
from ported_agents.guarded_files import Hooks, work

WRITE = ToolCall("write_file", {"path": "a.py", "text": "print(1)"}, "w")
TEST = ToolCall("run_tests", {}, "t")


def run(*script, files=()):
    hooks, files = Hooks("2030-01-01"), dict(files)
    with ScriptedModel([*script]) as model:
        outcome = asyncio.run(work(model, "Go on.", files, hooks))
    results = [result.result for message in outcome.messages for result in message.results]
    return outcome, results, hooks, files, model


def test_the_model_knows_the_date():
    *_, model = run("Hi.")
    assert "Today is 2030-01-01." in model.requests[0].system


def test_a_path_outside_of_the_project_is_denied_with_the_reason():
    _, (result,), hooks, files, _ = run(ToolCall("write_file", {"path": "../a", "text": ""}), "Sorry.")
    assert (result.kind, "outside of the project" in result.text, files) == ("denied", True, {})
    assert hooks.calls == ["write_file: denied"]


def test_an_absolute_path_is_corrected():
    *_, files, _ = run(ToolCall("write_file", {"path": "/a.py", "text": "x"}), TEST, "Done.")
    assert files == {"a.py": "x"}


def test_keys_are_hidden_from_the_model():
    _, (result,), *_ = run(ToolCall("read_file", {"path": ".env"}), "Hm.", files={".env": "KEY=sk-abc123"})
    assert result.text == "KEY=(hidden)"


def test_an_error_says_what_to_do():
    _, (result,), *_ = run(ToolCall("read_file", {"path": "b.py"}), "Hm.")
    assert (result.is_error, "Use list_files" in result.text) == (True, True)


def test_the_turn_goes_on_until_the_tests_have_run():
    outcome, _, hooks, *_ = run(WRITE, "Done.", TEST, "Done, and tested.")
    assert (outcome.text, hooks.calls) == ("Done, and tested.", ["write_file: ok", "run_tests: ok"])
    assert [message.text for message in outcome.messages if message.role == "user"][
        1
    ] == "Run the tests before you finish."


def test_tokens_are_counted_however_a_turn_ends():
    outcome, _, hooks, *_ = run("Hi.")
    assert hooks.tokens == outcome.usage.total_tokens
