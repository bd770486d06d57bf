"""What the benches print, and how each of them runs: whatever fails, what was measured is shown."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time


def said(*command):
    """What a program says of itself."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    return (done.stdout or done.stderr).strip()


def machine():
    return f"{os.cpu_count()} cores, Linux {platform.release()}, {time.strftime('%Y-%m-%d')}"


def shown(value):
    """A figure as a cell: a number, or a text that is one already."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}" if value >= 0.2 else f"{value:.3f}"


def table(columns, rows):
    """Rows are (title, {column: value}); a column without a value has a dash."""
    print("| figure | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for title, values in rows:
        print(f"| {title} | " + " | ".join(shown(values.get(name)) for name in columns) + " |")


def bars(rows):
    print("\n| bar | wanted | measured | | |\n|---|---|---|---|---|")
    for title, wanted, measured, held, remark in rows:
        print(f"| {title} | {wanted} | {measured} | {'✓' if held else '✗'} | {remark} |")


def remarks(notes, problems):
    for note in notes:
        print(f"\nNote: {note}")
    for problem in problems:
        print(f"\nFailed: {problem}")


def run(bench):
    """Runs it, cleans up, prints its table. The exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what runs is stopped
    try:
        bench.run()
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as failure:
        bench.problems.append(str(failure))
    finally:
        shutil.rmtree(bench.place, ignore_errors=True)
    bench.table()
    return 1 if bench.problems else 0
