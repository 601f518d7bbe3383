"""What pages link to is there: files, headings, and what mkdocs.yml lists."""
import re
import subprocess

import pytest

from conftest import ROOT

LISTED = subprocess.run(["git", "-C", ROOT, "ls-files", "*.md"], capture_output=True, text=True).stdout.split()
if not LISTED:
    pytest.skip("no git checkout", allow_module_level=True)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page):
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page, text):
    """Links of a page that lead nowhere."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = []
    for link in LINK.findall(re.sub(r"`[^`]*`", "", text)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("name", LISTED)
def test_links(name):
    assert broken(ROOT / name, (ROOT / name).read_text()) == []


def test_a_link_to_nothing_is_found():
    page = ROOT / "docs/diagnostics/README.md"
    assert broken(page, "[a](race.md) [b](races.md) [c](../../README.md#pallas) [d](../../README.md#palas)") == ["races.md", "../../README.md#palas"]


def test_the_site_lists_pages_that_there_are():
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    pages = re.findall(r"(?:- |: )(\S+\.md)$", nav, re.MULTILINE)
    assert len(pages) > 10 and [page for page in pages if not (ROOT / page).exists()] == []
    listed = set(pages) | {"docs/diagnostics/" + path.name for path in (ROOT / "docs/diagnostics").glob("*.md")}
    assert [name for name in LISTED if name.startswith("docs/") and name not in listed] == []
