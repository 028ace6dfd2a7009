"""What 10^5 to 10^9 molecules cost: the real drivers measured, and simulated on many workers.

Measured (the default): the enumerated library of `daskrf.demo.enumeration` at several sizes goes from
files of SMILES through the scan, fingerprints, fit and screen, by the drivers that the command line calls, on
two workers. Scheduler, workers and driver are processes of their own, fresh for each size, and their peak
memory is that of each. What a process does once (load, compile, leave its first molecules to RDKit) is done
before the times. Partitions have 10,000 rows at every size (100,000 is the driver's own choice for large
libraries), so that the largest size has many. Then: what a driver spends on a store of 10,000 finished
partitions.

    python benchmarks/scale.py [--small | --full] [--components M]
    python benchmarks/scale.py --simulate [--small | --full]
    python benchmarks/scale.py --costs 4096 8192

The default takes 10^5 and 10^6 molecules in about two minutes, --full 10^7 besides (about 12 minutes and 2 GB
of disk), --small 2 x 10^4 and 10^5 in less than a minute. --simulate (see ``simulation.py``) takes
nine minutes, with --full half an hour. --costs prints what `daskrf plan` finds on the library for each
number of features, carried to 10^8 and 10^9 molecules.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import parser, print_header, run_fresh, table, write_results
from figures import BLUE, GREEN, GREY, ORANGE, PURPLE, label_axes, new_figure, save
from processes import folders_first
from resume import multiply, scan_times
from scale_stages import Job, fingerprints_of, measure, write_labels, write_library
from simulation import simulate

from daskrf import TanimotoMinMaxFeatures, plan
from daskrf.quantities import format_bytes
from daskrf.storage.stores.fingerprintstore import FingerprintStore

SIZES = {"small": (20_000, 100_000), "default": (100_000, 1_000_000)}
SIZES["full"] = (*SIZES["default"], 10_000_000)
ROWS_PER_PARTITION = 10_000
MOST_LABELS = 100_000
PLANNED = 100_000  # rows of the library that costs are planned for, in one partition
RESUMED = {"small": 1_000, "default": 10_000, "full": 10_000}  # partitions of the store that is looked at
LINEAR = {"fingerprint": "fingerprint", "screen": "screen"}  # stage -> its step that grows with the rows
BYTES_A_ROW = 220  # of files and stores of one size, at most


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = parser(__doc__, full="10^7 molecules besides; simulated: longer tasks, more cases")
    found.add_argument("--small", action="store_true", help="for tests: smaller sizes")
    found.add_argument("--simulate", action="store_true", help="simulate many workers instead")
    found.add_argument("--costs", type=int, nargs="+", metavar="M", help="print the costs of 10^8 and 10^9")
    found.add_argument("--sizes", type=int, nargs="+", metavar="N", help="measure these sizes")
    found.add_argument("-M", "--components", type=int, default=0, help="features (4096; 1024 with --small)")
    found.add_argument("--kind", nargs="+", default=["morgan:1"], help="of fingerprints (%(default)s)")
    found.add_argument("--work", type=Path, help="folder for what is made on the way (a temporary one)")
    return found


def main(argv: list[str] | None = None) -> None:
    """Measure, simulate, or print costs."""
    options = arguments().parse_args(argv)
    print_header(options.seed)
    mode = "small" if options.small else "full" if options.full else "default"
    with tempfile.TemporaryDirectory(dir=options.work, prefix="daskrf-scale-") as folder, folders_first():
        if options.simulate:
            simulate(Path(folder), mode, options.seed, options.output)
        elif options.costs:
            costs(Path(folder), options)
        else:
            measured(Path(folder), mode, options)


# Measured --------------------------------------------------------------------------------------------------


def measured(folder: Path, mode: str, options: argparse.Namespace) -> None:
    """Run every size, print and write what was found."""
    sizes = tuple(options.sizes or SIZES[mode])
    if any(rows % min(sizes) for rows in sizes):
        raise SystemExit("Every size must be a multiple of the smallest: they share their files.")
    components = options.components or (1024 if mode == "small" else 4096)
    _check_disk(folder, max(sizes))
    write_library(folder / "library", max(sizes), min(sizes), options.seed)
    runs = []
    for rows in sizes:
        work = folder / f"size-{rows}"
        job = Job(
            rows,
            rows // min(sizes),
            min(rows // 10, MOST_LABELS),
            components,
            ROWS_PER_PARTITION,
            tuple(options.kind),
            str(folder / "library"),
            str(work),
            options.seed,
            featurize=rows == min(sizes),
        )
        work.mkdir()
        run_fresh(write_labels, job)
        run, _ = run_fresh(measure, job)
        runs.append(run)
        _print_run(run, job)
        if rows != min(sizes):
            shutil.rmtree(work)
    resumed = _resumed(folder, folder / f"size-{min(sizes)}", RESUMED[mode])
    _print_growth(runs)
    settings = {
        "sizes": list(sizes),
        "components": components,
        "kinds": list(options.kind),
        "rows_per_partition": ROWS_PER_PARTITION,
        "workers": 2,
    }
    results = {"sizes": runs, "resume": resumed}
    write_results(options.output, "scale", seed=options.seed, settings=settings, results=results)
    _draw(runs, options.output)


def _check_disk(folder: Path, rows: int) -> None:
    free, need = shutil.disk_usage(folder).free, BYTES_A_ROW * rows
    if need > free:
        raise SystemExit(
            f"{rows:,} molecules take up to {format_bytes(need)} in {folder}, where {format_bytes(free)} "
            "are free; give another folder with --work."
        )


def _print_run(run: dict[str, Any], job: Job) -> None:
    print(
        f"\n{run['rows']:,} molecules, {run['partitions']:,} partitions, {run['labels']:,} labels, "
        f"M = {job.components}, {job.workers} workers"
    )
    rows = []
    for name, stage in run["stages"].items():
        step = stage["steps"].get(name, stage["wall_s"])
        workers = [role for role in stage["cpu_s"] if role.startswith("worker")]
        rows.append(
            {
                "stage": name,
                "s": stage["wall_s"],
                "of it on workers": step,
                "molecules/s": (run["labels"] if name == "fit" else run["rows"]) / step,
                "tasks": stage["tasks"],
                "CPU s workers": sum(stage["cpu_s"][role] for role in workers),
                "driver": stage["cpu_s"]["driver"],
                "scheduler": stage["cpu_s"]["scheduler"],
                "peak MiB worker": max(stage["peak_mib"][role] for role in workers),
                "driver ": stage["peak_mib"]["driver"],
                "scheduler ": stage["peak_mib"]["scheduler"],
            }
        )
    print(table(rows, {"stage": ""} | _FORMATS))
    scan = run["stages"]["fingerprint"]["steps"]["scan"]
    print(
        f"the driver alone: scan of the files {scan:.2f} s ({run['rows'] / scan:,.0f} rows/s), join of "
        f"labels {run['join_s']:.2f} s, look for a resume {run['resume_scan_s']:.3f} s; disk: fingerprints "
        f"{run['fingerprint_bytes'] / run['rows']:.1f} bytes a molecule"
        + (f", features {run['feature_bytes'] / run['rows']:.1f}" if "feature_bytes" in run else ""),
        flush=True,
    )


_FORMATS = {
    "s": ".2f",
    "of it on workers": ".2f",
    "molecules/s": ",.0f",
    "tasks": ",d",
    "CPU s workers": ".2f",
    "driver": ".2f",
    "scheduler": ".2f",
    "peak MiB worker": ".0f",
    "driver ": ".0f",
    "scheduler ": ".0f",
}


def _print_growth(runs: list[dict[str, Any]]) -> None:
    """Print, from size to size, the ratio of seconds a molecule and the change of peak memory."""
    rows = []
    for before, after in itertools.pairwise(runs):
        for name, step in LINEAR.items():
            a, b = before["stages"][name], after["stages"][name]
            rows.append(
                {
                    "stage": name,
                    "from": before["rows"],
                    "to": after["rows"],
                    "wall": _per_row(after, b["steps"][step]) / _per_row(before, a["steps"][step]),
                    "CPU of workers": _per_row(after, _workers(b)) / _per_row(before, _workers(a)),
                    **{
                        f"{role}, MiB": _peak(b, role) - _peak(a, role)
                        for role in ("worker", "driver", "scheduler")
                    },
                }
            )
    print("\nSeconds a molecule, larger size over smaller one (linear: 1), and what peak memory grew by")
    formats = {"stage": "", "from": ",d", "to": ",d", "wall": ".2f", "CPU of workers": ".2f"}
    print(table(rows, formats | dict.fromkeys((n for n in rows[0] if n.endswith("MiB")), "+.0f")), flush=True)


def _per_row(run: dict[str, Any], seconds: float) -> float:
    return seconds / run["rows"]


def _workers(stage: dict[str, Any]) -> float:
    return sum(value for role, value in stage["cpu_s"].items() if role.startswith("worker"))


def _peak(stage: dict[str, Any], role: str) -> float:
    return max(value for name, value in stage["peak_mib"].items() if name.startswith(role))


def _resumed(folder: Path, work: Path, partitions: int) -> dict[str, Any]:
    """Look at a store of many finished partitions as a driver does that resumes."""
    store = multiply(FingerprintStore.open(work / "fingerprints"), folder / "many", partitions)
    found = scan_times(store)
    print(
        f"\n{found['partitions']:,} finished partitions of {found['objects_per_partition']} objects: what "
        f"is missing is known after {found['pending_s']:.2f} s, sums of counts {found['counts_s']:.2f} s; "
        f"daskrf status takes {found['status_s']:.2f} s; _plan.json has {format_bytes(found['plan_bytes'])} "
        f"and is read and checked in {found['open_s']:.2f} s",
        flush=True,
    )
    shutil.rmtree(folder / "many")
    return found


def _draw(runs: list[dict[str, Any]], folder: Path) -> None:
    figure, (left, right) = new_figure(1, 2, width=9, height=3.6)
    sizes = [run["rows"] for run in runs]
    for (name, step), color in zip(LINEAR.items(), (BLUE, ORANGE), strict=True):
        seconds = [run["stages"][name]["steps"][step] for run in runs]
        left.plot(sizes, seconds, "-o", color=color, label=name, markersize=4)
        # Through the last size but one: the first is mostly the start of things.
        left.plot(sizes, [seconds[-2] * n / sizes[-2] for n in sizes], ":", color=GREY, linewidth=1)
    left.set_xscale("log")
    left.set_yscale("log")
    label_axes(left, "time on 2 workers (dotted: linear)", "molecules", "seconds")
    left.legend(frameon=False)
    for role, color in (("worker", GREEN), ("driver", PURPLE), ("scheduler", GREY)):
        peaks = [max(_peak(stage, role) for stage in run["stages"].values()) for run in runs]
        right.plot(sizes, peaks, "-o", color=color, label=role, markersize=4)
    right.set_xscale("log")
    right.set_ylim(bottom=0)
    label_axes(right, "peak memory of a process", "molecules", "MiB")
    right.legend(frameon=False)
    save(figure, folder, "scale")


# Costs -----------------------------------------------------------------------------------------------------


def costs(folder: Path, options: argparse.Namespace) -> None:
    """Print and write the costs that `daskrf.plan` predicts from timing the library, for each M."""
    spec = fingerprints_of(tuple(options.kind))
    write_library(folder / "library", PLANNED, PLANNED, options.seed)
    files, found, needs = [folder / "library" / "part-0000.smi"], [], []
    for m in options.costs:
        report = plan(
            files,
            spec=spec,
            feature_map=TanimotoMinMaxFeatures(m, random_state=options.seed),
            rows_per_partition=PLANNED,  # the driver's own choice for large libraries
            labels=PLANNED,
        )
        found += [
            {
                "M": m,
                "stage": stage.stage,
                "rows/s": 1 / stage.seconds,
                "core-hours, 10^8": stage.seconds * 1e8 / 3600,
                "10^9": stage.seconds * 1e9 / 3600,
                "bytes a molecule": stage.bytes,
            }
            for stage in report.stages
        ]
        needs.append({"M": m} | {need.stage: need.total / 2**30 for need in report.memory})
    formats = {"M": ",d", "stage": "", "rows/s": ",.0f", "core-hours, 10^8": ",.1f", "10^9": ",.1f"}
    print("\nOn one core, by a sample of the enumerated library (fit: a labelled molecule):")
    print(table(found, formats | {"bytes a molecule": ",.0f"}))
    print(f"\nGiB of a process, partitions of {PLANNED:,} rows (solve: of the driver, {PLANNED:,} labels):")
    print(table(needs, {"M": ",d"} | {name: ".2f" for name in needs[0] if name != "M"}))
    results = {"costs": found, "memory_gib": needs}
    settings = {"components": options.costs, "kinds": options.kind}
    write_results(options.output, "scale-costs", seed=options.seed, settings=settings, results=results)


if __name__ == "__main__":
    sys.exit(main())
