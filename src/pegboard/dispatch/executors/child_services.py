"""In the child: the services that stay in the parent, imported where a tool asks for one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pegboard.dispatch.executors.child_host import ChildHost


class ChildServices(Mapping[type, Any]):
    """Type -> what stands for the parent's own: its memory and its artifacts.

    Args:
        host: Carries what they are asked to the parent.
    """

    def __init__(self, host: ChildHost) -> None:
        self._host = host

    def __getitem__(self, kind: type) -> Any:
        return self._services()[kind]

    def __iter__(self) -> Iterator[type]:
        return iter(self._services())

    def __len__(self) -> int:
        return 2

    def _services(self) -> dict[type, Any]:
        from pegboard.dispatch.executors.child_stores import ChildArtifacts, ChildMemory
        from pegboard.tools.stores import Artifacts, Memory

        return {Memory: ChildMemory(self._host), Artifacts: ChildArtifacts(self._host)}
