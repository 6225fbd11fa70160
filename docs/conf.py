"""How Sphinx builds the site. Nothing here or in a page is fetched from another host."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(Path(__file__).parent / "_extensions"), str(ROOT)]

project = "minitx"
author = "the minitx project"
copyright = author
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "lean_theme",
    "course_figures",
    "course_quiz",
    "course_pages",
    "plain_docstrings",
    "playground",
]
exclude_patterns = ["_build", "_vendor", "_wasm", "jupyterlite", "**.ipynb_checkpoints"]
suppress_warnings = ["mystnb.unknown_mime_type", "misc.highlighting_failure"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline", "attrs_block"]
myst_heading_anchors = 3
nb_execution_mode = "off"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "sphinx_book_theme"
html_title = "minitx"
html_static_path = ["_static", "_vendor"]
html_css_files = ["course.css"]
html_js_files = [("scrolling.js", {"defer": "defer"})]
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"options": {"enableMenu": False}}
html_theme_options = {
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_navbar_depth": 1,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_show_sourcelink = False
html_copy_source = False
