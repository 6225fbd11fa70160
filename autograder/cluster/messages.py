"""What travels between the coordinator and a worker: bytes, which neither end takes for anything else.

Dask moves arguments and results with pickle. A `bytes` object that was pickled can only become a `bytes`
object again: whatever a student has put into a notebook, it is never unpickled itself. What is inside is
read as JSON. Neither a student's name nor a number that stands for it goes along.
"""

from __future__ import annotations

import json

from autograder.assessing import Judged
from autograder.intake import Intake


class Refusal(Exception):
    """A worker does not judge, and says why."""


def pack_job(taken: Intake, seed: bytes) -> bytes:
    """One submission: a line of JSON, then the notebook as it was handed in."""
    header = {
        "seed": seed.hex(),
        "notes": taken.notes,
        "problem": taken.problem,
        "notebook": taken.notebook_bytes is not None,
    }
    return json.dumps(header).encode() + b"\n" + (taken.notebook_bytes or b"")


def unpack_job(job: bytes) -> tuple[Intake, bytes]:
    """The submission and its seed."""
    line, _, notebook = job.partition(b"\n")
    header = json.loads(line)
    taken = Intake(notebook if header["notebook"] else None, header["notes"], header["problem"])
    return taken, bytes.fromhex(header["seed"])


def pack_judged(judged: Judged) -> bytes:
    return json.dumps({"judged": judged.to_json()}).encode()


def pack_described(text: str) -> bytes:
    """What a worker that has proved itself says of its sandbox."""
    return json.dumps({"described": text}).encode()


def pack_refusal(reason: str) -> bytes:
    return json.dumps({"refused": reason}).encode()


def unpack_judged(answer: object, student: str) -> Judged:
    """The judgement on this student's submission. Raises `Refusal`."""
    judged = Judged.from_json(_unpack(answer, "judged"))
    judged.student = student
    return judged


def unpack_described(answer: object) -> str:
    """Raises `Refusal`."""
    return _unpack(answer, "described")


def _unpack(answer: object, kind: str) -> str:
    if type(answer) is not bytes:
        raise TypeError(f"expected bytes from a worker, got {type(answer).__name__}")
    found = json.loads(answer)
    if "refused" in found:
        raise Refusal(found["refused"])
    return found[kind]
