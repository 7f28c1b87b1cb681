"""Plans as text: sequences of actions that a world allows and that satisfy formulas of temporal logic."""

from .actions import Action, Step, World
from .constraint import PlanConstraint, plan
from .formats import PlanFormat

__all__ = ["Action", "PlanConstraint", "PlanFormat", "Step", "World", "plan"]
