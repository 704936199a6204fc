"""pegboard-adapters: other frameworks' tools in pegboard, and pegboard's tools in them; a module for each framework."""
