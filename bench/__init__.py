"""Benchmarks and checks that take too long for the tests. Each is a command, ``python -m bench.NAME --help``.

Speed of masks and constraints (results in docs/performance.md unless noted):

    cold              first and slow masks on schemas that no engine was tuned on, with llguidance and XGrammar
    masks             masks of MaskBench's schemas, with llguidance
    grammars          five grammars, with llguidance and XGrammar
    growth            time and memory as schemas and outputs grow
    serving           all masks of a batch in one call
    planning.speed    formulas of temporal logic and plans
    work              CPU time per unit of the core's work (docs/reliability.md)
    scale             the cost of masks in a cluster, simulated (docs/scale.md)

Generation:

    generation        a constraint's share of the time of a token
    speculation       drafts: speed, equality of texts, other libraries (docs/speculation.md)
    llama_cpp         llama-cpp-python with structgen and with llama.cpp's grammars (docs/llama-cpp.md)
    faithful          distance of samplers from the exact distribution, and their cost (docs/sampling.md)
    diffusion         canvases and diffusion models (docs/diffusion.md)
    monitors          language servers as monitors (docs/monitors.md)
    planning          plans of a small model (docs/performance.md)
    tool_calls        tool calls in many formats (docs/tools.md)
    describe          output types that are described in the prompt (docs/types.md)

Servers (docs/server.md):

    server_load, server_soak, server_hostile    `structgen serve`: right answers, memory, isolation
    isolation, serving_memory                   the compiler of a server, without HTTP
    vllm_serving                                vLLM with the plugin

Correctness against other implementations:

    suite             the JSON Schema test suite (docs/json-schema.md)
    verdicts, walks   verdicts and liveness on MaskBench's schemas
    shelf             the ready grammars on public files (grammars/README.md)

The other modules are their parts: `schemas`, `families` and `corpora` are the data, `evaluation` generates the sample
of `structgen eval`.
"""
