"""A whole small program: import, define the realistic tool, call it once, print the answer.

python first_call.py ADAPTER.py
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  importing pathlib would count for every peer
sys.path.remove(FOLDER)  # a file here must never hide a peer's module
sys.path.append(FOLDER)

from workload import ANSWER, ARGUMENTS_TEXT, Workload  # noqa: E402


async def first_call(adapter):
    flavour = adapter["FLAVOUR"]
    work = Workload(flavour, bounded=adapter.get("BOUNDED", True), typed_answer=adapter.get("TYPED_ANSWER", True))
    host = adapter["Host"]()
    function = work.function(7)
    host.add([function])
    call = await host.caller(function)
    answer = await call(ARGUMENTS_TEXT)
    await host.close()
    return answer


adapter = {"__name__": "adapter"}
with open(sys.argv[1]) as file:  # noqa: PTH123  the same
    exec(compile(file.read(), sys.argv[1], "exec", dont_inherit=True), adapter)
found = json.loads(asyncio.run(first_call(adapter)))
assert found == ANSWER, found
