"""A page and its pictures."""

from __future__ import annotations

import base64
import contextlib
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from staves.errors import StavesError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = (
    "body{font:15px system-ui,sans-serif;max-width:60em;margin:2em auto}"
    "td,th{padding:.2em .8em;text-align:right}td:first-child{text-align:left}"
    "img{max-width:100%}"
)


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Draw within this block: equal input gives equal pictures, whatever people have configured.

    Raises:
        StavesError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        raise StavesError(
            "reports need matplotlib", hint="pip install 'staves[simulate]'"
        ) from None
    with mpl.rc_context(mpl.rcParamsDefault):
        yield


def figure(height: float = 3.6) -> Figure:
    """Return an empty figure of the page's width, and of that height in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(8, height), layout="constrained")


def png(picture: Figure) -> bytes:
    """Return a figure as a PNG file."""
    buffer = io.BytesIO()
    picture.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; the cells are plain text."""
    names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{names}</tr>{lines}</table>"


def write_page(
    folder: Path, *, title: str, heading: str, body: str, pictures: Mapping[str, bytes]
) -> Path:
    """Write a PNG for each picture, and `index.html`; return the page.

    Args:
        folder: made where it is absent.
        title, heading: plain text.
        body: HTML, above the pictures.
        pictures: PNG files by name, in order.

    Raises:
        StavesError: the folder cannot be written.
    """
    images = "".join(
        f'<h2>{html.escape(name)}</h2><img alt="{html.escape(name)}"'
        f' src="data:image/png;base64,{base64.b64encode(data).decode()}">'
        for name, data in pictures.items()
    )
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{html.escape(heading)}</h1>{body}{images}</body></html>\n"
    )
    page = folder / "index.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in pictures.items():
            (folder / f"{name}.png").write_bytes(data)
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StavesError(
            f"report: {folder}: {error.strerror or error}",
            hint="name a folder that you may write",
        ) from None
    return page
