"""The files of the Ray Serve example are what Ray reads: checked by Ray's own models where it is installed."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parents[2] / "examples" / "ray-serve"


def configuration() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    read: dict[str, Any] = yaml.safe_load((HERE / "config.yaml").read_text("utf-8"))
    return read


def test_both_files_say_the_same() -> None:
    (written,) = configuration()["applications"][0]["args"]["llm_configs"]
    calls = [
        node
        for node in ast.walk(ast.parse((HERE / "app.py").read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "LLMConfig"
    ]
    (call,) = calls
    assert {str(one.arg): ast.literal_eval(one.value) for one in call.keywords} == written


def test_replicas_are_full_before_another_one_starts() -> None:
    (written,) = configuration()["applications"][0]["args"]["llm_configs"]
    deployment = written["deployment_config"]
    scaling = deployment["autoscaling_config"]
    assert scaling["target_ongoing_requests"] <= written["engine_kwargs"]["max_num_seqs"]
    assert scaling["target_ongoing_requests"] < deployment["max_ongoing_requests"]


def test_the_image_has_the_plugin() -> None:
    text = (HERE / "Dockerfile").read_text("utf-8")
    assert re.search(r"^FROM rayproject/ray-llm:", text, re.MULTILINE) and "pip install" in text


def test_ray_reads_the_configuration() -> None:
    schema = pytest.importorskip("ray.serve.schema", reason="Ray is not installed")
    configs = pytest.importorskip(
        "ray.llm._internal.serve.core.configs.llm_config", reason="Ray is not installed"
    )
    read = schema.ServeDeploySchema.model_validate(configuration())
    (application,) = read.applications
    for one in application.args["llm_configs"]:
        assert configs.LLMConfig.model_validate(one).model_id == "assistant"


def test_the_backend_is_known_before_ray_checks_its_name() -> None:
    (written,) = configuration()["applications"][0]["args"]["llm_configs"]
    assert written["engine_kwargs"]["structured_outputs_config"] == {"backend": "structgen"}
    named = written["callback_config"]["callback_class"]
    assert named == "structgen.integrations.ray_serve.Backend"
    base = pytest.importorskip("ray.llm._internal.common.callbacks.base", reason="Ray is not installed")
    from structgen.integrations.ray_serve import Backend

    assert issubclass(Backend, base.CallbackBase)
    assert Backend.on_before_node_init is not base.CallbackBase.on_before_node_init
