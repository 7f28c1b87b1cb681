"""An OpenAI-compatible server for one model on one machine: `structgen serve`, or `serve` and `serving` from Python.

`app.make_app` is the application (FastAPI), `model_thread.ModelThread` the thread that runs the model, and
`uvicorn_server.serve` runs both of them under uvicorn. Needs the extra `server`.
"""

from .launch import serve, serving

__all__ = ["serve", "serving"]
