"""pegboard-torture: fault injection for plugins, in child processes."""
