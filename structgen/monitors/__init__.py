"""Monitors: constraints that query the world while a text grows.

Which members a value has, which columns a table has, which state a file is in: no grammar says so, but a language
server, a database or a function of yours does. A `Monitor` names the positions at which it is queried, and returns what
may follow there. `monitored` joins monitors with a constraint, and `structgen.code` does so for programs.
"""

from __future__ import annotations

from .arguments import ArgumentMonitor
from .constraint import Monitored, monitored
from .database import sqlite_schema
from .judging import DiagnosticsMonitor
from .languages import Language, Quotes
from .members import ImportMonitor, MemberMonitor
from .monitor import Context, Fault, Monitor, Trigger
from .patterns import after, judge
from .programs import close_servers, code, server_of
from .queries import MonitorReport
from .suggestions import Names
from .typestate import typestate

__all__ = [
    "ArgumentMonitor",
    "Context",
    "DiagnosticsMonitor",
    "Fault",
    "ImportMonitor",
    "Language",
    "MemberMonitor",
    "Monitor",
    "MonitorReport",
    "Monitored",
    "Names",
    "Quotes",
    "Trigger",
    "after",
    "close_servers",
    "code",
    "judge",
    "monitored",
    "server_of",
    "sqlite_schema",
    "typestate",
]
