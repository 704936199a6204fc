"""The server: a wire format for each vendor, its rules, and the script that they play."""
