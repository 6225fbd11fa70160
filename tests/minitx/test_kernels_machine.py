"""Attention's kernels and the machine: threads, forks, the cache on disk, memory, the width of vectors."""

import os
import platform
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import minitx

pytest.importorskip("numba")

from minitx.kernels import attention, board, crew
from minitx.kernels.simd import read_number, relax

PACKAGE = Path(minitx.__file__).parent


def run_python(code, path=PACKAGE.parent, **environment):
    """What the code prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=path,
        env={**os.environ, "PYTHONPATH": str(path), **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@crew.shared()
def mark_tasks(deal, marks):
    while True:
        task = crew.next_task(deal, marks.size)
        if task < 0:
            return
        marks[task] += 1


@crew.shared()
def fail_as(deal, worker, here):
    """The worker of this number fails, once another one has come too, or was long waited for."""
    here[deal[0]] = 1
    for _ in range(400_000_000):
        if read_number(here, 0) + read_number(here, 1) == 2:
            break
        relax()
    if deal[0] == worker:
        raise ValueError("on purpose")


def test_every_task_is_taken_once_whatever_the_number_of_threads():
    for workers in (1, 2, 3, 7):
        for tasks in (0, 1, 5, 1000):
            for _ in range(5):
                marks = np.zeros(tasks, np.int64)
                crew.share(mark_tasks, workers, marks)
                assert (marks == 1).all()


@pytest.mark.parametrize(("worker", "error"), [(0, "on purpose"), (1, "helper thread")])
def test_a_fault_reaches_the_caller_from_whatever_thread_and_the_board_is_free_again(worker, error):
    marks = np.zeros(10, np.int64)
    crew.share(mark_tasks, 2, marks)  # starts the helper
    with pytest.raises(ValueError, match="on purpose"):  # compiles: a helper would fall asleep meanwhile
        crew.share(fail_as, 1, 0, np.ones(2, np.int64))
    for _ in range(3):
        here = np.zeros(2, np.int64)
        with pytest.raises((ValueError, RuntimeError), match=error):
            crew.share(fail_as, 2, worker, here)
        assert here.all()
    assert not crew._crew.board[[board.OWNED, board.PLACES]].any()
    crew.share(mark_tasks, 2, marks)
    assert (marks == 2).all()


def test_a_helper_that_has_gone_to_sleep_is_woken(monkeypatch):
    monkeypatch.setattr(crew, "LOOKS", 3000)
    monkeypatch.setattr(crew, "_crew", crew._Crew())
    came = 0
    for _ in range(10):
        here = np.zeros(2, np.int64)
        with pytest.raises((ValueError, RuntimeError)):
            crew.share(fail_as, 2, 0, here)
        came += int(here[1])
        end = time.monotonic() + 20
        while not crew._crew.board[board.ASLEEP] and time.monotonic() < end:
            time.sleep(0.001)
        assert crew._crew.board[board.ASLEEP] == 1
    assert came == 10


def test_two_threads_at_once_get_what_one_alone_gets(rng):
    """Different problems, so that a counter or a scratch array in common would show."""
    problems = [[rng.standard_normal((2, 4, n, 32)).astype(np.float32) for _ in range(3)] for n in (200, 260)]

    def both(q, k, v):
        out, log_sum = attention.forward(q, k, v, None, True, 0, 0.2)
        return out, *attention.backward(q, k, v, None, True, 0, 0.2, out, log_sum, out)

    expected = [both(*problem) for problem in problems]
    wrong = []

    def work(number):
        for _ in range(40):
            found = both(*problems[number])
            wrong.extend(not np.array_equal(a, b) for a, b in zip(found, expected[number], strict=True))

    threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 320
    assert not any(wrong)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_starts_helpers_of_its_own():
    printed = run_python("""
        import os, numpy as np
        from minitx.kernels import attention, crew
        q = np.random.default_rng(0).standard_normal((2, 4, 256, 32)).astype(np.float32)
        first = attention.forward(q, q, q, None, True, 0, 0.2)[0]
        before = len(crew._crew.helpers)
        child = os.fork()
        if child == 0:
            none = len(crew._crew.helpers)
            again = [attention.forward(q, q, q, None, True, 0, 0.2)[0] for _ in range(20)]
            same = all(np.array_equal(found, first) for found in again)
            os._exit(0 if same and none == 0 and len(crew._crew.helpers) == before else 3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert printed == "0"


def test_an_edit_in_a_helpers_file_is_seen_in_spite_of_the_cache(tmp_path):
    """The log-sum-exp's factor stands in another file than the kernel that Numba caches."""
    shutil.copytree(PACKAGE, tmp_path / "minitx", ignore=shutil.ignore_patterns("__pycache__", "course"))
    file = tmp_path / "minitx" / "kernels" / "layout.py"
    found = []
    for factor in ("0.6931471805599453", "1.0", "1.0"):
        source = file.read_text()
        line = next(line for line in source.splitlines() if line.startswith("LN_2 = "))
        file.write_text(source.replace(line, f"LN_2 = {factor}"))
        found.append(
            run_python(
                """
                import numpy as np
                from minitx.kernels import decode
                q = np.zeros((1, 1, 1, 16), np.float32)
                k = np.zeros((1, 1, 8, 16), np.float32)
                log_sum = decode.forward(q, k, k, None, False, 0, 1.0)[1]
                print(f"{log_sum.item():.3f}", sum(decode.combine.stats.cache_hits.values()))
                """,
                path=tmp_path,
                MINITX_CACHE_DIR=str(tmp_path / "cache"),
                PYTHONDONTWRITEBYTECODE="1",
            )
        )
    assert found == ["2.079 0", "3.000 0", "3.000 1"]


def test_a_second_process_compiles_nothing():
    code = """
        import numpy as np
        from minitx.kernels import attention, decode
        from minitx.kernels.attention_backward import backward_tasks
        from minitx.kernels.attention_forward import forward_tasks
        q = np.ones((2, 4, 200, 32), np.float32)
        out, log_sum = attention.forward(q, q, q, None, True, 0, 0.2)
        attention.backward(q, q, q, None, True, 0, 0.2, out, log_sum, out)
        attention.forward(q[:, :, :1], q, q, None, True, 0, 0.2)
        kernels = (forward_tasks, backward_tasks, decode.decode_tasks)
        print(sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels))
    """
    run_python(code)
    assert run_python(code).split() == ["0"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of memory from /proc")
def test_memory_beyond_inputs_and_outputs_stays_below_two_percent_of_the_scores():
    """ru_maxrss would start at the size of the process that started this one; VmHWM does not."""
    n = 8192
    printed = run_python(f"""
        import numpy as np
        from minitx.kernels import attention
        def peak():
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
        def both(n):
            q = np.ones((1, 1, n, 64), np.float32)
            out, log_sum = attention.forward(q, q, q, None, True, 0, 0.125)
            gradients = attention.backward(q, q, q, None, True, 0, 0.125, out, log_sum, out)
            return q.nbytes + out.nbytes + log_sum.nbytes + sum(gradient.nbytes for gradient in gradients)
        both(256)
        before = peak()
        kept = both({n})
        print(peak() - before - kept)
    """)
    assert int(printed) < 0.02 * n * n * 4


WIDTHS = {"AVX2": ("haswell", "+avx,+avx2,+fma", "32"), "SSE2": ("x86-64", "+sse,+sse2", "16")}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names of x86 processors")
@pytest.mark.parametrize("width", WIDTHS)
def test_narrower_vectors_give_the_same_results(width, tmp_path):
    processor, features, size = WIDTHS[width]
    printed = run_python(
        """
        import numpy as np
        from minitx.kernels import attention, attention_numpy as twin, simd
        rng = np.random.default_rng(0)
        q, k, v = (rng.standard_normal((1, 2, rows, 40)).astype(np.float32) for rows in (70, 150, 150))
        mask = rng.random((1, 1, 70, 150)) < 0.8
        arguments = (q, k, v, mask, True, 80, 0.2)
        out, log_sum = attention.forward(*arguments)
        wanted = twin.forward(*arguments)
        errors = [abs(out - wanted[0]).max(), abs(log_sum - wanted[1]).max()]
        gradients = attention.backward(*arguments, out, log_sum, out)
        exact = twin.backward(*arguments, *wanted, out)
        errors += [abs(got - right).max() for got, right in zip(gradients, exact)]
        few = (q[:, :, :2, :32], k[..., :32], v[..., :32], None, False, 0, 0.2)
        errors.append(abs(attention.forward(*few)[0] - twin.forward(*few)[0]).max())
        print(simd.VECTOR_BYTES, max(errors) < 1e-5)
        """,
        NUMBA_CPU_NAME=processor,
        NUMBA_CPU_FEATURES=features,
        MINITX_CACHE_DIR=str(tmp_path),
    )
    assert printed == f"{size} True"


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names of x86 processors")
def test_the_tail_of_gelu_is_right_where_the_host_has_no_multiply_add(tmp_path):
    """Numba's flags let LLVM make a product and a sum of `fma`, which loses what the rounding of x^2 took."""
    printed = run_python(
        """
        import math
        import numpy as np
        from minitx.kernels import layers
        x = np.linspace(-12, -4, 500).astype(np.float32)
        wanted = np.array([v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.astype(float)])
        print(max(abs(layers.gelu_forward(x, True) / wanted - 1)) < 8e-7)
        """,
        NUMBA_CPU_NAME="x86-64",
        NUMBA_CPU_FEATURES="+sse,+sse2",
        MINITX_CACHE_DIR=str(tmp_path),
    )
    assert printed == "True"


def test_importing_minitx_lets_openblas_threads_sleep_soon_unless_the_user_says_otherwise():
    """OpenBLAS reads the variable when it is loaded, so it must be there before NumPy is."""
    code = """
        import os, sys
        class Watch:
            def find_spec(self, name, *more):
                if name == "numpy":
                    print(os.environ.get("OPENBLAS_THREAD_TIMEOUT"))
        sys.meta_path.insert(0, Watch())
        import minitx
    """
    unset = "import os; os.environ.pop('OPENBLAS_THREAD_TIMEOUT', None)\n"
    assert run_python(unset + textwrap.dedent(code)) == "10"
    assert run_python(code, OPENBLAS_THREAD_TIMEOUT="20") == "20"
