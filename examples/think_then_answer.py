"""Let the model think before it answers, with an exact cap on the tokens of its thoughts.

Run: python examples/think_then_answer.py
"""

from typing import Literal

import structgen as sg

model = sg.load()
question = "What is the color of the sky on a clear day?"

for cap in (0, 24):
    answer = sg.generate(
        model, question, sg.reasoning(Literal["blue", "green"], max_tokens=cap), temperature=0
    )
    print(f"At most {cap} tokens of reasoning:")
    print(f"  thought: {answer.thinking!r}")
    print(f"  answer:  {answer.value}")
