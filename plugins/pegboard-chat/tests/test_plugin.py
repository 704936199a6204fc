"""The plugin as it is installed."""

from __future__ import annotations

from pegboard.testing import check_plugin


def test_keeps_the_contract():
    """It loads whole, its manifest is true, importing it is cheap."""
    check_plugin("chat")
