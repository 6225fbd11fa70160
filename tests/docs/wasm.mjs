// Python in WebAssembly, under Node, without a browser and without the network:
//   node wasm.mjs PYODIDE PROGRAM.py REQUEST.json WHEEL...
// PYODIDE is npm's package of that name, unpacked. The wheels are unpacked into its Python, and the program finds
// the request's text as REQUEST.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [place, program, request, ...wheels] = process.argv.slice(2);
try {
  const { loadPyodide } = await import(pathToFileURL(resolve(place, "pyodide.mjs")));
  const pyodide = await loadPyodide({ indexURL: resolve(place) });
  for (const wheel of wheels) pyodide.unpackArchive(new Uint8Array(readFileSync(wheel)), "wheel");
  pyodide.globals.set("REQUEST", readFileSync(request, "utf8"));
  await pyodide.runPythonAsync(readFileSync(program, "utf8"), { filename: program });
} catch (error) {
  // An error that is not caught would print the line of Pyodide's script as well: a megabyte.
  console.error(error.message);
  process.exitCode = 1;
}
