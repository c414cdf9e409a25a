"""What a release consists of: one version everywhere, and a description that stands alone."""

import re
import tomllib
from pathlib import Path

import mailonce

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GITHUB = sorted(path for path in (ROOT / ".github").rglob("*") if path.is_file())
CHANGELOG_COLUMNS_MAX = 160
LINK = re.compile(r"!?\[[^\]]*\]\(([^)]+)\)")


def test_version_package_and_changelog_agree() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert headings[0] == "Unreleased"
    assert headings[1] == PROJECT["version"] == mailonce.__version__


def test_every_supported_python_is_tested_and_classified() -> None:
    workflow = (ROOT / ".github/workflows/test.yml").read_text()
    versions = re.search(r"python: \[(.*)\]", workflow)
    assert versions is not None
    tested = set(re.findall(r'"([\d.]+)"', versions.group(1)))
    classified = {
        one.rpartition(" ")[2] for one in PROJECT["classifiers"] if ":: Python :: 3." in one
    }

    assert tested == classified
    assert f">={min(tested, key=_as_numbers)}" == PROJECT["requires-python"]
    assert "run: make test\n" in workflow


def test_the_description_of_the_package_has_no_link_that_leads_nowhere() -> None:
    text = (ROOT / PROJECT["readme"]).read_text()

    links = LINK.findall(text)

    assert links, "links to other projects stay"
    assert [link for link in links if not link.startswith("https://")] == []


def test_every_link_of_a_document_leads_to_a_file() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in LINK.findall(page.read_text())
        if not link.startswith(("https://", "http://", "#"))
        and not (page.parent / link.partition("#")[0]).exists()
    ]

    assert broken == []


def test_every_anchor_of_a_link_is_a_heading() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for link in LINK.findall(page.read_text()):
            path, _, anchor = link.partition("#")
            if not anchor or "://" in link:
                continue
            target = page.parent / path if path else page
            if anchor not in _anchors(target):
                broken.append(f"{page.relative_to(ROOT)}: {link}")

    assert broken == []


def test_the_forms_for_issues_name_no_address() -> None:
    assert GITHUB
    for path in GITHUB:
        assert not re.search(r"https?://|\S@\S+\.\w", path.read_text()), path


def _as_numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _anchors(page: Path) -> set[str]:
    """Make the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def test_upgrade_warnings_stand_on_top_of_their_version() -> None:
    for version in (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]:
        warns = [
            note.startswith("- **Upgrade") for note in re.findall(r"^- .*", version, re.MULTILINE)
        ]

        assert warns == sorted(warns, reverse=True), version.splitlines()[0]
        assert "- Upgrade" not in version


def test_a_line_of_the_changelog_fits_where_it_is_read() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()

    assert [line[:60] for line in lines if len(line) > CHANGELOG_COLUMNS_MAX] == []
