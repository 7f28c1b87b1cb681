"""The same deployment as `config.yaml`, from Python:  serve run app:app"""

from ray.serve.llm import LLMConfig, build_openai_app

assistant = LLMConfig(
    model_loading_config={"model_id": "assistant", "model_source": "Qwen/Qwen3-8B"},
    accelerator_type="H100",
    engine_kwargs={
        "max_model_len": 16384,
        "max_num_seqs": 128,
        "structured_outputs_config": {"backend": "structgen"},
    },
    runtime_env={"env_vars": {"VLLM_PLUGINS": "structgen"}},
    callback_config={"callback_class": "structgen.integrations.ray_serve.Backend"},
    deployment_config={
        "max_ongoing_requests": 192,
        "autoscaling_config": {"min_replicas": 2, "max_replicas": 8, "target_ongoing_requests": 96},
        "health_check_period_s": 10,
        "graceful_shutdown_timeout_s": 60,
    },
)
app = build_openai_app({"llm_configs": [assistant]})
