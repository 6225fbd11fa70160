"""minitx beside its peers, timed in turn in one run: what `minitx bench` prints.

Each row is {"workload", "size", "minitx_ms", "peer", "peer_ms", "ratio", "goal", "limit_share", "max_error"}:
medians of both sides; ratio = peer_ms / minitx_ms; goal = the ratio aimed at; limit_share = share of the
machine's limit (multiply-adds or, when decoding, reading of memory), measured in the same run.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

Step = tuple[str, Callable[[], list[dict[str, Any]]]]


def plan(what: str) -> tuple[list[Step], list[str]]:
    """The measurements of `what`, and the peers that are missing.

    what: "attention", "decode", "train", "layers" or "all".

    Raises ImportError where Numba is missing, and ValueError where the twins were chosen: they are not what
    is measured.
    """
    from minitx import kernels
    from minitx.bench import attention, decode, layers, startup, train

    if kernels.backend() != "numba":
        raise ValueError("the NumPy twins are in use. Unset MINITX_KERNELS, or set it to numba.")
    steps: list[Step] = []
    missing = [] if find_spec("torch") else ["PyTorch (torch)"]
    for work in attention.WORKLOADS:
        group = "decode" if work.both_goal is None else "attention"
        if not missing and what in (group, "all"):
            steps.append((f"{work.name} {work.size}", partial(attention.measure, work)))
    if not missing and what in ("decode", "all"):
        steps += decode.steps()
    if what in ("attention", "all"):
        steps.append(("start-up", startup.measure))
        steps.append(("four lines of NumPy", attention.measure_four_lines))
        if not missing:
            steps.append(("mixed work", attention.measure_mixed))
    if not missing and what in ("train", "all"):
        steps += train.steps()
    if not missing and what in ("layers", "all"):
        steps += layers.steps()
    return steps, missing
