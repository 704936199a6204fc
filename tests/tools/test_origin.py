from __future__ import annotations

import pytest

from pegboard.tools.policy import HOST, Origin, Policy


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (HOST, "the host"),
        (Origin("files"), "plugin 'files'"),
        (Origin("files", "pegboard-files", "1.2"), "plugin 'files' (pegboard-files 1.2)"),
        (Origin("files", "pegboard-files"), "plugin 'files' (pegboard-files ?)"),
        (Origin("files", toolset="disk"), "plugin 'files', toolset 'disk'"),
    ],
)
def test_an_origin_says_who_brought_a_tool(origin, text):
    assert str(origin) == text


@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_under_which_no_call_could_run_is_refused(most):
    with pytest.raises(ValueError, match="max_concurrency"):
        Policy(max_concurrency=most)
