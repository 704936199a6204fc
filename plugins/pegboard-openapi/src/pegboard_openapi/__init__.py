"""pegboard-openapi: toolsets of the operations that OpenAPI documents describe.

Its names are imported on first use, so that listing tools doesn't load httpx2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegboard.lazy import lazy_names

if TYPE_CHECKING:
    from pegboard_openapi.document import DocumentError
    from pegboard_openapi.toolset import OpenAPIToolset

__all__ = ("DocumentError", "OpenAPIToolset")

__getattr__, __dir__ = lazy_names(__name__, {"DocumentError": "document", "OpenAPIToolset": "toolset"})
