"""What exporters of listings have in common: no model is asked in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from pegboard.errors import ExportError
from pegboard.request.exporter import ResponseReader
from pegboard.request.model_request import ModelRequest


class ListingOnly:
    """An exporter that lists tools, and writes no requests."""

    name: str = ""

    def request(self, request: ModelRequest) -> NoReturn:  # noqa: ARG002  as `Exporter` has it
        """Never writes one.

        Raises:
            ExportError: Always: it is a form for listings.
        """
        raise ExportError("it lists tools; no model takes requests in this form", exporter=self.name)

    def response(self, raw: Mapping[str, Any], request: ModelRequest | None = None) -> NoReturn:  # noqa: ARG002
        """Never reads one.

        Raises:
            ExportError: Always: it is a form for listings.
        """
        raise ExportError("it lists tools; no model answers in this form", exporter=self.name)

    def reader(self, request: ModelRequest | None = None) -> ResponseReader:  # noqa: ARG002
        """Never reads one.

        Raises:
            ExportError: Always: it is a form for listings.
        """
        raise ExportError("it lists tools; no model answers in this form", exporter=self.name)


__all__ = ["ListingOnly"]
