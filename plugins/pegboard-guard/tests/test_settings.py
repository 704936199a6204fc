from __future__ import annotations

import pytest

from pegboard_guard.settings import GuardSettings


def test_the_defaults():
    assert GuardSettings.from_mapping({}) == GuardSettings(doom_loop=3, log_arguments=False)


@pytest.mark.parametrize("settings", [{"doom_loop": 0}, {"doom_loop": 2}, {"log_arguments": True}])
def test_what_may_be_set(settings):
    (name, value), *_ = settings.items()
    assert getattr(GuardSettings.from_mapping(settings), name) == value


@pytest.mark.parametrize("value", [1, -1, 2.5, "3", True, None])
def test_a_doom_loop_is_0_or_a_whole_number_from_2_on(value):
    with pytest.raises(ValueError, match=f"0 \\(off\\) or a whole number from 2 on, got {value!r}"):
        GuardSettings.from_mapping({"doom_loop": value})


def test_log_arguments_is_a_boolean():
    with pytest.raises(TypeError, match="true or false, got 'yes'"):
        GuardSettings.from_mapping({"log_arguments": "yes"})


def test_an_unknown_setting_is_refused_with_a_near_miss():
    with pytest.raises(ValueError, match=r"no setting 'doom_lop'\. Did you mean 'doom_loop'\?"):
        GuardSettings.from_mapping({"doom_lop": 4})
