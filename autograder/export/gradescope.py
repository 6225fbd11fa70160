"""Gradescope: results.json for a submission, and the zip archive that grades there.

https://gradescope-autograders.readthedocs.io (specs: `setup.sh` and `run_autograder` at the root of the
archive; /autograder/source, /autograder/submission, /autograder/results/results.json)
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.metadata
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from autograder.assessing import Judged, status_of
from autograder.errors import StoppedError
from autograder.remarks import STATUS, remarks_on
from autograder.spec import Spec

ROOT = Path(__file__).resolve().parents[2]
_NEEDED = ("numpy", "matplotlib", "ipython", "nbformat", "pyseccomp")

SETUP = """#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image (Ubuntu 22.04 or newer).
set -euo pipefail
ROOT="${AUTOGRADER_ROOT:-/autograder}"
SOURCE="$ROOT/source"

find_python() {
  for name in ${AUTOGRADER_PYTHON:-python3.13 python3.12 python3.11}; do
    if command -v "$name" >/dev/null && "$name" -c 'import venv, ensurepip' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
}

PYTHON="$(find_python)"
if [ -z "$PYTHON" ]; then
  apt-get update
  apt-get install -y --no-install-recommends libseccomp2 python3.12 python3.12-venv ||
    apt-get install -y --no-install-recommends libseccomp2 python3.11 python3.11-venv
  PYTHON="$(find_python)"
fi
"$PYTHON" -m venv "$ROOT/venv"
"$ROOT/venv/bin/python" -m pip install --quiet -r "$SOURCE/requirements.txt"
SITE="$("$ROOT/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
cp -r "$SOURCE/packages/." "$SITE/"
# Hidden tests are in here.
chmod -R go-rwx "$SOURCE"
"""

RUN = """#!/usr/bin/env bash
# Gradescope runs this for each submission.
ROOT="${AUTOGRADER_ROOT:-/autograder}"
exec "$ROOT/venv/bin/python" -I -m autograder.export.gradescope_run "$ROOT"
"""


def results_of(judged: Judged, spec: Spec) -> dict[str, Any]:
    """The content of results.json for one judged submission.

    Every test is shown with its title, points and hint, and of a hidden one nothing more, as in the feedback.
    """
    verdict, tests = judged.verdict, []
    for grade_id, marks in verdict.tests.items():
        for number, test in enumerate(marks, 1):
            remarks = [f"{label}: {text}" if label else text for label, text in remarks_on(test, spec)]
            tests.append(
                {
                    "name": test.title,
                    "number": f"{grade_id}.{number}",
                    "score": test.points,
                    "max_score": test.max_points,
                    "status": "passed" if test.outcome == "OK" else "failed",
                    "output": "\n".join([STATUS[test.outcome], *remarks]),
                    "output_format": "text",
                    "tags": ["hidden"] if test.hidden else [],
                    "visibility": "visible",
                }
            )
    automatic = sum(cell.points for cell in spec.cells if cell.kind == "test")
    _, message = status_of(judged, automatic)
    looks_like = verdict.looks_like
    said = [message, *(note for note in judged.told if note != message)]
    if looks_like is not None:
        start = "Your answer does what this idea would do" if looks_like.certain else "Perhaps you think"
        said.append(f"{start} ({looks_like.name}): {looks_like.belief} {looks_like.advice}")
    return {
        "score": verdict.total,
        "execution_time": round(verdict.seconds, 3),
        "output": "\n".join(said),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {"unit": spec.unit, "spec": spec.digest, "looks_like": looks_like and looks_like.name},
        "tests": tests,
    }


def write_zip(spec: Spec, course_key: bytes, path: Path, *, unsafe: bool = False) -> Path:
    """The autograder archive for one unit: upload it as the assignment's autograder.

    It holds the hidden tests and a key of its own, made from the course's; not the course's key. With
    `unsafe`, it grades also where no sandbox can be made.
    """
    key = hmac.digest(course_key, f"gradescope\0{spec.unit}".encode(), hashlib.sha256)
    config = {"unit": spec.unit, "key": key.hex(), "sandbox": "none" if unsafe else "auto"}
    requirements = [f"{name}=={importlib.metadata.version(name)}" for name in _NEEDED]
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            _put(archive, "setup.sh", SETUP, 0o755)
            _put(archive, "run_autograder", RUN, 0o755)
            _put(archive, "config.json", json.dumps(config, indent=1), 0o600)
            _put(archive, "spec.json", spec.to_json(), 0o600)
            _put(archive, "requirements.txt", "\n".join(requirements) + "\n", 0o644)
            for package in ("autograder", "minitx"):
                for source in sorted((ROOT / package).rglob("*")):
                    if source.is_file() and "__pycache__" not in source.parts:
                        name = f"packages/{source.relative_to(ROOT).as_posix()}"
                        _put(archive, name, source.read_bytes(), 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise StoppedError(f"{path} cannot be written: {error.strerror}. Choose another place.") from None
    return path


def _put(archive: zipfile.ZipFile, name: str, content: str | bytes, mode: int) -> None:
    """One file, always with the same date: the same unit gives the same archive."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = (0o100000 | mode) << 16
    info.create_system = 3  # Unix, or the modes mean nothing
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)
