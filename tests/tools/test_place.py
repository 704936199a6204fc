"""Where a tool runs, as its author says it."""

from __future__ import annotations

import pytest

from pegboard.errors import DefinitionError
from pegboard.tools.policy import Policy
from pegboard.tools.tool import Tool


def work() -> str:
    """Works."""
    return "done"


def test_executor_and_memory_limit_are_the_tools_policy_and_no_part_of_its_spec():
    made = Tool.from_function(work, executor="process", memory_limit=1 << 28)
    assert (made.policy.executor, made.policy.memory_limit) == ("process", 1 << 28)
    assert made.spec == Tool.from_function(work).spec


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"executor": 1}, "executor must be a text"),
        ({"executor": ""}, "executor must be a name"),
        ({"memory_limit": 1 << 28}, "memory_limit can't be kept in this process. Pass executor='process'"),
        ({"memory_limit": 1 << 28, "executor": "thread"}, "memory_limit can't be kept in this process"),
        ({"memory_limit": 1 << 20, "executor": "process"}, "memory_limit must be at least 64 MiB"),
        ({"memory_limit": 1e9, "executor": "process"}, "memory_limit must be a whole number of bytes"),
        ({"memory_limit": True, "executor": "process"}, "memory_limit must be a whole number of bytes"),
    ],
)
def test_what_cant_be_kept_is_refused_at_definition(options, problem):
    with pytest.raises(DefinitionError, match=problem):
        Tool.from_function(work, **options)


def test_a_policy_by_hand_is_held_to_the_least_memory_too():
    with pytest.raises(ValueError, match="memory_limit"):
        Policy(memory_limit=1000)
