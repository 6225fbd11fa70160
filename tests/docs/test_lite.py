"""The exercises in the browser: what the page holds, and that it opens. Its Python needs the network."""

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("jupyterlite_core")
pytest.importorskip("jupyterlite_pyodide_kernel")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lite(built):
    """The folder of the page, inside the site, whose server serves it too."""
    command = [sys.executable, ROOT / "docs/lite.py", built / "lite"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return built / "lite"


def test_every_unit_is_there_with_one_cell_more_that_only_a_browser_runs(lite):
    released = {path.name: path for path in (ROOT / "exercises").glob("*/*.ipynb")}
    assert {path.name for path in (lite / "files").glob("*.ipynb")} == set(released)
    for name, path in released.items():
        first, *rest = json.loads((lite / "files" / name).read_text())["cells"]
        assert rest == json.loads(path.read_text())["cells"]
        ran = []
        exec(first["source"].replace("%pip", "ran.append('pip') #"), {"ran": ran})
        assert ran == []


def test_the_wheel_beside_the_page_is_pure_python_and_whole(lite):
    (wheel,) = (lite / "pypi").glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    listed = json.loads((lite / "pypi" / "all.json").read_text())["minitx"]["releases"]
    ((told,),) = listed.values()
    assert told["digests"]["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    names = set(zipfile.ZipFile(wheel).namelist())
    for file in (ROOT / "minitx").rglob("*"):
        if file.suffix in (".py", ".json", ".safetensors"):
            assert str(file.relative_to(ROOT)) in names


def test_the_page_opens_and_lists_the_units(lite, browser, address):
    page = browser.new_page()
    page.goto(f"{address}/lite/tree/index.html")
    page.get_by_text("attention.ipynb").first.wait_for(timeout=60_000)
    for path in (ROOT / "exercises").glob("*/*.ipynb"):
        assert page.get_by_text(path.name, exact=True).count() == 1
    assert page.get_by_text("Nbgrader", exact=True).count() == 0  # needs a server
    page.close()


def test_without_a_place_it_says_which_one_to_give():
    done = subprocess.run(
        [sys.executable, ROOT / "docs/lite.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "python docs/lite.py docs/_build/html/lite" in done.stderr
