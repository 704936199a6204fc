"""TURN: request -> model -> dispatch -> again."""
