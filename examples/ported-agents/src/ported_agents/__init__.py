"""Three examples of other systems, ported: time off, the weather at home, guarded files."""
