# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard.toolsets.filters import error_text as error_text
from pegboard.toolsets.resolve import (
    FOUND_TOOLS as FOUND_TOOLS,
    SEARCHES as SEARCHES,
    found_names as found_names,
    resolve_tools as resolve_tools,
)
from pegboard.toolsets.toolset import (
    ToolMapper as ToolMapper,
    ToolsetResult as ToolsetResult,
    check_tool_schemas as check_tool_schemas,
    identity_of as identity_of,
)
from pegboard.toolsets.transforms import ToolTransform as ToolTransform
from pegboard.toolsets.wrappers import CachedToolset as CachedToolset
