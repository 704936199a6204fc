from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc):
    """Each row of a module's `TABLES`, by step: a schema, what becomes of it (itself), what is lost (nothing)."""
    if metafunc.definition.name == "test_each_step_rewrites_as_in_its_table":
        rows = [(step, *row) for step, table in metafunc.module.TABLES.items() for row in table.items()]
        cases = [pytest.param(step, *case, *(case[0], [])[len(case) - 1 :], id=name) for step, name, case in rows]
        metafunc.parametrize(("step", "schema", "expected", "changes"), cases)


@pytest.fixture
def apply():
    """Runs a step; gives the schema, and each change as `"path keyword"`, with `!` where it is a refusal."""

    def run(step, schema):
        rewritten = step(schema)
        return rewritten.schema, [f"{each.path} {each.keyword}{'!' * each.refused}" for each in rewritten.changes]

    return run
