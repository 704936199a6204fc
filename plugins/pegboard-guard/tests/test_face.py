from __future__ import annotations

import subprocess
import sys

import pytest

import pegboard_guard


def test_every_name_is_there_and_nothing_else():
    assert set(pegboard_guard.__all__) <= set(dir(pegboard_guard))
    for name in pegboard_guard.__all__:
        assert getattr(pegboard_guard, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Jurnal'"):
        _ = pegboard_guard.Jurnal


def test_what_the_settings_leave_off_is_not_imported():
    script = (
        "import sys; from pegboard_guard import Guard; Guard(); "
        "print([name for name in ('asyncio', 'hashlib', 'click', 'pegboard_guard.journal') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
