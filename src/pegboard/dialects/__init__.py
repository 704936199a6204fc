"""Schema dialects: JSON Schemas rewritten for what each provider takes; public for authors of exporters."""
