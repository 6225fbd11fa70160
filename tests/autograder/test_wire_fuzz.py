"""Whatever bytes a sandbox sends, the test runner ends in a verdict, and the coordinator can write it down.

A hostile peer is played by a channel that answers each request with the next frame of a script. Frames
are near-valid by design: it is the almost right ones that get far. `pytest -m long` tries 10,000.
"""

from __future__ import annotations

import builtins
import io
import json
import struct
from dataclasses import replace
from pathlib import Path

import nbformat
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.autograded import autograded_notebook
from autograder.cells import Cell
from autograder.judging import Judge
from autograder.pace import Pace
from autograder.release import build
from autograder.repair import repair
from autograder.sandbox import wire
from autograder.sandbox.client import Ending, Sandbox, SandboxDied
from autograder.sandbox.environment import Limits
from autograder.sandbox.proxy import Remote, StudentRaised
from autograder.verdict import CellRun, Verdict

UNIT = Path(__file__).parent / "hostile" / "unit" / "guarded"
MATCH = "the id that was asked"


class Script(wire.Channel):
    """Answers from a list of frames; what is asked is read only for its id."""

    def __init__(self, frames):
        self.frames = frames  # shared between the sandboxes of one submission
        self.bytes = io.BytesIO()
        self.asked = 0

    def send(self, frame, deadline=None):
        size, _ = wire.LENGTHS.unpack(frame[:8])
        self.asked = json.loads(frame[8 : 8 + size])["id"]

    def receive(self, deadline=None):
        if self.bytes.tell() == len(self.bytes.getvalue()):
            if not self.frames:
                raise wire.Closed
            self.bytes = io.BytesIO(self.frames.pop(0)(self.asked))
        return super().receive(deadline)

    def close(self):
        pass

    def _exactly(self, size, deadline):
        data = self.bytes.read(size)
        if len(data) < size:
            raise wire.Closed
        return data


class Peer:
    """A back-end whose sandboxes all answer from one script."""

    name, limits, layers = "script", Limits(), ()

    def __init__(self, frames):
        self.frames = frames
        self.spawned = 0

    def spawn(self):
        self.spawned += 1
        return Sandbox(self, self.spawned, Script(self.frames))

    def kill(self, job):
        pass

    def end_of(self, job):
        return Ending(9)

    def close(self):
        pass


# What comes nearly right: nodes of every kind, with fields of every other kind in them.
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 40)
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(), max_size=6)
    | st.sampled_from(
        ["array", "scalar", "handle", "callback", "<f8", "|O8", "|b1", "<c16", "ff", "\ud800", "\x1b[2J"]
    )
)
TAGS = "array scalar list tuple set frozenset dict slice bytes ellipsis int complex handle callback object".split()
NODES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.fixed_dictionaries({"t": st.sampled_from(TAGS), "v": inner | st.lists(inner, max_size=4)})
        | st.builds(
            lambda tag, dtype, shape, span: {"t": tag, "d": dtype, "s": shape, "v": span},
            st.sampled_from(["array", "scalar"]),
            st.sampled_from(
                ["<f8", "|u1", "|b1", "<c16", ">i4", "<f2", "|V8", "<M8", "2f8", "|O8", "", "<f99"]
            ),
            st.lists(st.integers(0, 4), max_size=3) | inner,
            st.lists(st.integers(0, 64), min_size=2, max_size=2) | inner,
        )
        | st.dictionaries(st.sampled_from(["t", "v", "d", "s", "class", "callable"]), inner, max_size=4)
    ),
    max_leaves=10,
)
OUTPUTS = st.lists(
    NODES
    | st.dictionaries(
        st.sampled_from(
            [
                "output_type",
                "name",
                "text",
                "data",
                "metadata",
                "execution_count",
                "ename",
                "evalue",
                "traceback",
            ]
        ),
        NODES
        | st.sampled_from(["stream", "error", "display_data", "execute_result", "stdout"])
        | st.lists(st.text(), max_size=2),
        max_size=6,
    )
    | st.builds(
        lambda text: {"output_type": "stream", "name": "stdout", "text": text}, st.text(st.characters())
    ),
    max_size=3,
)
RAISED = NODES | st.fixed_dictionaries(
    {
        "class": NODES,
        "bases": st.lists(st.sampled_from([*dir(builtins), "OutOfTime", "\ud800"]) | NODES, max_size=4)
        | NODES,
        "text": NODES,
    }
)
HEADERS = NODES | st.fixed_dictionaries(
    {"id": st.just(MATCH) | st.just(MATCH) | st.just(MATCH) | NODES},
    optional={
        "worked": st.just(True) | NODES,
        "error": st.sampled_from(["MemoryError", "OutputLimit", "ValueError"]) | NODES,
        "outputs": OUTPUTS | st.just([]) | NODES,
        "value": NODES,
        "changed": st.just([]) | st.lists(st.tuples(st.integers(-1, 3), NODES).map(list), max_size=3) | NODES,
        "raised": RAISED,
        "limit": st.sampled_from(["memory", "output"]) | NODES,
        "callback": st.integers(-1, 2) | NODES,
        "args": st.lists(NODES, max_size=3) | NODES,
    },
)
GOOD = st.builds(
    lambda value: {"id": MATCH, "worked": True, "outputs": [], "value": value, "changed": []},
    NODES | st.just({"t": "handle", "v": 0, "class": "function", "callable": True}),
)


def packed(header, blob, damage):
    """A function from the id asked for to the bytes sent: truncated, oversized or as they should be."""

    def send(asked):
        fixed = {**header, "id": asked} if isinstance(header, dict) and header.get("id") == MATCH else header
        text = json.dumps(fixed).encode()
        kind, number = damage
        lengths = [len(text), len(blob)]
        if kind == "lengths":
            lengths[number % 2] = [0, 1, 2**32 - 1, wire.MAX_HEADER, wire.MAX_BLOB + 1][number % 5]
        frame = struct.pack("!II", *lengths) + text + blob
        if kind == "cut":
            return frame[: number % (len(frame) + 1)]
        if kind == "flip":
            place = number % len(frame)
            return frame[:place] + bytes([frame[place] ^ (1 + number % 255)]) + frame[place + 1 :]
        return frame * 2 if kind == "twice" else frame

    return send


DAMAGE = st.just(("none", 0)) | st.tuples(
    st.sampled_from(["none", "none", "lengths", "cut", "flip", "twice"]), st.integers(0, 10_000)
)
FRAMES = st.lists(
    st.builds(packed, GOOD | HEADERS, st.binary(max_size=64), DAMAGE)
    | st.binary(min_size=1, max_size=40).map(lambda data: lambda asked: data),
    min_size=1,
    max_size=12,
)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
LONG = settings(QUICK, max_examples=5000, derandomize=False)


@pytest.fixture(scope="module")
def built():
    return build(UNIT)


def one_request(frames):
    """Each kind of request meets the frames; every way out is one that the judge knows."""
    sandbox = Peer(list(frames)).spawn()
    remote = Remote(sandbox, 0, "function", "f")
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    for ask in (
        lambda: sandbox.run_cell("1"),
        lambda: sandbox.get("name"),
        lambda: remote(np.zeros(2), [1], {"a": 1}, read_only, lambda *a: a, key=2),
        lambda: remote.attribute,
        lambda: remote + 1,
        lambda: len(remote),
    ):
        try:
            answer = ask()
        except (StudentRaised, SandboxDied) as error:
            str(error).encode()
        except TypeError as error:
            assert "expected a length" in str(error)
        else:
            repr(answer).encode()


def whole_submission(built, frames):
    """Runner, then coordinator: a verdict that can be sent, stored, written into a notebook and shown."""
    judge = Judge(built.spec, Peer(list(frames)), Pace(cell=5, part=2, after_time_out=0.5, run=20))
    cells = [
        Cell("imports", "student", "1"),
        Cell("answer", "student", "2"),
        *[Cell(f"test-{n}", "test", "") for n in ("total", "scaled")],
    ]
    verdict = judge.judge(cells, b"fuzz")
    assert 0 <= verdict.total <= 7
    sent = json.loads(json.dumps({"verdict": verdict.to_json()}))
    back = Verdict.from_json(sent["verdict"])
    verdict.to_json().encode()
    repaired = repair(nbformat.from_dict(built.released_notebook), built.spec).notebook
    written = autograded_notebook(repaired, back, built.spec, ["note"])
    nbformat.validate(written)
    nbformat.v4.writes(written).encode()


@QUICK
@given(FRAMES)
def test_no_frame_gets_past_the_runner_s_end_of_the_socket(frames):
    one_request(frames)


@settings(QUICK, max_examples=40)
@given(frames=FRAMES)
def test_no_script_of_frames_stops_the_judgement_or_the_writing_down(built, frames):
    whole_submission(built, frames)


@pytest.mark.long
@pytest.mark.timeout(3600)
@LONG
@given(FRAMES)
def test_five_thousand_scripts_for_single_requests(frames):
    one_request(frames)


@pytest.mark.long
@pytest.mark.timeout(3600)
@LONG
@given(frames=FRAMES)
def test_five_thousand_scripts_for_whole_submissions(built, frames):
    whole_submission(built, frames)


def test_the_script_itself_can_give_a_right_answer(built):
    """The fuzz would find nothing if no frame ever got as far as a test."""
    values = iter([{"t": "handle", "v": 0, "class": "function", "callable": True}, 3.0])
    good = [
        lambda asked, value=value: wire.pack(
            {"id": asked, "worked": True, "outputs": [], "value": value, "changed": []}, []
        )
        for value in ("", "", *values)
    ]
    judge = Judge(built.spec, Peer(good), replace(Pace(), cell=5))
    verdict = judge.judge(
        [Cell("imports", "student", "1"), Cell("answer", "student", "2"), Cell("test-total", "test", "")],
        b"k",
    )
    assert next(test.outcome for test in verdict.tests["test-total"]) == "OK"
    assert verdict.cells["answer"] == CellRun("OK", [])
