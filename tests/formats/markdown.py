"""What the documents claim: their tables and their code."""

import re


def sections(text, level):
    """Heading -> text below it, for headings of one level (up to the next of that level or above)."""
    found, heading = {}, None
    for line in text.splitlines():
        mark = re.match(r"(#+) (.*)", line)
        if mark and len(mark[1]) <= level:
            heading = mark[2] if len(mark[1]) == level else None
            if heading:
                found[heading] = ""
        elif heading:
            found[heading] += line + "\n"
    return found


def rows(text):
    """First two cells of each table row whose first cell is code: (key, type)."""
    pattern = re.compile(r"^\| `([^`]+)` \| ([^|]*) \|", re.MULTILINE)
    return [(key, kind.strip()) for key, kind in pattern.findall(text)]


def code(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
