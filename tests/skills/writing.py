"""Skills for tests, in the styles in which people publish them."""

from pathlib import Path

PLAIN = "---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n\nDo it.\n"


def write_skill(root: Path, path: str, text: str = "", **files: str) -> Path:
    """Write a skill with other files, named with `__` for a slash and `_` for the dot before the ending."""
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    name = folder.name
    (folder / "SKILL.md").write_text(text or PLAIN.format(name=name, description=f"Use for {name}."), newline="")
    for given, content in files.items():
        stem, _, ending = given.replace("__", "/").rpartition("_")
        file = folder / f"{stem}.{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return folder


# Name of the folder, text, expected name, words of the description.
PUBLIC_STYLES: tuple[tuple[str, str, str, str], ...] = (
    ("pdf", "---\nname: pdf\ndescription: Fill forms in PDF files.\nlicense: MIT\n---\n# PDF\n", "pdf", "Fill forms"),
    ("csv-tidy", '---\nname: "csv-tidy"\ndescription: "Clean: CSV files"\n---\nx', "csv-tidy", "Clean: CSV files"),
    ("folded", "---\nname: folded\ndescription: >\n  Long text\n  in two lines.\n---\nx", "folded", "Long text in two"),
    ("literal", "---\nname: literal\ndescription: |\n  First.\n  Second.\n---\nx", "literal", "First. Second."),
    ("My Notes", "---\nname: My Notes\ndescription: Notes.\n---\nx", "my-notes", "Notes."),
    ("windows", "---\r\nname: windows\r\ndescription: Line ends.\r\n---\r\n\r\nBody\r\n", "windows", "Line ends."),
    ("bom", "\ufeff---\nname: bom\ndescription: With a mark.\n---\nx", "bom", "With a mark."),
    ("heading", "# Water the plants\n\nOn Mondays, from above.\n\n## Steps\n1. Go.", "water-the-plants", "On Mondays"),
    ("ruled", "# Ruled\n\nA text with a rule.\n\n---\n\nname: no\n\n---\n", "ruled", "A text with a rule."),
    ("ruled-first", "---\nJust words.\n---\n\n# Ruled first\n\nMore words.\n", "ruled-first", "More words."),
    (
        "old-keys",
        "---\nname: old-keys\ndescription: Old.\nversion: 1.2.0\ntags: [a, b]\nauthor: Ann\n---\nx",
        "old-keys",
        "Old.",
    ),
    (
        "nested",
        "---\nname: nested\ndescription: N.\nmetadata:\n  hermes:\n    tags: [x]\n    related_skills: [pdf]\n---\nx",
        "nested",
        "N.",
    ),
    (
        "json-metadata",
        '---\nname: json-metadata\ndescription: J.\nmetadata: {"claw": {"requires": {"bins": ["git"]}}}\n---\nx',
        "json-metadata",
        "J.",
    ),
    ("tools-list", "---\nname: tools-list\ndescription: T.\nallowed-tools: [Read, Bash]\n---\nx", "tools-list", "T."),
    (
        "tools-text",
        "---\nname: tools-text\ndescription: T.\nallowed-tools: Bash(git:*) Read\n---\nx",
        "tools-text",
        "T.",
    ),
    ("numbered", "---\nname: 2fa-setup\ndescription: Codes.\n---\nx", "2fa-setup", "Codes."),
    ("accents", "---\nname: Café Bestellung\ndescription: Kaffee ☕.\n---\nx", "cafe-bestellung", "Kaffee ☕."),
    (
        "no-description",
        "---\nname: no-description\n---\n# Title\n\nThe first paragraph.\n",
        "no-description",
        "The first",
    ),
    ("spaced-end", "---   \nname: spaced-end\ndescription: S.\n---   \n\nBody", "spaced-end", "S."),
    ("long", "---\nname: long\ndescription: " + "words " * 400 + "\n---\nx", "long", "words words"),
)
