"""docs/benchmarks.md: the tables of benches, from the files that they wrote.

    python bench/train_step.py --json bench/results/train_step.json
    python bench/report.py bench/results/*.json > docs/benchmarks.md
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

INTRODUCTION = """# Benchmarks

Medians of interleaved rounds, and ratios to the peers: the median of the ratios within a round, where below 1 autotape is the faster.
[bench/README.md](../bench/README.md) says what each bench does and how to read this.  Times differ between machines, and the targets of
ops20 and conv_bias_act were set on one with vectors of 512 bits (avx512f).  Misses are left standing.
`python bench/report.py bench/results/*.json > docs/benchmarks.md` makes this page.
"""


def page(files: list[Path]) -> str:
    """The page of these files, in the order of their names."""
    return "\n".join([INTRODUCTION, *map(section, sorted(files))])


def section(file: Path) -> str:
    """One bench: what was measured on which machine, a line a table."""
    found = json.loads(file.read_text(encoding="utf-8"))
    tables = found["tables"]
    names = list(dict.fromkeys(name for table in tables for name in table["values"]))
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    threads = "1 thread, processor time" if found["threads"] == 1 else f"{found['threads']} threads, by the clock"
    lines = [f"## {file.stem}\n", f"{found['date']}; {found['machine']}; {threads}; {versions}.\n"]
    lines += [row(["", "unit", *names, "ratios"]), row(["---", "---", *["---:"] * len(names), "---"])]
    lines += [row([t["title"], t["unit"], *(middle(t["values"].get(name)) for name in names), ratios(t["targets"])]) for t in tables]
    return "\n".join(lines) + "\n"


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def middle(values: list[float] | None) -> str:
    """The median to three digits, or nothing for who has no part in the table."""
    if not values:
        return ""
    value = float(np.median(values))
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def ratios(targets: list[dict[str, Any]]) -> str:
    """What is measured of the targets, one after the other."""
    return "; ".join(f"{t['name']} {t['by']} {t['peer']} **{t['median']:.2f}**{verdict(t)}" for t in targets if "median" in t)


def verdict(target: dict[str, Any]) -> str:
    return f" (target {target['limit']:.2f}: {'met' if target['reached'] else 'missed'})" if "reached" in target else ""


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="what benches wrote with --json")
    print(page(parser.parse_args().files), end="")


if __name__ == "__main__":
    main()
