"""Three programs as other systems' own examples show them: time off, the weather at home, guarded files."""
