"""What every vendor's model keeps to."""

from __future__ import annotations

from fake_vendors.contract.clients import *  # noqa: F403  each of them a test
from fake_vendors.contract.failures import *  # noqa: F403
from fake_vendors.contract.turns import *  # noqa: F403
