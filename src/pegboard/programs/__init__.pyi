# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard.programs.running import OutputBuffer as OutputBuffer, RunningProgram as RunningProgram
from pegboard.programs.tree import JOB as JOB, Leftovers as Leftovers, ProcessTree as ProcessTree
