from __future__ import annotations

from pegboard_clients.plugin import lazy_hook


def test_a_lazy_hook_registers_functions_that_import_at_their_first_call():
    made = {}
    lazy_hook({"a": "collections:Counter", "b": "no_such_module:thing"})(made.__setitem__)
    assert list(made) == ["a", "b"]
    assert made["a"]("xx") == {"x": 2}
