"""Optional packages that are missing: one kind of error, which says how to install them, from every entry point."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from structgen.errors import PackageMissing
from structgen.extras import install_command, needed, require

from .test_packaging import PROJECT

EXTRAS = PROJECT["optional-dependencies"]
ENTRIES: list[tuple[str, str, str]] = [
    # The extra, a package of it, and a call or an import as a user would write it.
    ("remote", "httpx2", "sg.connect('http://localhost:1/v1')"),
    ("remote", "httpcore2", "sg.connect('http://localhost:1/v1')"),
    ("demo", "torch", "sg.load('no/model')"),
    ("demo", "transformers", "sg.load()"),
    ("demo", "gguf", "embedded._convert(None, None)"),
    ("progress", "tqdm", "sg.inference.beam(model, '', sg.choice(['a', 'b']), progress=True)"),
    ("transformers", "torch", "from structgen.integrations.transformers import ConstraintProcessor"),
    ("transformers", "transformers", "from structgen.integrations.transformers import ConstraintProcessor"),
    ("transformers", "torch", "from structgen.integrations.transformers_batching import generate_batch"),
    ("transformers", "torch", "sg.diffusion.load('no/model')"),
    ("transformers", "transformers", "sg.diffusion.load('no/model')"),
    *(
        ("server", package, "from structgen.cli import main; serve.run(None)")
        for package in ("fastapi", "uvicorn", "h11", "prometheus_client")
    ),
    ("server", "prometheus_client", "from structgen.server import metrics"),
    ("server", "fastapi", "from structgen.server.app import make_app"),
    ("server", "uvicorn", "from structgen.server.uvicorn_server import serve"),
    ("server", "fastapi", "from structgen.server import connections"),
    ("plot", "matplotlib", "sg.sample(model, '', sg.choice(['a', 'b']), n=2, seed=1).plot()"),
    ("plot", "matplotlib", "drawing.plot(None)"),
    ("chemistry", "rdkit", "Molecules(sg.Vocabulary.of_bytes())"),
    ("eval", "openai", "Endpoint('openai:http://localhost:1/v1', seconds=1, max_tokens=1)"),
    ("llama-cpp", "llama_cpp", "llama_cpp.logits_processor(int, None)"),
]
SCRIPT = """
import json, sys
import structgen as sg
from structgen.cli import serve
from structgen.formulas import drawing
from structgen.diffusion.smiles import Molecules
from structgen.evaluation.endpoints import Endpoint
from structgen.integrations import llama_cpp
from structgen.models import DistributionModel, embedded

model = DistributionModel(sg.Vocabulary.of_bytes(), lambda tokens: [1 / 257] * 257)
for package, call in json.load(sys.stdin):
    removed = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == package}
    sys.modules[package] = None  # an import fails as it does where the package is not installed
    try:
        exec(call)
        said = ["nothing", "", ""]
    except BaseException as error:
        said = [type(error).__name__, getattr(error, "message", str(error)), getattr(error, "hint", None)]
    print(json.dumps(said))
    del sys.modules[package]
    sys.modules.update(removed)
"""


@pytest.fixture(scope="module")
def said() -> list[tuple[str, str, str]]:
    """Return the output of each call in a process of its own."""
    calls = json.dumps([[package, call] for _, package, call in ENTRIES])
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=calls, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr
    return [tuple(json.loads(line)) for line in run.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(ENTRIES)), ids=lambda n: f"{ENTRIES[n][1]}: {ENTRIES[n][2]:.40}")
def test_a_missing_package_is_named_with_how_to_install_it(number: int, said: list[Any]) -> None:
    extra, package, _ = ENTRIES[number]
    name, message, hint = said[number]
    assert name == "PackageMissing", message
    assert f"needs the package {package}, which is not installed" in message
    assert hint == f"Install it with: {install_command(extra)}"


def test_the_extras_that_messages_name_bring_the_package() -> None:
    for extra, package, _ in ENTRIES:
        brought = " ".join(EXTRAS[extra]).replace("-", "_")
        for inner in re.findall(r"structgen_lm\[([^]]*)\]", brought):
            brought += " ".join(part for name in inner.split(",") for part in EXTRAS[name]).replace("-", "_")
        assert package.replace("httpcore2", "httpx2") in brought, (extra, package)


def test_other_import_errors_are_not_taken_for_missing_packages() -> None:
    with pytest.raises(ImportError, match="fault of ours") as caught, needed("this", "plot"):
        raise ImportError("fault of ours", name="structgen.x")
    assert not isinstance(caught.value, PackageMissing)
    with pytest.raises(PackageMissing, match="cannot be imported: broken"), needed("this", "plot"):
        raise ImportError("broken")
    with pytest.raises(PackageMissing, match="the package nothing_of_this_name"):
        require("this", "plot", "re", "nothing_of_this_name")
