// One question at a time, explained as soon as an option is chosen. Answers stay in the reader's browser.
"use strict";

document.querySelectorAll(".quiz").forEach((box) => {
  const questions = JSON.parse(box.querySelector("script").textContent);
  const key = `minitx-quiz-${box.dataset.name}`;
  const answers = read();
  let at = Math.max(0, questions.findIndex((question) => !(question.id in answers)));

  function read() {
    try {
      const kept = JSON.parse(localStorage.getItem(key)) || {};
      const known = questions.filter((q) => Number.isInteger(kept[q.id]) && q.options[kept[q.id]]);
      return Object.fromEntries(known.map((q) => [q.id, kept[q.id]]));
    } catch {
      return {}; // no storage, or nothing of ours in it
    }
  }

  function keep() {
    try {
      localStorage.setItem(key, JSON.stringify(answers));
    } catch {
      // Without storage the quiz works, and begins anew on the next visit.
    }
  }

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    Object.entries(attributes).forEach(([attribute, value]) => made.setAttribute(attribute, value));
    made.append(...children);
    return made;
  }

  function button(text, act) {
    const made = element("button", { type: "button" }, text);
    made.addEventListener("click", act);
    return made;
  }

  const count = element("p", { class: "quiz-count", "aria-live": "polite" });
  const place = element("div", {});
  box.replaceChildren(count, place);

  function feedback(question) {
    const option = question.options[answers[question.id]];
    const word = element("strong", {}, option.right ? "Right." : "Not quite.");
    return element("p", { class: option.right ? "quiz-right" : "quiz-wrong", role: "status" }, word, ` ${option.feedback}`);
  }

  function choose(question, number) {
    answers[question.id] = number;
    keep();
    show(`${key}-${question.id}-${number}`);
  }

  function options(question) {
    const set = element("fieldset", {}, element("legend", {}, `Question ${at + 1} of ${questions.length}. ${question.text}`));
    question.options.forEach((option, number) => {
      const id = `${key}-${question.id}-${number}`;
      const input = element("input", { type: "radio", name: `${key}-${question.id}`, id });
      input.checked = answers[question.id] === number;
      input.addEventListener("change", () => choose(question, number));
      set.append(element("label", { for: id }, input, element("span", {}, option.text)));
    });
    return set;
  }

  function steps() {
    const row = element("div", { class: "quiz-steps" });
    if (at > 0) row.append(button("Previous", () => go(at - 1)));
    if (at + 1 < questions.length) row.append(button("Next", () => go(at + 1)));
    if (Object.keys(answers).length) row.append(button("Start again", restart));
    return row;
  }

  function go(number) {
    at = number;
    show();
    place.querySelector("input:checked, input").focus();
  }

  function restart() {
    Object.keys(answers).forEach((id) => delete answers[id]);
    keep();
    go(0);
  }

  function show(focused) {
    const question = questions[at];
    const done = Object.keys(answers).length;
    count.textContent = `${done} of ${questions.length} answered`;
    place.replaceChildren(options(question));
    if (question.id in answers) place.append(feedback(question));
    if (done === questions.length) {
      const right = questions.filter((q) => q.options[answers[q.id]].right).length;
      place.append(element("p", { class: "quiz-result" }, `Your result: ${right} of ${questions.length} right.`));
    }
    place.append(steps());
    if (focused) document.getElementById(focused).focus();
  }

  show();
});
