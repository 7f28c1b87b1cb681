"""Fill the holes of a template, each hole under a constraint of its own.

Run: python examples/fill_template.py
"""

import structgen as sg

letter = sg.infill(
    sg.load(),
    "Dear Bob,\nwe meet on {{day}} at {{hour}}.\nYours, Ann\n",
    day=sg.choice(["Monday", "Tuesday", "Friday"]),
    hour=sg.regex("[1-9] (am|pm)"),
    options={"temperature": 0},
)
print(letter.text)
for name, text in letter.holes.items():
    print(f"{name:5} {text}")
