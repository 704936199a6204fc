"""The tools that each server offers: one that is called, and as many more as `BENCH_TOOLS` says."""

from __future__ import annotations

import os


async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


for _number in range(int(os.environ.get("BENCH_TOOLS", "0"))):
    exec(  # as source: each function has a name and a description of its own
        f"async def tool_{_number}(city: str, days: int = {_number}, unit: str = 'C') -> str:\n"
        f"    '''Forecasts the weather, in way {_number}.'''\n"
        f"    return city\n",
        globals(),
    )
