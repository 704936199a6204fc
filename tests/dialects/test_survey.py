from __future__ import annotations

import pytest

from pegboard.dialects.dialect import Change, Dialect, Rewritten, Survey, Surveying

SHARED = {"type": "string"}
SCHEMA = {"properties": {"a": SHARED, "enum": {"items": SHARED}}, "const": {"not": {}}}


def test_schemas_stand_there_the_innermost_first_as_often_as_they_are_reached():
    survey = Survey(SCHEMA)
    assert [place.path for _, place in survey.schemas] == [
        "/properties/a",
        "/properties/enum/items",
        "/properties/enum",
        "",
    ]
    assert survey.schemas[0][0] is survey.schemas[1][0]


def test_keywords_are_those_of_schemas_not_names_or_data():
    survey = Survey(SCHEMA)
    assert survey.keywords == {"properties", "const", "items", "type"}
    assert survey.lacks({"enum", "not"})
    assert not survey.lacks({"enum", "items"})


def test_what_is_taken_down_goes_to_the_step_that_did_it():
    survey = Survey(SCHEMA)
    survey.schemas[0][1].lost("type", "gone")
    assert survey.rewritten(SCHEMA).changes == (Change("/properties/a", "type", "gone"),)
    assert survey.rewritten(SCHEMA) == survey.untouched() == Rewritten(SCHEMA)


def test_one_survey_serves_steps_until_a_schema_is_new():
    seen = []

    class Looks(Surveying):
        def over(self, survey):
            seen.append(survey)
            return survey.untouched()

    def renew(schema):
        return Rewritten(dict(schema))

    Dialect("looking", (Looks(), Looks(), renew, Looks())).rewrite(SCHEMA)
    assert [survey is seen[0] for survey in seen] == [True, True, False]


def test_a_step_has_to_say_what_it_does():
    with pytest.raises(NotImplementedError):
        Surveying()({})
