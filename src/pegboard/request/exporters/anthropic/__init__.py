"""Anthropic's messages API.

`exporter` has the face, `limits` the numbers. Each other module is one noun of the wire: tools out, blocks and results
out, answers in, events of a stream.
"""

from __future__ import annotations

from pegboard.request.exporters.anthropic.exporter import Anthropic
from pegboard.request.exporters.anthropic.limits import AnthropicLimits

__all__ = ["Anthropic", "AnthropicLimits"]
