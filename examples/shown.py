"""What the scripts that train show: how far they are, and a plot of what became of it."""

import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track


def steps(count, what):
    """Yield the numbers below count; a bar on a terminal says how far that is."""
    console = Console(stderr=True)
    return track(range(count), what, console=console, disable=not sys.stderr.isatty())


def plot(name, images=None, **curves):
    """Draw curves, and images (an even number of them) if there are some, to NAME.png here.

    Without matplotlib nothing is drawn: `pip install "tcdsl[demo]"` brings it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print(f'no {name}.png: pip install "tcdsl[demo]" brings matplotlib')
        return
    figure = Figure(figsize=(7, 4) if images is None else (7, 7), layout="constrained")
    parts = figure.subfigures(1 if images is None else 2, 1, squeeze=False)[:, 0]
    axes = parts[0].subplots(1, len(curves), squeeze=False)[0]
    for ax, (label, values) in zip(axes, curves.items(), strict=True):
        ax.plot(values)
        ax.set(title=label.replace("_", " "), xlabel="step")
    if images is not None:
        places = parts[1].subplots(2, len(images) // 2).flat
        for ax, image in zip(places, images, strict=True):
            ax.imshow(image, cmap="gray")
            ax.axis("off")
    path = Path(f"{name}.png")
    figure.savefig(path)
    print(f"plot: {path}")
