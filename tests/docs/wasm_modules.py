"""Runs in WebAssembly, without NumPy: every module of minitx is compiled, and imported where it needs none."""

import importlib
import json
import sys
from pathlib import Path

package = Path(next(path for path in sys.path if (Path(path) / "minitx").is_dir())) / "minitx"
answer = {"python": sys.version_info[:2], "platform": sys.platform, "compiled": [], "imported": []}
for file in sorted(package.rglob("*.py")):
    name = ".".join(file.relative_to(package.parent).with_suffix("").parts)
    compile(file.read_text(encoding="utf-8"), name, "exec")
    answer["compiled"].append(name)
# The package itself imports NumPy; a module that needs none is reached without running its __init__.
for name in ("minitx", "minitx.course"):
    module = type(sys)(name)
    module.__path__ = [str(package.joinpath(*name.split(".")[1:]))]
    sys.modules[name] = module
for name in json.loads(REQUEST):  # noqa: F821 - the page that runs this puts it there
    importlib.import_module(f"minitx.{name}")
    answer["imported"].append(name)
print(json.dumps(answer))
