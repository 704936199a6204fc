"""pegboard-skills: skills, which are folders of instructions that a model reads when it needs them."""

from __future__ import annotations

from pegboard_skills.front_matter import FrontMatter, SkillError
from pegboard_skills.skill import Skill, read_skill
from pegboard_skills.sources import FoundSkills, SkillSources
from pegboard_skills.tools import SkillTools

__all__ = ["FoundSkills", "FrontMatter", "Skill", "SkillError", "SkillSources", "SkillTools", "read_skill"]
