"""Calls as all wires have them, both ways: their ids, their names, their arguments, and what is wrong with one."""
