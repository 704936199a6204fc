# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard.schema.validator import Validator as Validator, check_schema as check_schema, validator_of as validator_of
