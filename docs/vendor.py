"""Fetch MathJax (and, for the browser tests, axe-core) from npm into docs/_vendor, which is not committed.

    python docs/vendor.py mathjax axe-core

The site itself asks no other host for anything: formulas are set by the copy that lies beside the pages.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VENDOR = Path(__file__).parent / "_vendor"
# {name: (npm package and version, {path in the package: path here})}
PACKAGES = {
    "mathjax": (
        "mathjax@3",
        {
            "es5/tex-chtml.js": "mathjax/tex-chtml.js",
            "es5/output/chtml/fonts/woff-v2": "mathjax/output/chtml/fonts/woff-v2",
            "es5/input/tex/extensions": "mathjax/input/tex/extensions",
            "LICENSE": "mathjax/LICENSE",
        },
    ),
    "axe-core": ("axe-core@4", {"axe.min.js": "axe-core/axe.min.js", "LICENSE": "axe-core/LICENSE"}),
}


def fetch(name: str) -> None:
    """Put one package's files in their places, unless they are there."""
    package, files = PACKAGES[name]
    if all((VENDOR / target).exists() for target in files.values()):
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
            place = VENDOR / target
            place.parent.mkdir(parents=True, exist_ok=True)
            found = Path(folder) / "package" / source
            if found.is_dir():
                shutil.copytree(found, place, dirs_exist_ok=True)
            else:
                shutil.copy(found, place)


def version_of(archive: Path) -> tuple[int, ...]:
    """(3, 2, 2) of mathjax-3.2.2.tgz."""
    numbers = archive.stem.rsplit("-", 1)[-1].split(".")
    return tuple(int(number) for number in numbers if number.isdigit())


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        fetch(wanted)
