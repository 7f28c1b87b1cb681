"""An OpenAI-compatible server for one model on one machine: `structgen serve`.

What: `app.make_app` is the application (FastAPI), `engine.Engine` the thread that runs the model, `running.serve` both
of them under uvicorn. Needs the extra `server`.
"""
