"""The figures of `growth` as Markdown and as a picture."""
import html

STYLE = """
    text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #59636e; }
    .title { font-weight: 600; font-size: 13px; fill: #1f2328; }
    .axis { stroke: #d1d9e0; fill: none; }
    .line { stroke: #0969da; stroke-width: 2; fill: none; }
    .dot { fill: #0969da; }
    @media (prefers-color-scheme: dark) {
      text { fill: #a9b4c0; }
      .title { fill: #e6edf3; }
      .axis { stroke: #3d444d; }
      .line { stroke: #4493f8; }
      .dot { fill: #4493f8; }
    }
  """
WIDTH, HEIGHT, COLUMNS = 420, 170, 2
# The most letters of a line that its place has room for in the widest of the common fonts, DejaVu Sans.
TITLE, POINT = 44, 12


def number(value):
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def write(lines, figures, path):
    """Prints the table of the lines that were measured, and draws them at `path`."""
    measured = [(lines[name][0], figures[name]) for name in lines if name in figures]
    most = max(len(points) for _, points in measured)
    print("| what grows | CPU time of a request, in µs |" + " |" * (most - 1))
    print("|---|" + "---|" * most)
    for title, points in measured:
        cells = [f"{each['point']}: {number(each['us'])}" for each in points]
        print("| " + " | ".join([title, *cells, *[""] * (most - len(cells))]) + " |")
    rows = -(-len(measured) // COLUMNS)
    panels = "\n".join(panel(title, points, index % COLUMNS * WIDTH, index // COLUMNS * HEIGHT) for index, (title, points) in enumerate(measured))
    size = f"0 0 {WIDTH * COLUMNS} {HEIGHT * rows + 6}"
    with open(path, "w") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" role="img" aria-labelledby="title">\n'
            f'  <title id="title">CPU time of a request, in microseconds, as connections, routes, users and the like grow</title>\n'
            f"  <style>{STYLE}</style>\n{panels}\n</svg>\n")


def lines_of(text, most):
    """The text in lines of at most so many letters, cut between words."""
    lines = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= most:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def text_at(attributes, x, y, text, most):
    """A text, of several lines if its place is narrow."""
    first, *more = [html.escape(line, quote=False) for line in lines_of(text, most)]
    rest = "".join(f'<tspan x="{x}" dy="14">{line}</tspan>' for line in more)
    return f'  <text {attributes} x="{x}" y="{y}">{first}{rest}</text>'


def panel(title, points, left, top):
    """One line: its points at equal distances, their heights from 0."""
    highest = max(each["us"] for each in points) * 1.25
    base, room, step = top + HEIGHT - 36, HEIGHT - 72, (WIDTH - 80) / max(1, len(points) - 1)
    places = [(left + 40 + index * step, base - each["us"] / highest * room, each) for index, each in enumerate(points)]
    out = [text_at('class="title"', left + 16, top + 20, title, TITLE),
           f'  <path class="axis" d="M{left + 16} {base}H{left + WIDTH - 16}"/>',
           '  <polyline class="line" points="' + " ".join(f"{x:.0f},{y:.0f}" for x, y, _ in places) + '"/>']
    for x, y, each in places:
        out.append(f'  <circle class="dot" cx="{x:.0f}" cy="{y:.0f}" r="3.5"/>')
        out.append(f'  <text text-anchor="middle" x="{x:.0f}" y="{y - 8:.0f}">{number(each["us"])}</text>')
        out.append(text_at('text-anchor="middle"', f"{x:.0f}", base + 17, each["point"], POINT))
    return "\n".join(out)
