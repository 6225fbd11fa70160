"""What students and instructors see: every result, no hidden test, and nothing that runs in a browser."""

from __future__ import annotations

import base64
import copy
import os
import re
import stat
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters import GenerateFeedback
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.preprocessors import OverwriteCells
from nbgrader.utils import determine_grade
from traitlets.config import Config

from autograder import feedback as module
from autograder.autograded import STATUS, autograded_notebook
from autograder.course import Course
from autograder.errors import UsageError
from autograder.feedback import (
    FeedbackWriter,
    ScrubFeedback,
    without_hidden_tests,
    write_autograded,
    write_feedback,
)
from autograder.gradebook import GradebookWriter
from autograder.release import Built
from autograder.repair import repair
from autograder.sanitize import (
    MAX_MARKDOWN,
    MAX_OUTPUTS,
    MAX_TEXT,
    harmless_markdown,
    presentable_markdown,
    safe_outputs,
)
from autograder.verdict import CellRun, LooksLike, Outcome, Subtest, Verdict

SECRETS = ("canary_4711", "secret detail", "secret message", "BEGIN HIDDEN", "half_of_it ==")


def verdict(outcome: Outcome = "WA", points: float = 0, **fields: Any) -> Verdict:
    return Verdict(
        tests={
            "test-halve": [
                Subtest(
                    "half of an even number",
                    "WA",
                    0,
                    1,
                    False,
                    message="expected <2>, got 3",
                    detail="secret detail",
                ),
                Subtest(
                    "half of an odd number",
                    outcome,
                    points,
                    2,
                    True,
                    hint="Does your division keep what is left over?",
                    belief="whole-division",
                    message="secret message",
                    detail="secret detail canary_4711",
                ),
            ],
            "test-spread": [Subtest("test-spread", "OK", 2.5, 2.5, True, hint="never needed")],
        },
        **fields,
    )


@pytest.fixture
def solved(right: NotebookNode, tiny: Built) -> NotebookNode:
    return repair(right, tiny.spec).notebook


def graded(
    course: Course, notebook: NotebookNode, result: Verdict, student: str = "ada", **notes: Any
) -> Path:
    """Grade one submission all the way; the path of its feedback page."""
    write_autograded(course, "tiny", student, notebook, result, **notes)
    with GradebookWriter(course) as writer:
        writer.record("tiny", student, notebook, result)
    return write_feedback(course, "tiny", student)


def visible(page: Path) -> str:
    """The words on a page."""
    soup = BeautifulSoup(page.read_text(), "html.parser")
    for hidden in soup(["style", "script"]):
        hidden.decompose()
    return " ".join(soup.get_text(" ").split())


def test_the_autograded_notebook_is_valid_and_only_for_the_staff(course: Course, solved: NotebookNode):
    path = write_autograded(course, "tiny", "ada", solved, verdict(), ["A note."])
    assert path == course.autograded / "ada" / "tiny" / "tiny.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    MetadataValidator().validate_nb(notebook)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    write_autograded(course, "tiny", "ada", solved, verdict())  # over the old one
    assert {found.name for found in path.parent.iterdir()} == {"tiny.ipynb"}


@pytest.mark.parametrize("points", [0, 0.1 + 0.2, 1 / 3, 1, 2])
def test_nbgrader_reads_the_points_out_of_the_outputs(course: Course, solved: NotebookNode, points: float):
    result = verdict("OK" if points else "WA", points)
    notebook = nbformat.read(write_autograded(course, "tiny", "ada", solved, result), as_version=4)
    grades = {cell.id: determine_grade(cell) for cell in notebook.cells if cell.metadata.nbgrader.grade}
    assert grades == {"test-halve": (points, 3), "test-spread": (2.5, 2.5), "why": (None, 4)}


def test_nbgraders_overwrite_cells_finds_nothing_to_change(course: Course, solved: NotebookNode):
    """So that the instructor's copy holds the whole tests, as under nbgrader itself."""
    notebook = nbformat.read(write_autograded(course, "tiny", "ada", solved, verdict()), as_version=4)
    before = copy.deepcopy(notebook)
    told = {"notebook": "tiny", "assignment": "tiny", "student": "ada", "db_url": course.database_url}
    after, _ = OverwriteCells().preprocess(notebook, {"nbgrader": told})
    assert after == before
    sources = {cell.id: cell.source for cell in after.cells}
    assert "expected_canary_4711 = 3.5" in sources["test-halve"]


def test_the_feedback_shows_results_and_nothing_of_the_hidden_tests(course: Course, solved: NotebookNode):
    page = graded(course, solved, verdict())
    words = visible(page)
    for secret in SECRETS:
        assert secret not in page.read_text()
    for shown in (
        "half of an even number",
        "expected <2>, got 3",
        "half of an odd number",
        "Hint: Does your division keep what is left over?",
        "Perhaps you think (whole-division): Half of a number is a whole number. What does 7 // 2 leave out?",
        "0 of 2",
        "2.5 of 2.5",
        "(Score: 2.5 / 9.5)",
        "# This test is hidden.",
    ):
        assert shown in words
    assert "never needed" not in words
    assert "asserthalve(2*scale)==2" in words.replace(" ", "")
    assert stat.S_IMODE(os.stat(page).st_mode) == 0o644


def test_no_output_of_the_autograded_notebook_holds_a_secret(course: Course, solved: NotebookNode):
    notebook = nbformat.read(write_autograded(course, "tiny", "ada", solved, verdict()), as_version=4)
    for cell in notebook.cells:
        for secret in SECRETS:
            assert secret not in str(cell.get("outputs", ""))


@pytest.mark.parametrize("outcome", STATUS)
def test_every_outcome_has_words(course: Course, solved: NotebookNode, outcome: Outcome):
    words = visible(graded(course, solved, verdict(outcome, 2.0 if outcome == "OK" else 0)))
    assert STATUS[outcome] in words
    if outcome == "XX":
        assert "A person will look at it." in words
        assert "(Score: 2.5 / 9.5)" in words


def test_a_test_that_is_not_finished_has_no_points_in_its_outputs(solved: NotebookNode, tiny: Built):
    for result in (verdict("XX"), verdict(needs_review="a traceback with canary_4711"), Verdict()):
        notebook = autograded_notebook(solved, result, tiny.spec)
        (cell,) = [cell for cell in notebook.cells if cell.id == "test-halve"]
        assert [output.output_type for output in cell.outputs] == ["display_data"]
        assert "A person will look at it" in cell.outputs[0].data["text/plain"]
        assert "canary" not in str(cell.outputs)


def test_notes_and_the_likely_idea_stand_at_the_top(course: Course, solved: NotebookNode):
    idea = LooksLike("whole-division", "Half is <whole>.", "Try 7.", certain=True)
    page = graded(course, solved, verdict(looks_like=idea), notes=["The file 'a<b>.ipynb'\n\nwas renamed."])
    words = visible(page)
    assert "Your answer does what this idea would do (whole-division): Half is <whole>. Try 7." in words
    assert "About the file you handed in: The file 'a<b>.ipynb' was renamed." in words
    assert words.index("About the file") < words.index("Half and spread")
    again = FeedbackWriter(course).write("tiny", "ada", verdict(), ["Only this."])
    words = visible(again)
    assert "Only this." in words
    assert "was renamed" not in words
    assert "this idea" not in words
    idea = LooksLike("whole-division", "Half is whole.", "Try 7.", certain=False)
    words = visible(FeedbackWriter(course).write("tiny", "ada", verdict(looks_like=idea, needs_review="x")))
    assert "Perhaps this idea is behind it (whole-division): Half is whole." in words
    assert "A person will look at this submission." in words


def test_what_a_person_entered_is_on_the_next_page(course: Course, solved: NotebookNode):
    """One writer for a whole batch must not remember an older gradebook."""
    graded(course, solved, verdict())
    writer = FeedbackWriter(course)
    assert "(Score: 2.5 / 9.5)" in visible(writer.write("tiny", "ada"))
    with Gradebook(course.database_url, "course") as gradebook:
        gradebook.find_grade("why", "tiny", "tiny", "ada").manual_score = 4
        gradebook.find_comment("halve", "tiny", "tiny", "ada").manual_comment = "Look at seven."
        gradebook.db.commit()
    words = visible(writer.write("tiny", "ada"))
    assert "(Score: 6.5 / 9.5)" in words
    assert "Look at seven." in words


def test_the_page_is_the_one_that_nbgrader_would_make(course: Course, solved: NotebookNode):
    """Leaving out the exporter's last pass changes nothing on a page of this template."""
    result = verdict(
        cells={"halve": CellRun("OK", [{"output_type": "stream", "name": "stdout", "text": "hi"}])}
    )
    ours = graded(course, solved, result).read_text()
    converter = GenerateFeedback(coursedir=course.directory, config=course.nbgrader_config())
    exporter = HTMLExporter(parent=converter, config=converter.config)
    for preprocessor in (module.GetGrades, ScrubFeedback, module.CSSHTMLHeaderPreprocessor):
        exporter.register_preprocessor(preprocessor, enabled=True)
    notebook = nbformat.read(course.autograded / "ada" / "tiny" / "tiny.ipynb", as_version=4)
    told = {"notebook": "tiny", "assignment": "tiny", "student": "ada", "db_url": course.database_url}
    theirs, _ = exporter.from_notebook_node(
        notebook, resources={"nbgrader": told, "metadata": {"name": "tiny"}}
    )
    assert str(BeautifulSoup(ours, "html.parser")) == theirs


def test_a_page_is_the_same_whatever_pages_were_made_before_it():
    """Cells are kept as HTML by their text, and some with the same text are not the same."""

    def notebook(picture: str, magic: str | None) -> NotebookNode:
        text = nbformat.v4.new_markdown_cell("![a car](attachment:car.png)\n\n## *Cars*")
        text.attachments = nbformat.from_dict({"car.png": {"image/png": picture}})
        code = nbformat.v4.new_code_cell("for name in *; do echo $name; done")
        if magic:
            code.metadata["magics_language"] = magic
        return nbformat.v4.new_notebook(
            cells=[text, code], metadata={"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
        )

    keeping = module._PageExporter()
    pages = []
    for one in (notebook("AAAA", None), notebook("BBBB", None), notebook("AAAA", "bash")):
        pages.append(keeping.from_notebook_node(copy.deepcopy(one))[0])
        fresh = module._PageExporter().from_notebook_node(copy.deepcopy(one))[0]
        assert body(pages[-1]) == body(fresh)
    assert len({body(page) for page in pages}) == 3


def body(page: str) -> str:
    """The page's cells, without the ids that nbformat gives to a cell that has none."""
    cells = BeautifulSoup(page, "html.parser").body
    assert cells is not None
    for cell in cells.find_all(id=re.compile("^cell-id=")):
        del cell["id"]
    return str(cells)


def test_nbgraders_own_generate_feedback_works_with_the_scrubber(course: Course, solved: NotebookNode):
    page = graded(course, solved, verdict())
    page.unlink()
    config = course.nbgrader_config()
    names = "nbgrader.preprocessors.GetGrades", "autograder.feedback.ScrubFeedback"
    modules = [getattr(__import__(n.rsplit(".", 1)[0], fromlist=["x"]), n.rsplit(".", 1)[1]) for n in names]
    config.GenerateFeedback.preprocessors = [*modules, module.CSSHTMLHeaderPreprocessor]
    result = NbGraderAPI(course.directory, config=config).generate_feedback("tiny", "ada")
    assert result["success"], result
    for secret in SECRETS:
        assert secret not in page.read_text()
    assert "half of an odd number" in visible(page)


def test_feedback_before_grading_is_a_clear_error(course: Course, solved: NotebookNode):
    with pytest.raises(UsageError, match="no graded notebook of ada for tiny"):
        write_feedback(course, "tiny", "ada")


class Dangers(HTMLParser):
    """Collects whatever in a page could run, or load, something that a student wrote."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.in_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.in_script = tag in ("script", "style")
        for name, value in attrs:
            plain = "".join((value or "").split()).casefold()
            runs = name.startswith("on") or plain.startswith(("javascript:", "vbscript:", "data:text"))
            if "evil" in plain and (runs or name not in ("id", "href", "alt", "title")):
                self.found.append(f"{tag} {name}={value}")
        if tag in ("iframe", "object", "embed", "form", "input", "svg", "base", "meta") and "evil" in str(
            attrs
        ):
            self.found.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.in_script = False

    def handle_data(self, data: str) -> None:
        if self.in_script and "evil" in data:
            self.found.append(data)


HOSTILE_TEXTS = [
    "<script>evil()</script>",
    "<SCRIPT\n>evil()</SCRIPT>",
    "<img src=x onerror=evil()>",
    "<svg/onload=evil()>",
    "a <iframe src='http://evil'></iframe> b",
    "<div>\n\n<script>evil()</script>\n\n</div>",
    "<!-- --><script>evil()</script>",
    "<![CDATA[<script>evil()</script>]]>",
    "[click](javascript:evil())",
    "[click](  javascript:evil())",
    "[click](java\nscript:evil())",
    "[click](JaVaScRiPt:evil())",
    "[click](javascript&#58;evil())",
    "[click](&#106;avascript:evil())",
    "[click](data:text/html,<script>evil()</script>)",
    "[click][ref]\n\n[ref]: javascript:evil()",
    "<javascript:evil()>",
    '![x](javascript:evil() "onerror=evil()")',
    '![x" onerror="evil()](x)',
    '[x](http://a "b\\" onmouseover=\\"evil()")',
    "`</code><script>evil()</script>`",
    "```html\n</pre><script>evil()</script>\n```",
    "```<script>evil()</script>\nx\n```",
    "$</span><script>evil()</script>$",
    "$$\n</div><script>evil()</script>\n$$",
    "\\begin{x}</div><script>evil()</script>\\end{x}",
    "# </h1><script>evil()</script>",
    "| a |\n|---|\n| <script>evil()</script> |",
    "![](attachment:evil.png)",
    "&lt;script&gt;evil()&lt;/script&gt;",
    "<style>@import 'http://evil'</style>",
    "<meta http-equiv=refresh content='0;url=http://evil'>",
]


def test_text_cells_cannot_run_anything(course: Course, solved: NotebookNode):
    """In the feedback, and in formgrader, which shows the autograded notebook with its own template."""
    solved.cells[-2].source = "\n\n".join(HOSTILE_TEXTS)  # the written answer
    for number, text in enumerate(HOSTILE_TEXTS):
        solved.cells.append(nbformat.v4.new_markdown_cell(text, id=f"extra-{number}"))
        solved.cells.append(nbformat.v4.new_raw_cell(text, id=f"raw-{number}"))
    page = graded(course, solved, verdict())
    assert Dangers(page.read_text()).found == []
    assert Dangers(formgrade(course)).found == []


def test_the_check_for_dangers_can_fail(
    course: Course, solved: NotebookNode, monkeypatch: pytest.MonkeyPatch
):
    for name in ("autograded", "feedback"):
        monkeypatch.setattr(f"autograder.{name}.presentable_markdown", lambda text, _: text)
    solved.cells[-2].source = "<script>evil()</script>"
    assert Dangers(graded(course, solved, verdict()).read_text()).found
    assert Dangers(formgrade(course)).found


def formgrade(course: Course) -> str:
    """The autograded notebook in formgrader's template."""
    converter = GenerateFeedback(coursedir=course.directory, config=course.nbgrader_config())
    config = Config(converter.config)
    config.HTMLExporter.template_name = "formgrade"
    exporter = HTMLExporter(config=config)
    told = {"notebook": "tiny", "assignment": "tiny", "student": "ada", "index": 0, "total": 1, "name": "Ada"}
    told |= {"base_url": "/", "mathjax_url": "", "notebook_id": "tiny", "assignment_id": "tiny"}
    notebook = nbformat.read(course.autograded / "ada" / "tiny" / "tiny.ipynb", as_version=4)
    page, _ = exporter.from_notebook_node(notebook, resources={**told, "nbgrader": told})
    return page


ORDINARY_TEXTS = [
    "# A head\n\nSome *text*, `code` and $a_i$, [a link](https://example.org 'here'), [up](#top).",
    "| a | b |\n|:-:|--:|\n| 1 | 2 |",
    "- one\n- two\n  1. three\n\n> quoted\n\n---\n\n```python\nx = [0](1)\n```",
    "$$\n\\begin{align}a &= b\\end{align}\n$$",
    "3. three\n4. four\n\n~~gone~~ **bold** <3",
    "[a]: b\n\nIt maps queries [n, d] to [n, m]: softmax(q k^T) (see above).",
]


def png() -> str:
    """The smallest picture there is."""

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


HOSTILE_OUTPUTS: list[Any] = [
    {"output_type": "display_data", "data": {"text/html": "<script>evil()</script>"}, "metadata": {}},
    {"output_type": "display_data", "data": {"application/javascript": "evil()"}, "metadata": {}},
    {"output_type": "display_data", "data": {"image/svg+xml": "<svg onload=evil()>"}, "metadata": {}},
    {"output_type": "display_data", "data": {"text/markdown": "<script>evil()</script>"}, "metadata": {}},
    {"output_type": "display_data", "data": {"text/latex": "<script>evil()</script>"}, "metadata": {}},
    {"output_type": "display_data", "data": {"image/jpeg": '"><script>evil()</script>'}, "metadata": {}},
    {"output_type": "display_data", "data": {"application/pdf": "evil"}, "metadata": {}},
    {
        "output_type": "display_data",
        "data": {"application/vnd.jupyter.widget-view+json": {"model_id": "evil"}},
    },
    {"output_type": "display_data", "data": {"image/png": '"><script>evil()</script>'}, "metadata": {}},
    {
        "output_type": "display_data",
        "data": {"image/png": png()},
        "metadata": {"image/png": {"width": '1" onload="evil()', "alt": '"onload="evil()'}},
    },
    {
        "output_type": "execute_result",
        "data": {"text/plain": "<script>evil()</script>"},
        "execution_count": "x",
    },
    {"output_type": "stream", "name": '"><script>evil()</script>', "text": "<script>evil()</script>"},
    {"output_type": "stream", "name": "stderr", "text": "\x1b[31m<img onerror=evil()>\x1b[0m"},
    {"output_type": "stream", "name": "stdout", "text": "\x1b]8;;javascript:evil()\x1b\\x\x1b]8;;\x1b\\"},
    {
        "output_type": "error",
        "ename": "<script>evil()",
        "evalue": "<script>",
        "traceback": ["<script>evil()</script>"],
    },
    {"output_type": "error", "ename": None, "evalue": 5, "traceback": "<script>evil()</script>"},
    {"output_type": "update_display_data", "data": {"text/html": "evil"}},
    {"output_type": ["stream"]},
    {"output_type": "stream", "text": [None, "x", 5]},
    {"output_type": "stream", "text": "half \ud800 pair"},
    {"output_type": "display_data", "data": "evil"},
    {"output_type": "display_data", "data": {"text/plain": {"a": 1}}},
    {},
    None,
    "evil",
    [[]],
]


def test_outputs_cannot_run_anything(course: Course, solved: NotebookNode):
    result = verdict(cells={"halve": CellRun("OK", HOSTILE_OUTPUTS), "imports": CellRun("OK", "evil")})  # type: ignore
    page = graded(course, solved, result)
    nbformat.validate(nbformat.read(course.autograded / "ada" / "tiny" / "tiny.ipynb", as_version=4))
    assert Dangers(page.read_text()).found == []
    assert Dangers(formgrade(course)).found == []
    assert "<script>evil()</script>" in visible(page)  # as text
    assert png() in page.read_text()


def test_a_students_code_is_shown_as_text(course: Course, solved: NotebookNode):
    solved.cells[3].source += "\nx = '</pre><script>evil()</script>'"
    page = graded(course, solved, verdict())
    assert Dangers(page.read_text()).found == []
    assert "</pre><script>evil()</script>" in visible(page)


def test_a_test_cell_shows_no_output_but_the_graders(tiny: Built):
    """Under nbgrader's own command a test cell may hold a traceback through the hidden lines."""
    notebook = nbformat.from_dict(tiny.source_notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                nbformat.v4.new_output("error", ename="E", evalue="canary_4711", traceback=["canary"])
            ]
    scrubbed, _ = ScrubFeedback().preprocess(notebook, {})
    outputs = {cell.id: cell.outputs for cell in scrubbed.cells if cell.cell_type == "code"}
    assert outputs["test-halve"] == outputs["test-spread"] == []
    assert len(outputs["halve"]) == 1


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("a\n### BEGIN HIDDEN TESTS\nb\n### END HIDDEN TESTS\nc", "a\nc"),
        ("### BEGIN HIDDEN TESTS\nb\n### END HIDDEN TESTS", "# This test is hidden."),
        ("a\n### BEGIN HIDDEN TESTS\nb", "# This test is hidden."),
        ("a\nb\n### END HIDDEN TESTS", "# This test is hidden."),
        ("### BEGIN HIDDEN TESTS\n### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS\nb", "# This test is hidden."),
    ],
)
def test_a_region_that_is_not_well_formed_hides_the_whole_cell(source: str, left: str):
    assert without_hidden_tests(source) == left


def test_formulas_and_code_in_a_text_keep_their_meaning():
    assert harmless_markdown("$a < b$ and $a<b$ and a<3 and `x<y`") == "$a < b$ and $a< b$ and a<3 and `x< y`"
    assert harmless_markdown(harmless_markdown("<b>")) == "< b>"


def test_a_text_that_nbconvert_cannot_show_is_shown_without_its_pictures():
    pictures = {"here.png": {"image/png": png()}}
    for text in ("![a](attachment:here.png)", "![a](https://example.org/a.png)", *ORDINARY_TEXTS):
        assert presentable_markdown(text, pictures) == text
    assert presentable_markdown("![a](attachment:gone.png)", pictures) == "! [a] (attachment:gone.png)"
    assert presentable_markdown("![a][b]\n\n[b]: attachment&#58;gone.png", None).startswith("! [a] [b]")
    links = "[a](https://example.org) and [b](javascript:evil())"
    assert presentable_markdown(links, None) == "[a] (https://example.org) and [b] (javascript:evil())"
    assert len(presentable_markdown("\\begin{a}" * 20_000, None)) < MAX_MARKDOWN + 100


def test_output_is_cut_to_a_bearable_size():
    stream = {"output_type": "stream", "name": "stdout", "text": "x" * (MAX_TEXT - 10)}
    cut = safe_outputs([stream, stream, stream], 1)
    assert len(cut) == 2
    assert cut[1]["text"] == "x" * 10 + "\n... output shortened ..."
    error = {"output_type": "error", "ename": "E", "evalue": "y" * 10**6, "traceback": ["z" * 10**5] * 10}
    assert len(str(safe_outputs([error], 1))) < 3 * MAX_TEXT
    assert len(safe_outputs([{**stream, "text": "x"}] * 1000, 1)) == MAX_OUTPUTS
    picture = {"output_type": "display_data", "data": {"image/png": "A" * 3 * 2**20}}
    assert [list(output["data"]) for output in safe_outputs([picture] * 3, 1)] == [
        ["image/png"],
        ["text/plain"],
        ["text/plain"],
    ]
