"""Defaults as JSON, for the schema."""

from __future__ import annotations

from typing import Any

from pegboard.tools.forms.form import Form
from pegboard.tools.forms.json_data import to_json_data
from pegboard.tools.forms.member import MISSING


def json_default(value: Any, form: Form) -> Any:
    """A default as JSON data; `MISSING` where JSON can't say it (NaN) or the type doesn't take it (`x: int = None`)."""
    if value is MISSING:
        return MISSING
    try:
        data = to_json_data(value)
    except (TypeError, ValueError):
        return MISSING
    return data if type(data) in form.kinds() else MISSING
