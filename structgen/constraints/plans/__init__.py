"""Plans as text under temporal logic, in a world that says which step is possible."""

from .actions import Action, Step, World
from .constraint import PlanConstraint, plan
from .formats import PlanFormat

__all__ = ["Action", "PlanConstraint", "PlanFormat", "Step", "World", "plan"]
