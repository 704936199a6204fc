"""Executors: running tools elsewhere, in another process or on another machine."""

from __future__ import annotations

from pegboard.dispatch.executors.execution import (
    ExecutionRequest as ExecutionRequest,
    ExecutionResponse as ExecutionResponse,
    PermissionRequired as PermissionRequired,
)
from pegboard.dispatch.executors.executor import (
    Executor as Executor,
    ExecutorCall as ExecutorCall,
    ToolExecutor as ToolExecutor,
)
from pegboard.dispatch.local import LocalExecutor as LocalExecutor, ToolInfo as ToolInfo
