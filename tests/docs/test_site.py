"""The site in a real browser: quiz, playground, figures, every page's accessibility and links."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import minitx.functional as F
from minitx import Tensor
from minitx.course.questions import all_questions

ROOT = Path(__file__).resolve().parents[2]
NONE = "\N{EN DASH}"  # how the playground shows a weight of zero
QUESTIONS = [question for question in all_questions() if question.group == "quiz"]


def right(question):
    return [option.is_right for option in question.options].index(True)


def test_the_quiz_by_mouse_with_right_and_wrong_choices_and_a_reload(page, address):
    page.goto(f"{address}/attention.html")
    quiz = page.locator(".quiz")
    assert quiz.locator(".quiz-count").inner_text() == "0 of 5 answered"
    for number, question in enumerate(QUESTIONS):
        choice = right(question) if number % 2 == 0 else (right(question) + 1) % 4
        quiz.locator("label").nth(choice).click()
        told = quiz.locator("[role=status]").inner_text()
        assert told.startswith("Right." if number % 2 == 0 else "Not quite.")
        assert question.options[choice].feedback in told
        assert quiz.locator(".quiz-count").inner_text() == f"{number + 1} of 5 answered"
        if number == 2:
            page.reload()
            assert quiz.locator(".quiz-count").inner_text() == "3 of 5 answered"
            assert "Question 4 of 5" in quiz.locator("legend").inner_text()
        elif number < 4:
            quiz.get_by_role("button", name="Next").click()
    assert quiz.locator(".quiz-result").inner_text() == "Your result: 3 of 5 right."
    quiz.get_by_role("button", name="Start again").click()
    assert quiz.locator(".quiz-count").inner_text() == "0 of 5 answered"


def test_the_quiz_by_keyboard_alone(page, address):
    page.goto(f"{address}/attention.html")
    page.locator(".quiz input").first.focus()
    for number, question in enumerate(QUESTIONS):
        wanted = right(question)
        page.keyboard.press("Space")
        for _ in range(wanted):
            page.keyboard.press("ArrowDown")
        assert page.locator(".quiz [role=status]").inner_text().startswith("Right."), question.id
        if number < 4:
            for _ in range(6):
                page.keyboard.press("Tab")
                if page.evaluate("document.activeElement.textContent") == "Next":
                    break
            page.keyboard.press("Enter")
    assert page.locator(".quiz-result").inner_text() == "Your result: 5 of 5 right."


@pytest.mark.parametrize("kept", ["nonsense", '{"q1": 99, "q2": "a"}', "[]", "null"])
def test_answers_kept_in_a_state_that_nobody_wrote_are_ignored(page, address, kept):
    page.add_init_script(f"localStorage.setItem('minitx-quiz-quiz', {json.dumps(kept)})")
    page.goto(f"{address}/attention.html")
    assert page.locator(".quiz-count").inner_text() == "0 of 5 answered"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_playground_computes_what_minitx_does(page, address, causal, temperature):
    page.goto(f"{address}/attention.html")
    rng = np.random.default_rng(5)
    q, k = rng.normal(size=(2, 6, 4)) * 3
    v = rng.normal(size=(6, 2))
    got = page.evaluate(
        """([q, k, v, causal, temperature]) => {
            const weights = minitxPlayground.attentionWeights(q, k, causal, temperature);
            return [weights, minitxPlayground.weightedValues(weights, v)];
        }""",
        [q.tolist(), k.tolist(), v.tolist(), causal, temperature],
    )
    arrays = (Tensor(x[None, None]) for x in (q, k, v))
    output, weights = F.scaled_dot_product_attention(*arrays, causal=causal, scale=1 / (2 * temperature))
    np.testing.assert_allclose(got[0], weights.numpy()[0, 0], atol=1e-12)
    np.testing.assert_allclose(got[1], output.numpy()[0, 0], atol=1e-12)


def test_the_playground_answers_to_its_switches(page, address):
    page.goto(f"{address}/attention.html")
    box = page.locator(".playground")
    cells = box.locator("tbody td")

    def weights():
        return np.array([float(text.replace(NONE, "0")) for text in cells.all_inner_texts()]).reshape(6, 6)

    first = weights()
    np.testing.assert_allclose(first.sum(axis=1), 1, atol=0.03)
    box.get_by_label("causal mask").check()
    assert not weights()[np.triu_indices(6, 1)].any()
    box.get_by_label("causal mask").uncheck()
    box.locator("input[type=range]").first.fill("0.1")
    assert weights().max(axis=1).min() > 0.5
    box.get_by_role("button", name="Reset").click()
    np.testing.assert_array_equal(weights(), first)
    box.get_by_label("word 3").fill("behind")
    changed = abs(weights() - first)
    assert changed[2].max() > 0
    assert changed[:, 2].max() > 0
    box.get_by_role("button", name="query", exact=True).nth(4).click()
    assert 'The query of word 5, "so"' in box.locator("legend").inner_text()


# Every page that Sphinx makes of a text; `test_every_page_is_looked_at` holds the list to what is built.
PAGES = ["index", "attention", "reference", "benchmarks", "module/index"]
PAGES += [f"guides/{path.stem}" for path in sorted((ROOT / "docs/guides").glob("*.md"))]
PAGES += [f"module/{path.stem}" for path in sorted((ROOT / "exercises").glob("*/*.ipynb"))]
SCREENS = [
    {"viewport": {"width": 1280, "height": 900}},
    {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "reduced_motion": "reduce"},
]


def test_every_page_is_looked_at(built):
    pages = {path.relative_to(built).with_suffix("").as_posix() for path in built.rglob("*.html")}
    made = {"genindex", "py-modindex", "search"}  # lists that Sphinx makes of the others
    assert {page for page in pages if not page.startswith(("_static/", "lite/"))} - made == set(PAGES)


@pytest.mark.parametrize("page", SCREENS, indirect=True, ids=["desktop", "phone, dark"])
def test_no_page_has_a_serious_fault_of_accessibility(page, address):
    """All pages; -s prints axe's totals."""
    rules, found, grave = Counter(), Counter(), []
    for name in PAGES:
        page.goto(f"{address}/{name}.html")
        page.wait_for_load_state("networkidle")
        page.add_script_tag(path=str(ROOT / "docs/_vendor/axe-core/axe.min.js"))
        told = page.evaluate("axe.run(document)")
        rules["passed"] += len(told["passes"])
        rules["to be looked at by a person"] += len(told["incomplete"])
        for fault in told["violations"]:
            found[fault["impact"]] += 1
            if fault["impact"] in ("serious", "critical"):
                grave += [(name, fault["id"], node["html"][:120]) for node in fault["nodes"]]
    assert grave == []
    assert rules["passed"] > 20 * len(PAGES)
    totals = ", ".join(f"{kind} {found[kind]}" for kind in ("critical", "serious", "moderate", "minor"))
    counted = ", ".join(f"{number} rules {what}" for what, number in rules.items())
    print(f"\naxe, {page.viewport_size['width']} wide: {len(PAGES)} pages, {counted}; violations: {totals}")


@pytest.mark.parametrize("page", SCREENS[1:], indirect=True, ids=["phone"])
def test_no_page_is_wider_than_a_phone(page, address):
    wide = {}
    for name in [*PAGES, "genindex"]:
        page.goto(f"{address}/{name}.html")
        page.wait_for_load_state("networkidle")
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 390} == {}


@pytest.mark.parametrize("page", SCREENS[1:], indirect=True, ids=["phone"])
def test_the_playground_shows_all_its_weights_on_a_phone(page, address):
    page.goto(f"{address}/attention.html")
    frame, table = (
        page.locator(place).bounding_box() for place in (".playground-table", ".playground table")
    )
    assert table["width"] <= frame["width"]


def test_figures_have_words_for_those_who_do_not_see_them(page, address):
    page.goto(f"{address}/attention.html")
    figures = page.locator("img.course-figure")
    assert figures.count() == 3
    for i in range(3):
        assert len(figures.nth(i).get_attribute("alt")) > 80
        assert figures.nth(i).evaluate("image => image.naturalWidth") > 0


def test_the_tutorial_page_is_light(page, address):
    """Under 1.5 MB with all that it loads, MathJax aside."""
    sizes = []
    page.on("response", lambda one: sizes.append((one.url, len(one.body()) if one.ok else 0)))
    page.goto(f"{address}/attention.html")
    page.wait_for_load_state("networkidle")
    weight, formulas = (sum(n for url, n in sizes if ("mathjax" in url) is math) for math in (False, True))
    print(f"\nthe tutorial page: {weight:,} bytes in {len(sizes)} files, MathJax's {formulas:,} aside")
    assert weight < 1_500_000
