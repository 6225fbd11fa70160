"""Notebooks as students have them: the release of a unit, with cells filled in."""

import json
import sys
from pathlib import Path

import pytest

from minitx import kernels
from minitx.course import check

# Not what a test finds: a fixture of its module may have run a notebook, which chooses its kernels, before.
BEFORE = kernels.backend()
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def put_back():
    """Kernels, key and figures as the tests' process had them."""
    yield
    check.use_key(b"practice")
    kernels.use(BEFORE)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """A function that writes exercises/attention/attention.ipynb with some solution cells replaced."""
    monkeypatch.setenv("MINITX_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    release = json.loads((ROOT / "exercises/attention/attention.ipynb").read_text())

    def write(**cells):
        for cell in release["cells"]:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id")
            if name in cells:
                cell["source"] = cells[name]
        path = tmp_path / "exercises" / "attention" / "attention.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(release))
        return path

    return write
