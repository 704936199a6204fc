"""What every vendor's model keeps to, as tests: a vendor's package says what differs in one `Vendor`, and has them all.

In the package's `tests/conftest.py`:

    from fake_vendors.contract.fixtures import *
    from fake_vendors.contract.vendor import Vendor

    @pytest.fixture(params=[Vendor(name="mine", kind=MyModel, ...)], ids=str)
    def vendor(request):
        return request.param

and in a test file `from fake_vendors.contract.turns import *`, and so on for `failures` and `clients`.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("vendor", "turns", "failures", "clients")))
