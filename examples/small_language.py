"""Define a small language by a Lark grammar, find a mistake in it, and generate texts of it.

Run: python examples/small_language.py
"""

import structgen as sg

GRAMMAR = """
start: step ("\\n" step)~2
step: VERB " " AMOUNT " " INGREDIENT "."
VERB: "Add" | "Stir in" | "Melt"
AMOUNT: /[1-9][0-9]?0/ " " ("g" | "ml")
INGREDIENT: "flour" | "milk" | "sugar" | "butter"
"""

print("A grammar with a mistake, a rule that does not exist:")
try:
    sg.lark(GRAMMAR.replace('" " INGREDIENT', '" " INGREDIENTS'))
except sg.StructgenError as error:
    print(error)

recipe = sg.lark(GRAMMAR)
model = sg.load()
print("\nA recipe:")
print(
    sg.generate(
        model, "Write a recipe for pancakes with flour, milk and butter.", recipe, max_tokens=60, seed=3
    )
)

print("\nWhy a text is not in the language:")
print(sg.Matcher(recipe, model.vocabulary).explain("Add 200 g flour.\nAdd 3 eggs."))
