"""`python -m tests.bench`: every benchmark in one run, ratios beside the prototypes' figures."""

from __future__ import annotations

import importlib
import sys

MODULES = (
    "bench_load",
    "bench_render",
    "bench_train",
    "bench_apse",
    "bench_sweep",
    "bench_victims",
    "bench_page",
)


def main() -> None:
    """Run the named benchmarks (all by default) and print one table each."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for name in sys.argv[1:] or MODULES:
        module = importlib.import_module(f"tests.bench.{name}")
        rows = module.run()
        table = Table("what", "measured", getattr(module, "BESIDE", "prototype"), title=name)
        for row in rows:
            table.add_row(*row)
        console.print(table)


if __name__ == "__main__":
    main()
