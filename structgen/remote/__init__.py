"""Models of servers that implement the OpenAI API, for the same typed calls as local models: `connect`."""

from structgen.attempts import Account, Attempt

from .connection import connect
from .dialects import DIALECTS
from .model import RemoteModel, RemoteResult
from .retrying import Budget

__all__ = ["DIALECTS", "Account", "Attempt", "Budget", "RemoteModel", "RemoteResult", "connect"]
