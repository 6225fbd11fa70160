"""Build the exercises as a page that runs them in the browser: JupyterLite with a Pyodide kernel.

    python docs/lite.py docs/_build/html/lite

minitx lies beside the page as a wheel, and its NumPy twins take the place of Numba's kernels. The browser
fetches Python and NumPy from Pyodide's own distribution, so the learner needs the network. What is written
stays in the browser.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from minitx.course.workbook import all_units

ROOT = Path(__file__).resolve().parents[1]
INSTALL = """\
# In the browser: takes minitx from this site and the rest from Pyodide. Anywhere else it does nothing.
import sys
if sys.platform == "emscripten":
    %pip install -q minitx matplotlib"""


def build(output: Path) -> None:
    """Write the page into `output`. Raises CalledProcessError where a tool fails, with what it said."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        wheel = build_wheel(work / "wheel")
        contents = work / "exercises"
        contents.mkdir()
        for notebook in all_units(ROOT):
            (contents / notebook.name).write_text(for_the_browser(notebook), encoding="utf-8")
        # Only the kernel: other extensions of this environment, as nbgrader's, need a server.
        kernel = Path(sys.prefix) / "share/jupyter/labextensions/@jupyterlite/pyodide-kernel-extension"
        only = {"ignore_sys_prefix": ["federated_extensions"], "federated_extensions": [str(kernel)]}
        (work / "jupyter_lite_config.json").write_text(json.dumps({"LiteBuildConfig": only}))
        command = ("jupyter", "lite", "build", "--lite-dir", work, "--contents", contents)
        run(work, *command, "--output-dir", output.resolve(), "--piplite-wheels", wheel)


def build_wheel(folder: Path) -> Path:
    """minitx as a wheel in `folder`. Raises CalledProcessError where pip fails."""
    # pip builds in the folder of the source, and would leave its own files there.
    source = folder / "source"
    for part in ("minitx", "autograder"):
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy2(ROOT / part, source / part)
    run(folder, "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("minitx-*-py3-none-any.whl")
    return wheel


def for_the_browser(notebook: Path) -> str:
    """The notebook with a first cell that installs minitx where the kernel runs in a browser."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    cell = {
        "cell_type": "code",
        "id": "in-the-browser",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
    }
    content["cells"].insert(0, {**cell, "source": INSTALL})
    return json.dumps(content, indent=1)


def run(folder: Path, tool: str, *arguments: str | Path) -> None:
    """A tool of this environment, in a folder; what it says is shown only where it fails."""
    command = [sys.executable, "-m", tool, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        done.check_returncode()


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("Say where to: python docs/lite.py docs/_build/html/lite")
    try:
        build(Path(sys.argv[1]))
    except subprocess.CalledProcessError as error:
        sys.exit(f"The page was not built: {' '.join(error.cmd[2:5])} ended with code {error.returncode}.")


if __name__ == "__main__":
    main()
