"""Models behind a server with the OpenAI protocol, for the same typed calls as local ones: `connect`."""

from .answering import Account, Attempt, Budget
from .connection import connect
from .dialects import DIALECTS
from .model import RemoteModel, RemoteResult

__all__ = ["DIALECTS", "Account", "Attempt", "Budget", "RemoteModel", "RemoteResult", "connect"]
