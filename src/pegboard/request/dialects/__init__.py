"""Schema dialects: JSON Schemas rewritten for what each provider takes.

`dialect` has the shape (`Dialect`, `Rewritten`, `Change`), `providers` the ready ones, `added_nulls` the way back
for arguments of a strict call. Each other module is one step: one behaviour, usable in a dialect of one's own.
"""
