# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard.request.model_request import (
    ResponseReader as ResponseReader,
    StreamingModel as StreamingModel,
    ToolChoice as ToolChoice,
)
from pegboard.request.processors import DEFERRED as DEFERRED
