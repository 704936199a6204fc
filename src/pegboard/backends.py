"""Backends: what several processes of one host share, provided as services."""

from __future__ import annotations

from pegboard.dispatch.locks import HeldLocks as HeldLocks, LockBackend as LockBackend, LockClaim as LockClaim
from pegboard.dispatch.operations import OperationStore as OperationStore
