// Attention over six words, computed in the page: softmax(q k^T / (sqrt(d_k) temperature)) v.
"use strict";

// weights[i][j] of queries and keys given as rows; causal: query i reads keys 0 ... i.
function attentionWeights(queries, keys, causal, temperature) {
  return queries.map((query, i) => {
    const scores = keys.map((key, j) => {
      if (causal && j > i) return -Infinity;
      const product = query.reduce((sum, number, c) => sum + number * key[c], 0);
      return product / (Math.sqrt(query.length) * temperature);
    });
    const top = Math.max(...scores);
    const raised = scores.map((score) => Math.exp(score - top));
    const total = raised.reduce((sum, number) => sum + number, 0);
    return raised.map((number) => number / total);
  });
}

function weightedValues(weights, values) {
  return weights.map((row) => values[0].map((_, c) => row.reduce((sum, weight, j) => sum + weight * values[j][c], 0)));
}

// The same word gives the same vector on every machine: a small generator, seeded by its letters.
function vectorOf(word, size, salt) {
  let state = salt;
  for (const letter of word.toLowerCase()) state = (Math.imul(state ^ letter.codePointAt(0), 0x9e3779b1) >>> 0) + 1;
  return Array.from({ length: size }, () => {
    state = (Math.imul(state ^ (state >>> 15), 0x85ebca6b) + 0x6d2b79f5) >>> 0;
    return Math.round(((state / 2 ** 32) * 4.8 - 2.4) * 100) / 100;
  });
}

window.minitxPlayground = { attentionWeights, weightedValues, vectorOf };

document.querySelectorAll(".playground").forEach((box, number) => {
  const start = JSON.parse(box.querySelector("script").textContent);
  const state = structuredClone(start);
  const id = (name) => `playground-${number}-${name}`;
  box.innerHTML = `
    <div class="playground-controls">
      <label><input type="checkbox" id="${id("causal")}"> causal mask</label>
      <label>temperature <input type="range" id="${id("temperature")}" min="0.1" max="4" step="0.1" value="1">
        <output id="${id("shown")}">1.0</output></label>
      <button type="button" id="${id("reset")}">Reset</button>
    </div>
    <div class="playground-table"><table>
      <caption>Weights: row = the word that looks, column = the word it looks at</caption>
      <thead></thead><tbody></tbody></table></div>
    <fieldset class="playground-query"><legend></legend></fieldset>
    <p role="status" class="playground-output"></p>`;
  const get = (name) => document.getElementById(id(name));
  const [head, body] = [box.querySelector("thead"), box.querySelector("tbody")];
  let row = 1;

  function build() {
    head.innerHTML = `<tr><td></td>${state.words.map(() => '<th scope="col"></th>').join("")}</tr>`;
    body.replaceChildren(...state.words.map((word, i) => {
      const line = document.createElement("tr");
      line.innerHTML = `<th scope="row"><input aria-label="word ${i + 1}" size="7" maxlength="12">
        <button type="button" aria-pressed="false">query</button></th>${state.words.map(() => "<td></td>").join("")}`;
      const input = line.querySelector("input");
      input.value = word;
      input.addEventListener("input", () => rename(i, input.value.trim() || "?"));
      line.querySelector("button").addEventListener("click", () => { row = i; sliders(); draw(); });
      return line;
    }));
    sliders();
    draw();
  }

  function rename(i, word) {
    state.words[i] = word;
    state.queries[i] = vectorOf(word, start.queries[0].length, 17);
    state.keys[i] = vectorOf(word, start.keys[0].length, 91);
    state.values[i] = vectorOf(word, start.values[0].length, 5);
    sliders();
    draw();
  }

  function sliders() {
    const set = box.querySelector(".playground-query");
    set.querySelector("legend").textContent = `The query of word ${row + 1}, "${state.words[row]}"`;
    set.querySelectorAll("label").forEach((label) => label.remove());
    state.queries[row].forEach((value, c) => {
      const label = document.createElement("label");
      label.innerHTML = `q${c + 1} <input type="range" min="-3" max="3" step="0.05"> <output></output>`;
      const [input, output] = [label.querySelector("input"), label.querySelector("output")];
      input.value = value;
      output.textContent = value.toFixed(2);
      input.addEventListener("input", () => {
        state.queries[row][c] = Number(input.value);
        output.textContent = Number(input.value).toFixed(2);
        draw();
      });
      set.append(label);
    });
  }

  function draw() {
    const temperature = Number(get("temperature").value);
    get("shown").textContent = temperature.toFixed(1);
    const weights = attentionWeights(state.queries, state.keys, get("causal").checked, temperature);
    head.querySelectorAll("th").forEach((cell, j) => { cell.textContent = state.words[j]; });
    [...body.rows].forEach((line, i) => {
      line.querySelector("button").setAttribute("aria-pressed", String(i === row));
      line.querySelectorAll("td").forEach((cell, j) => {
        cell.textContent = weights[i][j] === 0 ? "–" : weights[i][j].toFixed(2);
        cell.style.setProperty("--weight", weights[i][j].toFixed(3));
      });
    });
    const [x, y] = weightedValues(weights, state.values)[row];
    box.querySelector(".playground-output").textContent =
      `Output of "${state.words[row]}": (${x.toFixed(2)}, ${y.toFixed(2)}), the average of all values with these weights.`;
  }

  get("causal").addEventListener("change", draw);
  get("temperature").addEventListener("input", draw);
  get("reset").addEventListener("click", () => {
    Object.assign(state, structuredClone(start));
    get("causal").checked = false;
    get("temperature").value = 1;
    row = 1;
    build();
  });
  build();
});
