"""JSON Schema: derived from types, checked, and applied to values; JSON into Python and back."""
