from __future__ import annotations

import pytest

from pegboard.request.model_request import _DEFAULT_CONFIG, ModelConfig


def test_everything_is_left_to_the_provider_by_default():
    assert ModelConfig() == _DEFAULT_CONFIG
    assert (_DEFAULT_CONFIG.temperature, _DEFAULT_CONFIG.stop, _DEFAULT_CONFIG.strict) == (None, (), None)


@pytest.mark.parametrize(("given", "stop"), [("END", ("END",)), (["a", "b"], ("a", "b")), ((), ())])
def test_one_text_to_stop_at_is_one_text(given, stop):
    assert ModelConfig(stop=given).stop == stop


def test_options_of_providers_arent_shown():
    assert "secret" not in repr(ModelConfig(provider_options={"openai": {"key": "secret"}}))
