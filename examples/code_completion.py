"""Complete Python code with the names that a language server knows.

The class below is in no training data. The type checker `ty` reads the project and reports which members exist.

Run: python examples/code_completion.py    (needs: pip install ty)
"""

import tempfile
from pathlib import Path

import structgen as sg
from structgen import monitors

model = sg.load(chat=False)  # the prompt is code to continue, not a message
before = "from shop import Basket\n\n\ndef pay(basket: Basket) -> int:\n    return basket."

with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "shop.py").write_text(
        "class Basket:\n"
        "    def add_article(self, name: str, *, pieces: int = 1) -> None: ...\n"
        "    def sum_in_cents(self) -> int: ...\n",
        encoding="utf-8",
    )
    line = sg.regex(r"[^\n]{1,40}\n")
    informed = sg.code("python", project=folder, file="main.py", before=before, within=line)
    print(before)
    print("  the model alone:      ", sg.generate(model, before, line, max_tokens=20, temperature=0).strip())
    result = sg.run(model, before, informed, max_tokens=20, temperature=0)
    print("  with a language server:", result.text.strip())
    print(result.monitors)
    monitors.close_servers()
