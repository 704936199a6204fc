from __future__ import annotations

import pytest


@pytest.fixture
def apply():
    """Runs a step; gives the schema, and each change as `"path keyword"`, with `!` where it is a refusal."""

    def run(step, schema):
        rewritten = step(schema)
        return rewritten.schema, [f"{each.path} {each.keyword}{'!' * each.refused}" for each in rewritten.changes]

    return run
