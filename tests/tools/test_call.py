from __future__ import annotations

from pegboard.tools.call import ToolCall


def test_a_call_may_leave_out_its_arguments_and_id():
    assert ToolCall("ping") == ToolCall("ping", {}, "")
    assert ToolCall("ping").arguments is not ToolCall("ping").arguments
