"""The module's pages: a notebook as the site shows it."""

import sys
from pathlib import Path

import pytest

from minitx.course.questions import find

pytest.importorskip("sphinx")
ROOT = Path(__file__).parents[2]


def test_a_page_shows_each_question_of_the_unit_and_no_answer(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs/_extensions"))
    pages = pytest.importorskip("course_pages")
    path = ROOT / "exercises/causal/causal.ipynb"
    shown = {}
    for cell in pages.with_figures(path)["cells"]:
        if cell["cell_type"] == "code" and "quiz.show" in "".join(cell["source"]):
            (output,) = cell["outputs"]
            shown[cell["id"]] = " ".join(output["text"].split())
    assert list(shown) == ["show-c4", "show-q3", "show-g4"]
    for name, text in shown.items():
        question = find(name.removeprefix("show-"))
        assert question.text in text
        for option in question.options:
            assert option.text in text
            assert not option.feedback or option.feedback not in text
    sys.modules.pop("course_pages")
