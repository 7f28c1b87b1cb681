"""Models behind a server with the OpenAI protocol, for the same typed calls as local ones: `connect`."""

from structgen.attempts import Account, Attempt

from .connection import connect
from .dialects import DIALECTS
from .model import RemoteModel, RemoteResult
from .retrying import Budget

__all__ = ["DIALECTS", "Account", "Attempt", "Budget", "RemoteModel", "RemoteResult", "connect"]
