"""The site, built once, served on this machine, and a real browser that may ask nobody else."""

import contextlib
import http.server
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from kept import put_back  # noqa: F401 - after every test here

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Nothing: pytest's output is for tests."""

    def copyfile(self, source, outputfile):
        """A browser that has gone to another page does not wait for what is left of this one."""
        with contextlib.suppress(ConnectionError):
            super().copyfile(source, outputfile)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder of the built site; warnings are errors."""
    pytest.importorskip("sphinx_book_theme")
    if not (ROOT / "docs/_vendor/mathjax/tex-chtml.js").is_file():
        if shutil.which("npm") is None:
            pytest.skip("MathJax is not there, and npm is not installed")
        subprocess.run([sys.executable, ROOT / "docs/vendor.py", "mathjax", "axe-core"], check=True)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def address(built):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser, address, request):
    """A fresh page; a request to another host, or an error in the page's scripts, fails the test."""
    options = getattr(request, "param", {})
    context = browser.new_context(**options)
    opened = context.new_page()
    strangers, errors = [], []
    opened.on(
        "request",
        lambda one: None if one.url.startswith((address, "data:", "blob:")) else strangers.append(one.url),
    )
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert strangers == []
    assert errors == []
