"""`{playground}`: six words whose attention the reader can change, computed in the page."""

from __future__ import annotations

import json

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WORDS = ("the", "car", "ahead", "brakes", "so", "slow")
D_K = 4


def vectors() -> dict[str, list]:
    """Queries, keys and values of the six words: fixed, and rounded so that the page shows what it uses."""
    rng = np.random.default_rng(11)
    queries, keys = (rng.normal(size=(2, len(WORDS), D_K)) * 1.2).round(2)
    values = rng.normal(size=(len(WORDS), 2)).round(2)
    return {
        "words": list(WORDS),
        "queries": queries.tolist(),
        "keys": keys.tolist(),
        "values": values.tolist(),
    }


class Playground(SphinxDirective):
    """The vectors as JSON; playground.js makes the rest."""

    def run(self):
        data = json.dumps(vectors())
        return [
            nodes.raw(
                "",
                '<div class="playground"><script type="application/json">' + data + "</script>"
                "<noscript><p>The playground needs JavaScript.</p></noscript></div>",
                format="html",
            )
        ]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("playground", Playground)
    app.add_js_file("playground.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
