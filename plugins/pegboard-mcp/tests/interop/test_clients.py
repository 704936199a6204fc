"""Client libraries of others, each in its own environment, in sessions with `registry serve`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

CLIENT = Path(__file__).with_name("client.py")
THREE = ("3", '{"result": 3}', '{"result":3}', 3)
"""What libraries make of a number: the text, or the structured content beside it."""


@pytest.mark.parametrize(
    ("library", "environment"),
    [
        ("openai_agents", "second"),
        ("pydantic_ai", "second"),
        ("langchain", "first"),
        ("fastmcp", "fastmcp"),
        ("first_sdk", "first"),
    ],
)
def test_a_library_lists_calls_and_gets_an_error_result(python_of, target, library, environment):
    done = subprocess.run(
        [python_of(environment), CLIENT, library, *target], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {"add", "test_error_handling"} <= set(told["tools"])
    assert told["added"] in THREE
    assert told["failed"] == "error: This tool intentionally returns an error for testing"
    # What only some of the libraries let one do.
    assert told.get("confirmed", "removed x") == "removed x"
    assert told.get("progress", [0, 50, 100]) == [0, 50, 100]
