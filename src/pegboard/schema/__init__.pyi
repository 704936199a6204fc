# The public names for type checkers. Written by scripts/public_types.py; don't edit.

from pegboard.schema.messages import is_of as is_of, type_of as type_of, without_added_nulls as without_added_nulls
from pegboard.schema.references import (
    NAMED as NAMED,
    NOTES as NOTES,
    ONE as ONE,
    REFERENCES as REFERENCES,
    SOME as SOME,
    References as References,
    Steps as Steps,
    compiled as compiled,
    mapped as mapped,
    parts_of as parts_of,
    recursive_definitions as recursive_definitions,
    schemas as schemas,
)
from pegboard.schema.validator import Validator as Validator, check_schema as check_schema, validator_of as validator_of
