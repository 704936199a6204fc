# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard import (
    approval as approval,
    errors as errors,
    events as events,
    execution as execution,
    messages as messages,
)
from pegboard.callbacks import nonblocking as nonblocking, when as when
from pegboard.catalogue import Catalogue as Catalogue, Handle as Handle, PluginRecord as PluginRecord
from pegboard.config import Config as Config, load_config as load_config
from pegboard.dispatch.approval.pending import PendingCalls as PendingCalls
from pegboard.dispatch.approval.queue import Approver as Approver
from pegboard.dispatch.approval.request import (
    Always as Always,
    ApprovalRequest as ApprovalRequest,
    Later as Later,
    Once as Once,
    Reject as Reject,
)
from pegboard.dispatch.background import Completion as Completion, Operation as Operation
from pegboard.dispatch.batch import Batch as Batch, BatchOptions as BatchOptions, Outcome as Outcome
from pegboard.dispatch.callbacks import (
    Abort as Abort,
    Ask as Ask,
    Chain as Chain,
    ChangeArguments as ChangeArguments,
    Deny as Deny,
)
from pegboard.dispatch.dispatcher import Health as Health
from pegboard.dispatch.find import RepairRequest as RepairRequest
from pegboard.dispatch.permissions.evaluation import PermissionRules as PermissionRules
from pegboard.dispatch.permissions.permissions import Permissions as Permissions
from pegboard.dispatch.permissions.rule import Rule as Rule
from pegboard.dispatch.permissions.rules_file import read_permissions as read_permissions
from pegboard.dispatch.truncate import ResultTexts as ResultTexts, read_result_tool as read_result_tool
from pegboard.errors import ModelError as ModelError, PegboardError as PegboardError, ToolError as ToolError
from pegboard.messages import Message as Message, ModelResponse as ModelResponse
from pegboard.plugins.hookspecs import hookimpl as hookimpl
from pegboard.plugins.load import load as load
from pegboard.plugins.manager import register_plugin as register_plugin, unload_plugin as unload_plugin
from pegboard.registry import ToolRegistry as ToolRegistry
from pegboard.request.model_request import (
    ExportedTools as ExportedTools,
    Exporter as Exporter,
    Loss as Loss,
    Model as Model,
    ModelConfig as ModelConfig,
    ModelRequest as ModelRequest,
    NamedTool as NamedTool,
)
from pegboard.request.pipeline import Pipeline as Pipeline, Position as Position
from pegboard.request.processors import BudgetTools as BudgetTools, LimitResults as LimitResults
from pegboard.schema.types import schema_of as schema_of
from pegboard.tools.call import (
    REMOVED as REMOVED,
    Actions as Actions,
    CallError as CallError,
    CallFault as CallFault,
    Confirmation as Confirmation,
    ToolCall as ToolCall,
)
from pegboard.tools.content import (
    AudioContent as AudioContent,
    FileContent as FileContent,
    ImageContent as ImageContent,
    LinkContent as LinkContent,
    TextContent as TextContent,
    ToolResult as ToolResult,
)
from pegboard.tools.context import Progress as Progress, ReadonlyContext as ReadonlyContext, ToolContext as ToolContext
from pegboard.tools.handler import Preview as Preview
from pegboard.tools.limits import Limits as Limits, ResultLimits as ResultLimits
from pegboard.tools.services import Injected as Injected
from pegboard.tools.spec import (
    Concurrency as Concurrency,
    Grammar as Grammar,
    Origin as Origin,
    Policy as Policy,
    Problem as Problem,
    ToolAnnotations as ToolAnnotations,
    ToolSpec as ToolSpec,
)
from pegboard.tools.stores import Artifacts as Artifacts, Memory as Memory, MemoryEntry as MemoryEntry
from pegboard.tools.tool import Tool as Tool, tool as tool
from pegboard.tools.typed import TypedTool as TypedTool, tool_of as tool_of
from pegboard.toolsets.expression import parse_predicate as parse_predicate
from pegboard.toolsets.predicates import Predicate as Predicate
from pegboard.toolsets.resolve import (
    Explanation as Explanation,
    ResolvedTools as ResolvedTools,
    found_names as found_names,
)
from pegboard.toolsets.search import Found as Found, ToolIndex as ToolIndex
from pegboard.toolsets.toolset import Toolset as Toolset, ToolsetResult as ToolsetResult
from pegboard.toolsets.toolsets import (
    CombinedToolset as CombinedToolset,
    StaticToolset as StaticToolset,
    ToolsetFunction as ToolsetFunction,
)
from pegboard.toolsets.wrappers import Reshape as Reshape, ToolsetBase as ToolsetBase, wrap as wrap
from pegboard.turn.events import TurnOutcome as TurnOutcome
from pegboard.turn.loop import Turn as Turn, run_turn as run_turn, stream_turn as stream_turn
from pegboard.turn.options import TurnLimits as TurnLimits, TurnOptions as TurnOptions
