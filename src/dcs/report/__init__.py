"""HTML pages about runs: one self-contained file that needs no network."""

from dcs.report._write import Report, write

__all__ = ["Report", "write"]
