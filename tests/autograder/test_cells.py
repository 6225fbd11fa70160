"""Which of the author's cells need not be run while a submission is judged."""

from autograder.cells import Cell, without_errands, without_shows
from autograder.spec import Spec, SpecCell


def provided(grade_id, source):
    return SpecCell(grade_id, "provided", "code", source, source)


SPEC = Spec(
    "shows",
    (
        provided("imports", "import numpy as np\nfrom minitx import figures"),
        provided("table", "table = [1, 2]"),
        provided("derived", "derived = sum(table)"),
        provided("figure", "picture = figures.draw(table)"),
        provided("call", "print('hello')"),
        SpecCell("answer", "solution", "code", "def answer(): return 1", "def answer(): ..."),
        SpecCell("test", "test", "code", "assert answer() == np.int64(1)", "", 1.0),
    ),
)


def kept(answer):
    sources = {cell.grade_id: cell.source for cell in SPEC.cells} | {"answer": answer}
    cells = [Cell(name, "test" if name == "test" else "student", source) for name, source in sources.items()]
    return [cell.id for cell in without_shows(cells, SPEC)]


def test_a_cell_whose_names_nothing_uses_is_left_out_and_one_that_defines_nothing_stays():
    assert kept("def answer(): return 1") == ["imports", "call", "answer", "test"]


def test_a_cell_that_the_student_builds_upon_stays_with_all_that_it_needs():
    assert kept("def answer(): return derived") == ["imports", "table", "derived", "call", "answer", "test"]


def test_a_name_in_a_comment_is_no_use_of_it():
    source = "# my picture of the derived table\ndef answer():\n    # not derived\n    return 1"
    assert kept(source) == ["imports", "call", "answer", "test"]
    assert kept("def answer(): return derived  # so") == kept("def answer(): return derived")


def test_lines_that_ask_something_of_the_server_are_left_out_and_no_others():
    source = """%matplotlib inline
x = 1
if x:
    !pip install numpy \\
        scipy
    %cd ..
text = '''a
!not a command
'''
%timeit x
y = x % cd
"""
    assert (
        without_errands(source)
        == """pass  # not in a sandbox: %matplotlib inline
x = 1
if x:
    pass  # not in a sandbox: !pip install numpy \\
        # not in a sandbox: scipy
    pass  # not in a sandbox: %cd ..
text = '''a
!not a command
'''
%timeit x
y = x % cd
"""
    )
