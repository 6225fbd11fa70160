"""Scores are made in the test runner from values that student code returned, and from nothing else."""

import dataclasses
import time

import pytest

from autograder.cells import Cell, cells_from_spec
from autograder.judging import Judge, Pace
from autograder.sandbox.backends import ZygoteBackend
from autograder.spec import Misconception, Spec, SpecCell

CANARY = "canary-2b7e-hidden"

SOLUTION = '''import numpy as np
def mean(x):
    """The mean."""
    ### BEGIN SOLUTION
    return np.sum(x) / x.size
    ### END SOLUTION
'''
RELEASED = '''import numpy as np
def mean(x):
    """The mean."""
    # YOUR CODE HERE
    raise NotImplementedError()
'''
TEST = f'''rng = check.rng("mean")
### Test: the mean of two numbers (1 point)
### Hint: Add, then divide.
assert mean(np.array([1.0, 3.0])) == 2.0, "expected 2.0"
### BEGIN HIDDEN TESTS
### Test: the mean of a table (2 points)
### Hint: How many numbers are there?
### Belief: mean-of-rows
secret = rng.random((3, 5))  # {CANARY}
np.testing.assert_allclose(mean(secret), secret.mean(), err_msg="{CANARY}")
### Test: the argument stays as it is (1 point)
before = np.arange(4.0)
mean(before)
assert before.tolist() == [0, 1, 2, 3]
### END HIDDEN TESTS
'''
BANK = (
    Misconception(
        "by-minus-one",
        "divide by n - 1",
        "advice A",
        "mean",
        "the mean of a table",
        "def mean(x):\n    return np.sum(x) / (x.size - 1)",
    ),
    Misconception(
        "mean-of-rows",
        "divide by the rows",
        "advice B",
        "mean",
        "the mean of a table",
        "def mean(x):\n    return np.sum(x) / len(x)",
    ),
)


def make_spec():
    return Spec(
        "tiny",
        (
            SpecCell(
                "imports",
                "provided",
                "code",
                "import numpy as np\nfrom minitx.course import check",
                "import numpy as np\nfrom minitx.course import check",
            ),
            SpecCell("mean", "solution", "code", SOLUTION, RELEASED),
            SpecCell("test-mean", "test", "code", TEST, TEST.partition("### BEGIN")[0], 4.0),
        ),
        BANK,
    )


@pytest.fixture(scope="module")
def backend():
    backend = ZygoteBackend()
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def judge(backend):
    return Judge(make_spec(), backend, Pace(cell=5, part=1.0, after_time_out=0.3, run=20))


def submission(code, *more):
    extra = [Cell(f"extra-{number}", "student", source) for number, source in enumerate(more)]
    imports = Cell("imports", "student", "import numpy as np\nfrom minitx.course import check")
    return [imports, Cell("mean", "student", code), *extra, Cell("test-mean", "test", "")]


def outcomes(verdict):
    return [test.outcome for test in verdict.tests["test-mean"]]


def everything_a_student_sees(verdict):
    shown = [str(run.outputs) for run in verdict.cells.values()]
    for test in verdict.tests["test-mean"]:
        shown += [test.title, test.hint, test.message, test.belief]
    return "\n".join(shown)


def test_the_reference_gets_every_point_and_the_release_none(judge):
    assert judge.judge(cells_from_spec(judge.spec, reference=True), b"k").total == 4
    verdict = judge.judge(cells_from_spec(judge.spec, reference=False), b"k")
    assert verdict.total == 0
    assert outcomes(verdict) == ["RE", "RE", "RE"]
    assert verdict.looks_like is None


def test_each_part_of_a_cell_is_judged_for_itself(judge):
    verdict = judge.judge(
        submission("def mean(x):\n    y = x.mean()\n    if x.ndim == 1: x[0] = 9\n    return y"), b"k"
    )
    assert outcomes(verdict) == ["OK", "OK", "WA"]
    assert verdict.total == 3


def test_a_wrong_answer_is_recognised_by_what_it_returns(judge):
    verdict = judge.judge(
        submission("def mean(values):\n    return sum(values.ravel()) / values.shape[0]"), b"k"
    )
    assert outcomes(verdict) == ["OK", "WA", "OK"]
    assert (verdict.looks_like.name, verdict.looks_like.certain) == ("mean-of-rows", True)
    verdict = judge.judge(submission("def mean(x):\n    return x.sum() / (x.size - 1)"), b"k")
    assert (verdict.looks_like.name, verdict.looks_like.certain) == ("by-minus-one", True)


def test_a_wrong_answer_of_another_kind_is_only_suggested(judge):
    verdict = judge.judge(submission("def mean(x):\n    return x.mean() + (x.ndim - 1)"), b"k")
    assert (verdict.looks_like.name, verdict.looks_like.certain) == ("mean-of-rows", False)


def test_an_error_alone_is_no_sign_of_a_misconception(backend):
    """Many ideas end in the same exception; only a wrong value tells them apart."""
    raises = "def mean(x):\n    if x.ndim == 2: raise TypeError('no tables')\n    return x.mean()"
    known = Misconception("no-tables", "belief", "advice", "mean", "the mean of a table", raises)
    strict = Judge(dataclasses.replace(make_spec(), misconceptions=(known,)), backend)
    verdict = strict.judge(submission(raises), b"k")
    assert outcomes(verdict) == ["OK", "RE", "OK"]
    assert verdict.looks_like is None


def test_a_visible_failure_shows_its_message_and_a_hidden_one_does_not(judge):
    verdict = judge.judge(submission("def mean(x):\n    return 0.0"), b"k")
    visible, hidden, _ = verdict.tests["test-mean"]
    assert "expected 2.0" in visible.message
    assert hidden.message == ""
    assert CANARY in hidden.detail
    assert CANARY not in everything_a_student_sees(verdict)


FORGERIES = {
    "an object equal to everything": "class Any:\n    def __eq__(s, o): return True\n    def __array__(s, *a, **k): return np.zeros(1)\ndef mean(x): return Any()",
    "a float equal to everything": "class Any(float):\n    def __eq__(s, o): return True\ndef mean(x): return Any(0)",
    "an array that agrees": "class Any(np.ndarray):\n    def __eq__(s, o): return np.ones(s.shape, bool)\n    def __array_function__(s, *a): return True\ndef mean(x): return np.zeros(1).view(Any)",
    "patched comparisons": "import numpy.testing, builtins\nnumpy.testing.assert_allclose = lambda *a, **k: None\nnp.allclose = lambda *a, **k: True\nbuiltins.sum = lambda *a: 2.0\ndef mean(x): return 0.0",
    "an early exit": "import sys\ndef mean(x): sys.exit(0)",
    "a hard exit": "import os\ndef mean(x): os._exit(0)",
    "an exit hook": "import atexit, os\natexit.register(os._exit, 0)\ndef mean(x): raise SystemExit(0)",
    "a handler of errors": "get_ipython().set_custom_exc((Exception,), lambda *a, **k: None)\ndef mean(x): raise AssertionError",
    "an input transformer": "import ast\nclass T(ast.NodeTransformer):\n    def visit_Assert(s, n): return ast.Pass()\nget_ipython().ast_transformers.append(T())\ndef mean(x): return 0.0",
    "nothing": "pass",
    "no function": "mean = 2.0",
    "a patched server": "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Server':\n        o.answer = lambda header, blob: ({'value': True, 'changed': []}, [])\ndef mean(x): return 0.0",
}


@pytest.mark.parametrize("code", FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_earns_nothing_for_what_it_does_not_compute(judge, code):
    verdict = judge.judge(submission(code), b"k")
    hidden = verdict.tests["test-mean"][1]
    assert hidden.points == 0
    assert hidden.outcome != "XX"
    assert not verdict.needs_review


def test_code_that_remembers_hidden_inputs_finds_no_place_to_show_them(judge):
    """Every channel that reaches the student: prints, error texts and names, return values, later cells."""
    remember = (
        "seen = []\nclass Box(Exception): pass\n"
        "def mean(x):\n    seen.append(x.tolist())\n    print('SEEN', seen)\n"
        "    if x.ndim == 2:\n        raise type('E' + ''.join(map(str, x.ravel()))[:60], (ValueError,), {})(str(seen))\n    return str(seen)"
    )
    verdict = judge.judge(submission(remember, "print('SEEN', seen)"), b"k")
    shown = everything_a_student_sees(verdict)
    digits = str(judge_inputs(b"k")[0, 0])[:8]
    assert digits in verdict.tests["test-mean"][1].detail, "the student's code did meet the hidden input"
    assert digits not in shown


def judge_inputs(seed):
    from minitx.course import check

    check.use_key(seed)
    return check.rng("mean").random((3, 5))


def test_each_student_gets_inputs_of_their_own_and_the_same_ones_at_a_regrade(judge):
    echo = submission("def mean(x):\n    raise ValueError(str(x.ravel()[0]))")
    first, again, other = (
        judge.judge(echo, seed).tests["test-mean"][1].detail for seed in (b"a", b"a", b"b")
    )
    assert first == again
    assert first != other


def test_an_endless_function_costs_each_test_its_time_and_no_more(judge):
    start = time.monotonic()
    verdict = judge.judge(submission("def mean(x):\n    while True: pass"), b"k")
    assert outcomes(verdict) == ["TO", "TO", "TO"]
    assert verdict.total == 0
    assert time.monotonic() - start < 20


def test_a_test_after_a_crash_gets_a_new_sandbox_with_the_same_functions(judge):
    verdict = judge.judge(
        submission(
            "import ctypes\ndef mean(x):\n    if x.ndim == 2: ctypes.string_at(0)\n    return x.mean()"
        ),
        b"k",
    )
    assert outcomes(verdict) == ["OK", "SG", "OK"]


def test_an_endless_cell_is_skipped_and_the_others_count(judge):
    verdict = judge.judge(submission("def mean(x):\n    return x.mean()", "while True: pass"), b"k")
    assert verdict.cells["extra-0"].outcome == "TO"
    assert verdict.total == 4


def test_a_warning_on_stderr_costs_nothing(judge):
    verdict = judge.judge(
        submission(
            "import warnings, sys\ndef mean(x):\n    warnings.warn('slow'); print('x', file=sys.stderr)\n    return x.mean()"
        ),
        b"k",
    )
    assert verdict.total == 4
