"""The site of docs/: it builds, its links lead somewhere, tables and lists are rendered, and nothing comes from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

REPO = Path(__file__).resolve().parents[2]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")  # these are read as they are, on a host of the repository
# Attributes whose address a browser fetches without a click, by tag.
FETCHED = {
    **dict.fromkeys(("script", "iframe", "video", "audio", "embed"), ("src",)),
    **dict.fromkeys(("img", "source"), ("src", "srcset")),
    **dict.fromkeys(("use", "image"), ("href", "xlink:href")),
    "link": ("href",),
    "object": ("data",),
}
# What Markdown leaves as text if a blank line is missing before it, or if its lines are not indented enough.
UNRENDERED = re.compile(r"^\s*([-*] |\d+\. |\|.*\|\s*$|#+ |```)|\]\([\w./-]+\.md", re.MULTILINE)


@dataclass
class Page(HTMLParser):
    """What one page of the site has, loads and links."""

    ids: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    prose: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        self.styles += [values["style"]] if "style" in values else []
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if tag == "link" and values.get("rel") in ("canonical", "next", "prev"):
            return
        self.loads |= {values[name] for name in FETCHED.get(tag, ()) if name in values}
        if tag in ("p", "li", "td", "code", "pre", "style", "script"):
            self._within.append(tag)
            self.prose += [""] if tag in ("p", "li", "td") else []

    def handle_endtag(self, tag: str) -> None:
        if tag in self._within:
            while self._within.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "style" in self._within:
            self.styles.append(data)
        elif self._within and not {"code", "pre", "script"} & set(self._within):
            self.prose[-1] += data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]  # with --quiet, warnings do not count
    done = subprocess.run(command, cwd=REPO, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[str, Page]:
    found: dict[str, Page] = {}
    for path in sorted(folder.rglob("*.html")):
        found[path.relative_to(folder).as_posix()] = page = Page()
        page.feed(path.read_text())
    return found


def elsewhere(address: str) -> bool:
    return bool(urlsplit(address).netloc)


@pytest.mark.slow
def test_each_file_of_docs_is_a_page(pages: dict[str, Page]) -> None:
    files = {path.relative_to(REPO / "docs").with_suffix(".html").as_posix() for path in (REPO / "docs").rglob("*.md")}
    assert pages.keys() - {"404.html"} == files


def test_each_link_and_anchor_leads_to_something_that_is_there(folder: Path, pages: dict[str, Page]) -> None:
    wrong = []
    for name, page in pages.items():
        for link in page.links | page.loads:
            if elsewhere(link) or link.startswith(("mailto:", "data:")) or name == "404.html":
                continue
            parts = urlsplit(link)
            target = (folder / name).parent / unquote(parts.path) if parts.path else folder / name
            target = target / "index.html" if target.is_dir() else target
            there = pages.get(target.resolve().relative_to(folder.resolve()).as_posix())
            if not target.is_file() or (parts.fragment and there is not None and unquote(parts.fragment) not in there.ids):
                wrong.append(f"{name}: {link}")
    assert not wrong


def test_links_of_the_files_beside_docs_lead_to_files_and_headings(pages: dict[str, Page]) -> None:
    links = {(name, link) for name in TOP for link in re.findall(r"\]\((?!https?://)([^)\s]+)\)", (REPO / name).read_text())}
    assert len(links) > 20
    for name, link in links:
        path, _, anchor = link.partition("#")
        assert (REPO / path).exists(), f"{name}: {link}"
        assert not anchor or anchor in pages[path.removeprefix("docs/").replace(".md", ".html")].ids, f"{name}: {link}"


def test_steps_and_sections_are_named_by_links_which_are_checked() -> None:
    """A number or a title in the text goes on leading to what has another one by now."""
    named = re.compile(r"(?i)\bsteps? (?:\d|one\b|two\b|three\b)|(?<!\*)\*[^*|\n]+(?:\n[^*|\n]+)?\*,?\s+(?:below|above)\b")
    left = []
    for path in [*(REPO / "docs").rglob("*.md"), *(REPO / top for top in TOP)]:
        text = re.sub(r"(?ms)^\s*```.*?^\s*```|`[^`\n]*`|\[[^\]]*\]\([^)]*\)", "", path.read_text())
        left += [f"{path.relative_to(REPO)}: {match[0]}" for match in named.finditer(text)]
    assert not left


def test_no_page_loads_anything_from_another_host(folder: Path, pages: dict[str, Page]) -> None:
    assert all(page.loads for page in pages.values())
    assert not {f"{name}: {address}" for name, page in pages.items() for address in page.loads if elsewhere(address)}
    styles = {path.name: path.read_text() for path in folder.rglob("*.css")}
    styles |= {name: "\n".join(page.styles) for name, page in pages.items()}
    for name, style in styles.items():
        fetched = re.findall(r"(?:url\(|@import\s+)['\"]?([^'\")\s]+)", style)
        assert not [address for address in fetched if elsewhere(address)], name


def test_no_page_has_what_the_theme_s_script_would_fetch_a_library_for(folder: Path) -> None:
    # For diagrams it would fetch mermaid, and for a repository's name its stars.
    for path in folder.rglob("*.html"):
        text = path.read_text()
        assert 'class="mermaid"' not in text
        assert 'data-md-component="source"' not in text


def test_tables_lists_and_links_are_not_left_as_text(pages: dict[str, Page]) -> None:
    left = {f"{name}: {match[0]}" for name, page in pages.items() for text in page.prose for match in UNRENDERED.finditer(text)}
    assert not left


@pytest.mark.parametrize("picture", sorted((REPO / "docs" / "pictures").glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_tells_what_it_shows_and_suits_light_and_dark(picture: Path) -> None:
    text = picture.read_text()
    assert re.search(r"<title[^>]*>[^<]{20,}</title>", text)
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"<script|<foreignObject|(?:href|src)=\"(?!#)|url\((?!#)|@import", text)
    users = [path.name for path in (REPO / "docs").rglob("*.md") if f"pictures/{picture.name}" in path.read_text()]
    assert users, "no page shows it"


def test_tests_that_are_named_are_there() -> None:
    files = list((REPO / "tests").rglob("*.py"))
    there = {name for path in files for name in re.findall(r"\bdef (test_\w+)", path.read_text())} | {path.name for path in files}
    texts = [*(REPO / "docs").rglob("*.md"), *(REPO / top for top in TOP)]
    named = {name for path in texts for name in re.findall(r"`(test_\w+(?:\.py)?)`", path.read_text())}
    assert len(named) > 100
    assert not named - there
