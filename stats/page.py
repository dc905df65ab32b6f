"""One HTML page that needs nothing else, and the same in Markdown."""

import base64
import html
import io

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

plt.rcParams.update({"svg.hashsalt": "taut", "font.size": 9, "figure.figsize": (8, 3.6)})


def number(value, digits=3):
    if value is None:
        return "–"
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.0f}"


def picture(figure):
    out = io.BytesIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    return '<img alt="" src="data:image/svg+xml;base64,%s">' % base64.b64encode(out.getvalue()).decode()


def cdfs(curves, title):
    """`curves`: {name: (grid, least, mean, largest)}."""
    figure, axes = plt.subplots()
    for name, (grid, least, mean, largest) in curves.items():
        line, = axes.plot(grid, mean, label=name, linewidth=1)
        axes.fill_between(grid, least, largest, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xscale="log", xlabel="one-way delay, ms", ylabel="share of what arrived", title=title)
    axes.legend(fontsize=7, loc="lower right")
    return picture(figure)


def over_time(lines, title):
    """`lines`: {name: (times, means)}."""
    figure, axes = plt.subplots()
    for name, (time, mean) in lines.items():
        axes.plot(time, mean, label=name, linewidth=1)
    axes.set(yscale="log", xlabel="virtual time, s", ylabel="mean delay, ms", title=title)
    axes.legend(fontsize=7)
    return picture(figure)


def heat(matrix, names, title):
    figure, axes = plt.subplots(figsize=(6, 5))
    values = [[float("nan") if v is None else v for v in row] for row in matrix]
    image = axes.imshow(values, vmin=-1, vmax=1, cmap="RdBu_r")
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_title(title)
    figure.colorbar(image)
    return picture(figure)


class Page:
    """Headings, paragraphs, tables and pictures, in HTML and in Markdown (without pictures) at once."""

    def __init__(self):
        self.html, self.markdown = [], []

    def heading(self, text, level=2):
        self.html.append(f"<h{level}>{html.escape(text)}</h{level}>")
        self.markdown.append(f"{'#' * level} {text}\n")

    def text(self, text):
        self.html.append(f"<p>{html.escape(text)}</p>")
        self.markdown.append(text + "\n")

    def table(self, head, rows):
        cell = lambda tag, cells: "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in cells)
        body = "".join(f"<tr>{cell('td', row)}</tr>" for row in rows)
        self.html.append(f"<table><tr>{cell('th', head)}</tr>{body}</table>")
        line = lambda cells: "| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |"
        self.markdown.append("\n".join([line(head), line(["---"] * len(head)), *map(line, rows)]) + "\n")

    def picture(self, image):
        self.html.append(f"<figure>{image}</figure>")

    def documents(self, title):
        style = "body{font:15px system-ui;max-width:70em;margin:2em auto;padding:0 1em}td,th{padding:.1em .7em;text-align:left}img{max-width:100%}"
        page = f'<!doctype html><meta charset="utf-8"><title>{html.escape(title)}</title><style>{style}</style>' + "\n".join(self.html)
        return page + "\n", "\n".join(self.markdown)
