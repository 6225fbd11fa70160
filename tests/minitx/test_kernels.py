"""The compiled kernels and their twins: equal results, and every state of the machine they meet."""

import os
import shutil
import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import minitx
from minitx import kernels
from minitx.kernels import attention_numpy as twin

PACKAGE = Path(minitx.__file__).parent

SMALL_ATTENTION = """
import numpy as np, minitx, minitx.functional as F
x = [minitx.Tensor(np.ones((1, 2, 3, 4), np.float32), requires_grad=True) for _ in range(3)]
y = F.attention(*x, causal=True)
y.sum().backward()
print(minitx.kernels.backend(), y.numpy().sum())
"""

LARGE_ATTENTION = """
import numpy as np, minitx, minitx.functional as F
q = minitx.Tensor(np.random.default_rng(0).standard_normal((2, 4, 256, 32)).astype(np.float32))
def large():
    return F.attention(q, q, q).numpy()
first = large()
"""


def run_python(code, path=None, **environment):
    """The code in a process of its own, in the folder above the package."""
    path = path or PACKAGE.parent
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=path,
        env={**os.environ, "PYTHONPATH": str(path), **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def needs_numba():
    return pytest.importorskip("numba")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n", "m", "causal", "offset", "mask_shape"),
    [
        (70, 131, False, 0, None),
        (70, 131, True, 61, None),
        (131, 70, True, -61, None),
        (5, 9, True, 2, (2, 1, 1, 9)),
        (150, 200, True, 3, (1, 6, 150, 1)),
        (90, 128, False, 0, (2, 6, 90, 128)),
    ],
)
def test_attention_and_its_twin_are_equal(n, m, causal, offset, mask_shape, dtype, rng):
    needs_numba()
    kernels.use("numba")
    compiled = kernels.family("attention")
    shapes = (2, 6, n, 24), (2, 3, m, 24), (2, 3, m, 17)
    q, k, v = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    mask = None if mask_shape is None else rng.random(mask_shape) < 0.5
    arguments = (q, k, v, mask, causal, offset, 0.3)
    (out, log_sum), (expected, expected_log_sum) = compiled.forward(*arguments), twin.forward(*arguments)
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(out, expected, atol=tolerance)
    np.testing.assert_allclose(log_sum, expected_log_sum, atol=tolerance)
    grad = rng.standard_normal(out.shape).astype(dtype)
    gradients = compiled.backward(*arguments, out, log_sum, grad)
    for got, wanted in zip(gradients, twin.backward(*arguments, out, log_sum, grad), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, wanted, atol=10 * tolerance)


def test_the_twin_never_holds_all_the_scores(rng):
    n = 1024
    q, k, v = (rng.standard_normal((1, 2, n, 4)).astype(np.float32) for _ in range(3))
    tracemalloc.start()
    out, log_sum = twin.forward(q, k, v, None, False, 0, 0.5)
    twin.backward(q, k, v, None, False, 0, 0.5, out, log_sum, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * n * n * 4  # one matrix of scores; all at once would take several


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory in kilobytes, as Linux counts it")
def test_the_compiled_kernel_never_holds_all_the_scores():
    needs_numba()
    done = run_python("""
        import resource, numpy as np
        from minitx.kernels import attention
        def both(n):
            q = np.ones((1, 1, n, 8), np.float32)
            out, log_sum = attention.forward(q, q, q, None, True, 0, 0.5)
            attention.backward(q, q, q, None, True, 0, 0.5, out, log_sum, out)
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        both(8), both(512)
        print(both(8192) - both(1024))
    """)
    assert int(done.stdout) < 8192 * 8192 * 4 / 1024 * 0.05, done.stderr  # kilobytes


def test_importing_minitx_loads_neither_numba_nor_matplotlib():
    done = run_python("""
        import sys, minitx, minitx.functional, minitx.nn, minitx.optim
        print(sorted({"numba", "llvmlite", "matplotlib", "torch", "scipy"} & set(sys.modules)))
    """)
    assert done.stdout == "[]\n", done.stderr


WITHOUT_NUMBA = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numba":
            raise ModuleNotFoundError("No module named 'numba'", name="numba")
sys.meta_path.insert(0, Block())
"""


def test_without_numba_the_twins_run_and_nothing_is_printed():
    done = run_python(WITHOUT_NUMBA + SMALL_ATTENTION)
    assert (done.stdout, done.stderr) == ("numpy 24.0\n", "")


def test_asking_for_numba_where_it_is_missing_says_how_to_install_it():
    done = run_python(WITHOUT_NUMBA + "import minitx; minitx.kernels.use('numba')")
    assert "ImportError" in done.stderr
    assert "pip install minitx[fast]" in done.stderr


def test_a_numba_that_refuses_to_import_costs_one_line(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 2.4 or less')")
    done = run_python(SMALL_ATTENTION + SMALL_ATTENTION, PYTHONPATH=f"{tmp_path}:{PACKAGE.parent}")
    assert done.stdout == "numpy 24.0\n" * 2
    assert done.stderr == "minitx: running on NumPy alone: Numba needs NumPy 2.4 or less\n"


def test_the_variable_chooses_the_kernels():
    assert run_python(SMALL_ATTENTION, MINITX_KERNELS="numpy").stdout == "numpy 24.0\n"
    done = run_python(SMALL_ATTENTION, MINITX_KERNELS="cuda")
    assert """MINITX_KERNELS must be "numba" or "numpy", got 'cuda'""" in done.stderr


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="got 'cuda'"):
        kernels.use("cuda")


def test_two_threads_may_run_a_kernel_at_once():
    """Numba's own workqueue threads abort the process here."""
    needs_numba()
    done = run_python(
        LARGE_ATTENTION
        + """
import threading
results = []
def work():
    results.extend(np.array_equal(large(), first) for _ in range(30))
threads = [threading.Thread(target=work) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(results), all(results))
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "60 True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_may_run_a_kernel_that_its_parent_has_run():
    """Numba's own OpenMP threads abort the child here."""
    needs_numba()
    done = run_python(
        LARGE_ATTENTION
        + """
import os
child = os.fork()
if child == 0:
    os._exit(0 if np.allclose(large(), first, atol=1e-6) else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    assert done.stdout == "0\n", done.stderr


def test_where_no_thread_can_be_started_the_kernel_runs_alone():
    needs_numba()
    done = run_python(
        """
        import threading
        def start(self):
            raise RuntimeError("can't start new thread")
        threading.Thread.start = start
        """
        + textwrap.indent(LARGE_ATTENTION, 8 * " ")
        + """
        print(first.shape)
        """,
        NUMBA_NUM_THREADS="3",
    )
    assert done.stdout == "(2, 4, 256, 32)\n", done.stderr


def test_without_a_writable_home_the_cache_goes_to_a_temporary_folder_and_one_line_says_so(tmp_path):
    needs_numba()
    done = run_python(
        """
        from minitx.kernels import attention, compiler
        print(compiler.cache_root().exists(), compiler.cache_root())
        """,
        HOME="/dev/null/nowhere",
        XDG_CACHE_HOME="",
        MINITX_CACHE_DIR="",
        TMPDIR=str(tmp_path),
    )
    assert done.stdout.startswith(f"True {tmp_path}"), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "/dev/null/nowhere/.cache/minitx is not writable; compiled kernels are kept in" in done.stderr


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="ownership of files is checked on POSIX only")
def test_a_temporary_folder_that_others_can_write_is_not_trusted(tmp_path):
    """What lies in a cache is run: a folder prepared by someone else must not be used."""
    needs_numba()
    prepared = tmp_path / f"minitx-{os.getuid()}"
    prepared.mkdir(mode=0o777)
    prepared.chmod(0o777)
    done = run_python(
        "from minitx.kernels import compiler; print(compiler.cache_root())",
        MINITX_CACHE_DIR="/dev/null/nowhere",
        TMPDIR=str(tmp_path),
    )
    assert done.stdout.startswith(str(tmp_path)), done.stderr
    assert not done.stdout.startswith(str(prepared) + "/")


def test_an_edited_helper_in_another_file_is_seen_in_spite_of_the_cache(tmp_path):
    """Numba alone looks for changes in the file of the cached function only."""
    needs_numba()
    shutil.copytree(PACKAGE, tmp_path / "minitx", ignore=shutil.ignore_patterns("__pycache__", "course"))
    folder = tmp_path / "minitx" / "kernels"
    (folder / "caller.py").write_text(
        "from minitx.kernels.compiler import compiled\n"
        "from minitx.kernels.helper import helper\n"
        "@compiled()\n"
        "def call(x):\n"
        "    return helper(x)\n"
    )
    results = []
    for number in (1, 2, 2):
        (folder / "helper.py").write_text(
            "from minitx.kernels.compiler import compiled\n"
            "@compiled()\n"
            "def helper(x):\n"
            f"    return x + {number}\n"
        )
        done = run_python(
            "from minitx.kernels.caller import call; print(call(10), sum(call.stats.cache_hits.values()))",
            path=tmp_path,
            MINITX_CACHE_DIR=str(tmp_path / "cache"),
            PYTHONDONTWRITEBYTECODE="1",
        )
        results.append(done.stdout.split())
    assert results == [["11", "0"], ["12", "0"], ["12", "1"]]
