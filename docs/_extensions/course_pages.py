"""Pages that are made while the site is built: the module's units, and the benchmarks."""

from __future__ import annotations

import base64
import contextlib
import copy
import io
import json
import re
from pathlib import Path

from sphinx.application import Sphinx

from minitx.bench.record import as_markdown
from minitx.course.workbook import all_units, read

DOCS = Path(__file__).resolve().parents[1]
EXERCISES = DOCS.parent / "exercises"
RESULTS = DOCS.parent / "benchmarks" / "results.json"
INTRODUCTION = """\
# The module

You write each part yourself, from a softmax that survives large scores to an action expert that reads a
cache. Every unit is a notebook. Here you can read them; to work, open them from `exercises/`.

| Unit | Time |
|---|---|
"""


def make_pages(app: Sphinx) -> None:
    """Write module/*.ipynb, module/index.md and benchmarks.md, and leave alone what would not change."""
    folder = DOCS / "module"
    folder.mkdir(exist_ok=True)
    units = all_units(EXERCISES.parent)
    for path in units:
        write(folder / path.name, json.dumps(with_figures(path), indent=1))
    rows = []
    for path in units:
        book = read(path)
        minutes = f"{book.minutes} minutes" if book.minutes else ""
        rows.append(f"| [{book.title}]({path.stem}.ipynb) | {minutes} |")
    listed = "\n".join(path.stem for path in units)
    toctree = f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    write(folder / "index.md", INTRODUCTION + "\n".join(rows) + toctree)
    write(DOCS / "benchmarks.md", benchmark_page())


def with_figures(path: Path) -> dict:
    """The notebook, with what its provided cells show before anything is solved: figures and questions."""
    import matplotlib.pyplot as plt

    notebook = json.loads(path.read_text(encoding="utf-8"))
    shown = copy.deepcopy(notebook)
    names: dict = {"__name__": "__main__"}
    for cell, raw in zip(read(path).cells, shown["cells"], strict=True):
        if not cell.is_code:
            continue
        plt.close("all")
        try:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(cell.source, f"{path.name}: {cell.name}", "exec"), names)
        except Exception:  # the cell needs what the student has yet to write
            continue
        if cell.source.startswith("quiz.show("):
            raw["outputs"] = [{"output_type": "stream", "name": "stdout", "text": printed.getvalue()}]
        if cell.kind == "provided" and plt.get_fignums():
            raw["outputs"] = [picture(plt.figure(number)) for number in plt.get_fignums()]
            raw["metadata"].setdefault("tags", []).append("hide-input")
            raw["metadata"]["mystnb"] = {"image": {"alt": words_of(plt.figure(plt.get_fignums()[0]))}}
    plt.close("all")
    return shown


def words_of(figure) -> str:
    """What stands in a figure, for those who do not see it: titles and labels first, then what is inside."""
    found: list[str] = []
    for ax in figure.axes:
        labels = [ax.get_title(), ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel()]
        found += labels + [text.get_text() for text in ax.texts]
    found = [" ".join(text.split()) for text in found]
    told = "; ".join(dict.fromkeys(text for text in found if re.search(r"[A-Za-z]{2}", text)))
    return f"Figure: {told[:400]}"


def picture(figure) -> dict:
    """A figure as the output of a cell."""
    data = io.BytesIO()
    figure.savefig(data, format="png", metadata={"Software": None}, bbox_inches="tight")
    encoded = base64.b64encode(data.getvalue()).decode()
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {"image/png": encoded, "text/plain": "a figure"},
    }


def benchmark_page() -> str:
    """The last recorded run, or how to record one."""
    head = (
        "# Benchmarks\n\nminitx beside its peers, timed in turn: ratio = the peer's time over minitx's.\n\n"
    )
    if not RESULTS.is_file():
        return head + "No run has been recorded yet: `make bench` records one.\n"
    # The table is wide: it has a class of its own, and long names may break behind an underscore.
    told, rule, rows = as_markdown(json.loads(RESULTS.read_text(encoding="utf-8"))).partition("| Workload")
    rows = re.sub(r"(?<=[a-z])_(?=[a-z])", "_\N{ZERO WIDTH SPACE}", rows)
    return f"{head}{told}{{.benchmarks}}\n{rule}{rows}"


def write(path: Path, text: str) -> None:
    """Write a page unless it is there already: Sphinx then need not read it again."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", make_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
