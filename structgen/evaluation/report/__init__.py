"""A run as one HTML page that needs nothing else; see `structgen.evaluation.report.page`."""

from .page import report, write_report

__all__ = ["report", "write_report"]
