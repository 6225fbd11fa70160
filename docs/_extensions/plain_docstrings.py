"""Docstrings are plain text with |x| and n * m: signs that reStructuredText would take are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sphinx.application import Sphinx

_CODE = re.compile(r"(`[^`]*`)")


def escape(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = list(_escaped(lines))


def _escaped(lines: list[str]) -> Iterator[str]:
    """The lines as reStructuredText; what is indented after an empty line is code, kept as it is."""
    before, empty, in_code = "", False, False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not in_code and empty and before and not before.startswith(" "):
            in_code = True
            yield from ("::", "")
        elif line.strip() and not indented:
            in_code = False
        yield line if in_code else "".join(_plain(part) for part in _CODE.split(line))
        empty = not line.strip()
        before = before if empty else line


def _plain(part: str) -> str:
    return f"`{part}`" if part.startswith("`") else re.sub(r"([*|])", r"\\\1", part)


def setup(app: Sphinx) -> dict[str, bool]:
    # Behind napoleon (priority 500), which writes bold names itself, would be too late; before it is right.
    app.connect("autodoc-process-docstring", escape, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
