"""pegboard-chat: conversations with models in a terminal."""
