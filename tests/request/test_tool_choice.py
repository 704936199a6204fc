from __future__ import annotations

import pytest

from pegboard.errors import InvalidNameError
from pegboard.request.model_request import NamedTool


def test_a_tool_that_must_be_called_has_a_tools_name():
    assert NamedTool("add").name == "add"
    for name in ("", "a b", "x" * 65, "é"):
        with pytest.raises(InvalidNameError):
            NamedTool(name)
