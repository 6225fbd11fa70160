"""Every link leads somewhere: those of the built site, and those of the documents beside it."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from documents import PAGES, ROOT, read

DOCUMENTS = [page for page in PAGES if "/" not in page]
# Hosts that a page may link to. Nothing is loaded from them; a test cannot know whether they answer.
HOSTS: set[str] = set()


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it."""

    def __init__(self, path):
        super().__init__()
        self.targets, self.places = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.places |= {values[name] for name in ("id", "name") if values.get(name)}
        self.targets += [(tag, values[name]) for name in ("href", "src") if values.get(name)]


@pytest.fixture(scope="module")
def pages(built):
    """Those that are read: what the theme leaves in _static are templates."""
    paths = {path.relative_to(built).as_posix(): path for path in sorted(built.rglob("*.html"))}
    return {name: Page(path) for name, path in paths.items() if not name.startswith("_static/")}


def test_every_link_of_the_site_leads_to_a_file_and_to_a_place_in_it(built, pages):
    counted, broken = Counter(), []
    for name, page in pages.items():
        for tag, target in page.targets:
            split = urlsplit(urljoin(f"http://site/{name}", target))
            if split.scheme in ("data", "javascript"):
                continue
            counted[tag] += 1
            file = unquote(split.path).lstrip("/") or "index.html"
            if split.netloc != "site":
                if split.scheme != "https" or split.netloc not in HOSTS or tag != "a":
                    broken.append(f"{name}: {target} is not on the list of hosts")
            elif not (built / file).is_file():
                broken.append(f"{name}: {target}")
            elif split.fragment and file in pages and unquote(split.fragment) not in pages[file].places:
                broken.append(f"{name}: {target} (no such place)")
    assert broken == []
    print(f"\n{len(pages)} pages: {counted['a']} links, {sum(counted.values()) - counted['a']} files loaded")
    assert counted["a"] > 500
    assert counted["img"] > 5


def test_every_page_can_be_reached_from_the_first(pages):
    reached, following = set(), ["index.html"]
    while following:
        name = following.pop()
        if name in reached or name not in pages:
            continue
        reached.add(name)
        for tag, target in pages[name].targets:
            split = urlsplit(urljoin(f"http://site/{name}", target))
            if tag == "a" and split.netloc == "site":
                following.append(split.path.lstrip("/"))
    left = {name for name in pages if not name.startswith(("_", "lite/"))} - reached
    assert left <= {"genindex.html", "py-modindex.html", "search.html"}  # the search field opens the last


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_of_a_document_leads_to_a_file_and_to_a_heading_of_it(name):
    text = "\n".join(line for _, _, line in read(name)[1])
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        split = urlsplit(target)
        if split.netloc:
            assert split.scheme == "https" and split.netloc in HOSTS, f"{name} links to {target}"
            continue
        file = (ROOT / name).parent / split.path if split.path else ROOT / name
        assert file.exists(), f"{name} links to {target}"
        if split.fragment:
            assert split.fragment in headings(file), f"{name} links to {target}, which has no such heading"


def headings(file: Path) -> set[str]:
    """The places that GitHub makes of a document's headings."""
    lines = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}
