"""Rows as text and as HTML, and the pages that are filled with JSON (report/*.html)."""
import html
import pathlib


def duration(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            break
    return f"{seconds / size:,.1f} {unit}"


def text_table(rows, left):
    """`left`: the columns that are aligned there; the others are numbers."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(w) if i in left else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in rows)


def html_table(rows, left):
    head, *rest = rows
    cells = ["".join(f"<td style='text-align:{'left' if i in left else 'right'}'>{html.escape(cell)}</td>"
                     for i, cell in enumerate(row)) for row in rest]
    return ("<table><thead><tr>" + "".join(f"<th scope='col'>{h}</th>" for h in head) + "</tr></thead><tbody>"
            + "".join(f"<tr>{c}</tr>" for c in cells) + "</tbody></table>")


def filled(page, data, title):
    """A page that needs nothing else; `data`: JSON as text."""
    text = (pathlib.Path(__file__).parent / page).read_text(encoding="utf-8")
    data = data.replace("</", "<\\/")
    return text.replace("/*DATA*/", data, 1).replace("TITLE", html.escape(title), 1)
