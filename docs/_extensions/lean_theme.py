"""What the theme's pages need besides: names that fit for three controls, and 1.5 MB less of script."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

# The button shows "Search Ctrl+K"; a name that leaves out what is shown cannot be spoken to.
_SEARCH = re.compile(r'(<button class="btn search-button-field[^>]*?)\s+aria-label="Search"')
_HIDDEN_CODE = re.compile(r'(<summary) aria-label="Toggle hidden content"')
# The icons come from a font that the pages load as well; as a script they take more than all the rest.
_ICON_SCRIPT = re.compile(r"<(?:script|link)\b[^>]*fontawesome\.js[^>]*>(?:</script>)?")
_TRIANGLE = re.compile(r'<summary>(?=\s*<span class="toctree-toggle")')


def mend(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        mended = _ICON_SCRIPT.sub("", _HIDDEN_CODE.sub(r"\1", _SEARCH.sub(r"\1", text)))
        mended = _TRIANGLE.sub('<summary aria-label="pages inside">', mended)
        if mended != text:
            path.write_text(mended, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
