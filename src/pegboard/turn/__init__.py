"""TURN: the agent loop, request -> model -> dispatch -> again."""
