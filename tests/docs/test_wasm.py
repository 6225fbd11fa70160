"""minitx in WebAssembly, without a browser: npm's Pyodide under Node.

`python docs/vendor.py pyodide numpy-for-pyodide` fetches what these tests need. Another NumPy for Pyodide 0.27.7
may be named by MINITX_PYODIDE_NUMPY, the path of its wheel.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
WASM = ROOT / "docs/_wasm"
UNITS = [path.stem for path in sorted((ROOT / "exercises").glob("*/*.ipynb"))]
STATES = ("solved", "untouched")
# What a notebook's own text needs, and what a page must be able to read before NumPy is there.
WITHOUT_NUMPY = ["errors", "course.subtests", "course.definitions", "course.workbook", "course.questions"]


def pyodide(name):
    """The folder of an unpacked Pyodide, or a skip that says what is missing."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not (WASM / name / "pyodide.mjs").is_file():
        pytest.skip(f"{name} is not there: python docs/vendor.py {name}")
    return WASM / name


def in_wasm(folder, program, request, *wheels):
    """What a program of this folder answers in Pyodide's Python, with the wheels unpacked."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as asked:
        json.dump(request, asked)
        asked.flush()
        command = ["node", HERE / "wasm.mjs", folder, HERE / program, asked.name, *wheels]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """minitx as the page for the browser gets it."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import lite
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return lite.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def numpy_wheel():
    folder = pyodide("pyodide-with-numpy")
    named = os.environ.get("MINITX_PYODIDE_NUMPY")
    found = [Path(named)] if named else sorted(folder.glob("numpy-*.whl"))
    if not found or not found[0].is_file():
        pytest.skip("NumPy for Pyodide is not there: python docs/vendor.py numpy-for-pyodide")
    return found[0]


def cells_of(unit, solved):
    """A unit's cells for `minitx.course.worker`: as released, or with the reference in the solution cells."""
    build = pytest.importorskip("autograder.release").build
    from minitx.course.workbook import read

    spec = build(ROOT / "solutions" / unit).spec
    cells = [cell for cell in read(ROOT / "exercises" / unit / f"{unit}.ipynb").cells if cell.is_code]
    return [
        {
            "name": cell.name,
            "kind": cell.kind,
            "source": spec.cell(cell.name).source if solved and cell.kind == "solution" else cell.source,
        }
        for cell in cells
    ]


def test_every_module_compiles_where_the_page_runs_it_and_the_text_needs_no_numpy(wheel):
    answer = in_wasm(pyodide("pyodide"), "wasm_modules.py", WITHOUT_NUMPY, wheel)
    assert answer["platform"] == "emscripten"
    assert answer["imported"] == WITHOUT_NUMPY
    files = [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("minitx/")]
    assert len(answer["compiled"]) == sum(name.endswith(".py") for name in files) > 100
    print(f"\nPython {answer['python']} in wasm: {len(answer['compiled'])} modules compiled")


def test_every_units_visible_tests_pass_in_wasm_with_the_reference_and_none_without(wheel, numpy_wheel):
    cells = {f"{unit}, {state}": cells_of(unit, state == "solved") for unit in UNITS for state in STATES}
    answer = in_wasm(pyodide("pyodide-with-numpy"), "wasm_units.py", cells, numpy_wheel, wheel)
    assert (answer["platform"], answer["kernels"]) == ("emscripten", "numpy")
    print(f"\nNumPy {answer['numpy']} in wasm:")
    for unit in UNITS:
        solved, untouched = (answer["units"][f"{unit}, {state}"] for state in STATES)
        assert [one for one in solved if one["event"] != "test" or one["status"] != "passed"] == [], unit
        titles = [one["title"] for one in solved]
        assert titles, unit
        assert [one["title"] for one in untouched if one["event"] == "test"] == titles, unit
        assert "passed" not in [one.get("status") for one in untouched], unit
        print(f"  {unit}: {len(titles)} visible tests pass with the reference, 0 as released")
