"""Tables in Markdown."""


def table(head, rows):
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])
