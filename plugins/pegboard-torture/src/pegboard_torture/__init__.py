"""pegboard-torture: what may go wrong with a plugin, tried in child processes."""
