"""The serving half: the registry's tools for programs that speak the Model Context Protocol."""
