# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard.tools.call import CallError as CallError, CallFault as CallFault, State as State, merged as merged
from pegboard.tools.content import (
    BINARY as BINARY,
    Content as Content,
    ErrorKind as ErrorKind,
    media_type as media_type,
    read_content as read_content,
    sayable_json as sayable_json,
    writable as writable,
)
from pegboard.tools.context import EMPTY_CONTEXT as EMPTY_CONTEXT, DisplayUpdate as DisplayUpdate
from pegboard.tools.handler import Handler as Handler
from pegboard.tools.spec import (
    HOST as HOST,
    check_name as check_name,
    is_valid_name as is_valid_name,
    mapped_name as mapped_name,
)
from pegboard.tools.stores import checked_name as checked_name
from pegboard.tools.tool import ATTRIBUTE as ATTRIBUTE
from pegboard.tools.typed import as_tools as as_tools
from pegboard.tools.visible import visible_spec as visible_spec
