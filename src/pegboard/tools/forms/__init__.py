"""What a type says of JSON, in the three faces that must agree: its schema, into Python, back to JSON."""

from __future__ import annotations
