"""Keys as headers can hold them."""

from __future__ import annotations

import pytest

from pegboard.errors import ModelError
from pegboard.request.client import usable_key


@pytest.mark.parametrize("key", ["sk-secret", " sk-secret\r\n", "\tsk-secret\u00a0"])
def test_space_around_a_key_is_left_out(key):
    assert usable_key(key, "KEY", "p") == "sk-secret"


@pytest.mark.parametrize("key", ["", " \n"])
def test_nothing_but_space_is_no_key(key):
    assert usable_key(key, "KEY", "p") == ""


@pytest.mark.parametrize("key", ["sk-sec\nret", "sk-secret\0", "sk-secr\u00e9t", "sk-\udcffsecret", "\ufeffsk-secret"])
def test_a_key_that_no_header_can_hold_is_named_and_not_shown(key):
    with pytest.raises(ModelError, match=r"^p: the variable KEY holds characters") as caught:
        usable_key(key, "the variable KEY", "p")
    assert "sk-" not in str(caught.value)
    assert (caught.value.code, caught.value.retryable) == ("invalid_api_key", False)
