"""A second opinion on what exporters write: vendors' types and rules, and tools to try them with."""
