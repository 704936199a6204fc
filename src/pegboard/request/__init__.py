"""REQUEST: what a model is asked, and in which provider's words."""
