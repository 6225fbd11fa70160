"""Notebooks as students have them: the release of a unit, with cells filled in."""

import json
from pathlib import Path

import pytest
from kept import put_back  # noqa: F401 - after every test here

ROOT = Path(__file__).resolve().parents[2]


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
