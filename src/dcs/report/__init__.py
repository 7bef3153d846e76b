"""One page that shows what a run learnt: a single HTML file that needs no network."""

from dcs.report._write import Report, write

__all__ = ["Report", "write"]
