"""What every test of the checkout shares: how many examples Hypothesis tries, the same ones each time.

`pytest --hypothesis-profile=thorough` tries many more, other ones each time.
"""

from __future__ import annotations

try:
    from hypothesis import settings
except ImportError:
    pass  # a plugin's own tests may be run with nothing installed but what the plugin asks for
else:
    settings.register_profile("quick", deadline=None, derandomize=True, max_examples=25)
    settings.register_profile("thorough", deadline=None, max_examples=1_000)
    settings.load_profile("quick")
