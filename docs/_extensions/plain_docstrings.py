"""Docstrings are plain text with |x| and n * m: signs that reStructuredText would take are escaped."""

from __future__ import annotations

import re

from sphinx.application import Sphinx

_CODE = re.compile(r"(`[^`]*`)")


def escape(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = ["".join(_plain(part) for part in _CODE.split(line)) for line in lines]


def _plain(part: str) -> str:
    return f"`{part}`" if part.startswith("`") else re.sub(r"([*|])", r"\\\1", part)


def setup(app: Sphinx) -> dict[str, bool]:
    # Behind napoleon (priority 500), which writes bold names itself, would be too late; before it is right.
    app.connect("autodoc-process-docstring", escape, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
