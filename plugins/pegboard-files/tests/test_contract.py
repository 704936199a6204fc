"""The contract that the board relies on."""

from __future__ import annotations

from pegboard.testing import check_plugin


def test_the_plugin_keeps_the_contract() -> None:
    """It loads whole, its manifest is true, its schemas judge as they say, importing it is cheap."""
    check_plugin("files")
