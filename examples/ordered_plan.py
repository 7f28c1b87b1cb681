"""Write a plan of tool calls whose order follows rules of temporal logic.

F means "at some point", G means "always", and `!a W b` means "no a before the first b".

Run: python examples/ordered_plan.py
"""

import structgen as sg
from structgen import ltl

rules = [
    "!migrate W backup",
    "F migrate",
    "!deploy(production) W deploy(staging)",
    "F deploy(production)",
    "G (deploy(production) -> F notify)",
]
actions = {"backup": None, "migrate": None, "deploy": {"to": ["staging", "production"]}, "notify": None}
release = sg.plan(actions, rules, format="calls", max_steps=6)

print("The rules in English:")
for rule in rules:
    print(f"  {rule:40} {ltl.english(rule)}")

model = sg.load()
text = sg.generate(model, "Release version 2, step by step.", release, describe=True, temperature=0)
print("\nThe plan of the model:\n" + text)
print("\nIts steps:", [step.text for step in release.read(text)])

print("\nA wrong plan is explained:")
print(sg.Matcher(release, model.vocabulary).explain("migrate()\nbackup()"))
