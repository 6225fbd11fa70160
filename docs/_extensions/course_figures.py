"""`{course-figure} name`: a figure drawn while the site is built. Its content is the caption."""

from __future__ import annotations

from pathlib import Path

import figures_of_the_page
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

COLUMN = 690  # pixels of a column of text on a wide screen


class CourseFigure(SphinxDirective):
    """Draws one function of `figures_of_the_page` as an SVG with its description as alternative text."""

    required_arguments = 1
    has_content = True

    def run(self):
        name = self.arguments[0]
        draw = getattr(figures_of_the_page, name)
        folder = Path(self.env.app.outdir) / "_images"
        folder.mkdir(parents=True, exist_ok=True)
        figure = legible(draw())
        # The same bytes for the same figure: no date, and ids that do not change from build to build.
        figure.savefig(folder / f"course-{name}.svg", metadata={"Date": None}, bbox_inches="tight")
        self.env.note_dependency(figures_of_the_page.__file__)
        depth = self.env.docname.count("/")
        source = f"{'../' * depth}_images/course-{name}.svg"
        # On a phone the figure keeps a size at which it can be read, in a frame that scrolls; alone it can be
        # made larger.
        picture = nodes.raw(
            "",
            f'<div class="figure-frame"><a href="{source}">'
            f'<img class="course-figure" src="{source}" alt="{description(draw)}"></a></div>',
            format="html",
        )
        holder = nodes.figure("", picture)
        caption = nodes.caption()
        parsed = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, parsed)
        for paragraph in parsed.children:
            caption += paragraph.children
        holder += caption
        return [holder]


def legible(figure):
    """The figure with no letters below 11 pixels where it is as wide as a column of text."""
    from matplotlib.text import Text

    least = 11 * figure.get_figwidth() * 72 / COLUMN
    for text in figure.findobj(Text):
        text.set_fontsize(max(text.get_fontsize(), least))
    return figure


def description(draw) -> str:
    """The function's docstring as alternative text."""
    words = " ".join((draw.__doc__ or "").split())
    return words.replace("&", "&amp;").replace('"', "&quot;")


def setup(app: Sphinx) -> dict[str, bool]:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "minitx"
    matplotlib.rcParams["svg.fonttype"] = "path"
    app.add_directive("course-figure", CourseFigure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
