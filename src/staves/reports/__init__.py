"""Pages with pictures: PNG files, and one HTML page that holds them all and needs nothing else."""

from staves.reports._page import drawing, figure, png, table, write_page

__all__ = ["drawing", "figure", "png", "table", "write_page"]
