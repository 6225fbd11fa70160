"""What a student's notebook may show in the instructor's browser: text and pictures, nothing that runs.

nbconvert puts HTML, SVG and JavaScript output, and HTML in text cells, into the page as they are. The
instructor's page has the right to change grades, so here only what is text stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

MAX_MARKDOWN = 20_000  # characters of a text cell; the renderer's time grows with the square of some texts
MAX_TEXT = 50_000  # characters of a cell's output
MAX_PICTURES = 4 * 1024 * 1024  # characters of base64 in a cell's output
MAX_OUTPUTS = 100

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")
_GOOD_ADDRESS = re.compile(r"(https?|mailto):|data:image/(png|jpeg|gif|webp);base64,")
_TAGS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "div", "span", "br", "hr", "pre", "code", "blockquote"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tfoot", "tr", "th", "td"),
    *("a", "img", "em", "strong", "del", "s", "sub", "sup"),
}
_ATTRIBUTES = {"align", "alt", "class", "href", "id", "src", "start", "style", "title"}
_CUT = "\n... output shortened ..."


def harmless_markdown(text: str) -> str:
    """The same text without HTML: a blank after `<` unmakes a tag, and code and formulas look right."""
    return _TAG.sub("< ", text)


def presentable_markdown(text: str, attachments: Mapping[str, Any] | None) -> str:
    """A student's text, harmless, and such that a page can be made of it.

    nbconvert gives up the whole page, formgrader's too, when a picture's attachment is missing, and it lets
    a link run JavaScript. So the text is rendered here once; where the result is not good, pictures are
    taken out, then links, and in the end the text is shown as it was typed.
    """
    text = harmless_markdown(text)
    if len(text) > MAX_MARKDOWN:
        text = text[:MAX_MARKDOWN] + _CUT
    plain = text.replace("![", "! [")
    for candidate in (text, plain, plain.replace("](", "] (").replace("][", "] [").replace("]:", "] :")):
        try:
            renderer = IPythonRenderer(escape=False, attachments=dict(attachments or {}))
            page = _Page()
            page.feed(str(MarkdownWithMath(renderer=renderer).render(candidate)))
            page.close()
        except Exception:
            continue
        if not page.strange:
            return candidate
    return "\n".join(f"    {line}" for line in text.split("\n"))


class _Page(HTMLParser):
    """Looks for anything in a page that Markdown alone does not make of text."""

    def __init__(self) -> None:
        super().__init__()
        self.strange = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.strange |= tag not in _TAGS
        for name, value in attrs:
            address = re.sub(r"[\s\x00-\x20]", "", value or "").casefold()
            scheme = _SCHEME.match(address)
            self.strange |= name not in _ATTRIBUTES
            self.strange |= name in ("href", "src") and bool(scheme) and not _GOOD_ADDRESS.match(address)
            self.strange |= name == "style" and not re.fullmatch(r"text-align:(left|right|center);?", address)

    def handle_decl(self, decl: str) -> None:
        self.strange = True

    def handle_pi(self, data: str) -> None:
        self.strange = True

    def unknown_decl(self, data: str) -> None:
        self.strange = True


def safe_outputs(outputs: Any, execution_count: int | None) -> list[dict[str, Any]]:
    """The streams, plain texts, PNG pictures and errors among a cell's outputs, cut to a bearable size.

    `outputs` comes from a process that ran student code: any value is possible in any place.
    """
    safe: list[dict[str, Any]] = []
    text_left, picture_left = MAX_TEXT, MAX_PICTURES
    for output in outputs if isinstance(outputs, list) else []:
        if not isinstance(output, dict) or len(safe) == MAX_OUTPUTS:
            continue
        kept = _safe_output(output, execution_count)
        if kept is None:
            continue
        text_left = _cut(kept, text_left)
        picture = kept.get("data", {}).get("image/png", "")
        picture_left -= len(picture)
        if picture and picture_left < 0:
            kept["data"] = {"text/plain": "[a picture was left out: too large]"}
        safe.append(kept)
        if text_left <= 0:
            break
    return safe


def _safe_output(output: dict[str, Any], execution_count: int | None) -> dict[str, Any] | None:
    """One output, built anew; None for one of a kind that is not shown."""
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": _text(output.get("text"))}
    if kind == "error":
        lines = output.get("traceback")
        return {
            "output_type": "error",
            "ename": _text(output.get("ename")),
            "evalue": _text(output.get("evalue")),
            "traceback": [_text(line) for line in lines] if isinstance(lines, list) else [],
        }
    if kind not in ("display_data", "execute_result"):
        return None
    bundle, data = output.get("data"), {}
    if isinstance(bundle, dict):
        if "text/plain" in bundle:
            data["text/plain"] = _text(bundle["text/plain"])
        picture = _text(bundle.get("image/png"))
        if _BASE64.fullmatch(picture):
            data["image/png"] = picture
    if not data:
        return None
    kept = {"output_type": kind, "data": data, "metadata": {}}
    if "image/png" in data:
        kept["metadata"] = {"image/png": {"alt": "A picture that this cell made."}}
    return {**kept, "execution_count": execution_count} if kind == "execute_result" else kept


def _cut(output: dict[str, Any], left: int) -> int:
    """Shorten the output's text to what is left for its cell; return what is left after it."""
    holder: Any
    key: Any
    if output["output_type"] == "stream":
        holder, key = output, "text"
    elif output["output_type"] == "error":
        output["evalue"] = output["evalue"][:left]
        output["traceback"] = ["\n".join(output["traceback"])]
        holder, key = output["traceback"], 0
    elif "text/plain" in output["data"]:
        holder, key = output["data"], "text/plain"
    else:
        return left
    length = len(holder[key])
    if length > left:
        holder[key] = holder[key][:left] + _CUT
    return left - length


def _text(value: Any) -> str:
    if isinstance(value, list):
        value = "".join(part for part in value if isinstance(part, str))
    text = value if isinstance(value, str) else ""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
