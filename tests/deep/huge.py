#!/usr/bin/env python3
"""A session of 10 GB through the real binary: made, resumed, checked and appended to, all in little memory.

Each command runs under `prlimit --as`, which bounds all memory a process can have, so that success is the proof. The
peak that the kernel counted is shown beside it. It is a little too high: it includes this interpreter's own pages, from
which the process was started.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
# The promise: 64 MiB above what the program takes when it does nothing.
BUDGET_BYTES = 64 * MIB
SPACE_FACTOR = 1.5
TAIL = 50
# A hang is a finding too; a check of 10 GB takes seconds to a few minutes.
TIMEOUT_SECONDS = 1800


class Broken(Exception):
    """A promise that was not kept."""


def measured(command, limit_bytes=None, stdout=subprocess.PIPE):
    """Runs a command; gives its output, the seconds it took and its peak of resident memory."""
    if limit_bytes is not None:
        command = ["prlimit", f"--as={limit_bytes}", *command]
    began = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=stdout)
    output = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    if process.returncode != 0:
        raise Broken(f"`{' '.join(map(str, command))}` exits with {process.returncode}")
    return output, seconds, usage.ru_maxrss * 1024


def virtual_idle(manent):
    """The least address space in which the program can say its version, to the MiB."""
    low, high = 1, 512
    while low < high:
        middle = (low + high) // 2
        tried = subprocess.run(
            ["prlimit", f"--as={middle * MIB}", str(manent), "--version"], capture_output=True, timeout=60
        )
        low, high = (low, middle) if tried.returncode == 0 else (middle + 1, high)
    return low * MIB


def fill(manent, home, key, size):
    """Feeds records of about 4 kB to `manent append --jsonl` until the session is as large as wanted."""
    feeder = subprocess.Popen(
        [str(manent), "--home", str(home), "append", key, "--jsonl", "--durability", "flush"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    text = "words that somebody said, some time ago; " * 96
    began, fed, number = time.monotonic(), 0, 0
    while fed < size:
        lines = []
        for number in range(number + 1, number + 257):
            role = "user" if number % 2 else "assistant"
            lines.append(f'{{"ts":"2026-11-15T18:07:00.123Z","role":"{role}","n":{number},"content":"{text}"}}\n')
        block = "".join(lines).encode()
        feeder.stdin.write(block)
        fed += len(block)
    feeder.stdin.close()
    if feeder.wait(timeout=TIMEOUT_SECONDS) != 0:
        raise Broken(f"append --jsonl exits with {feeder.returncode}")
    return number, time.monotonic() - began


def check(manent, home, size):
    idle = measured([manent, "--version"])[2]
    limit = virtual_idle(manent) + BUDGET_BYTES
    print(f"idle: {idle / MIB:.1f} MiB resident; each command gets {limit / MIB:.0f} MiB of address space in all")

    records, seconds = fill(manent, home, "huge", size)
    bytes_now = sum(file.stat().st_size for file in (home / "sessions").iterdir())
    print(f"append --jsonl --durability flush: {bytes_now / 1e9:.2f} GB, {records} records, {seconds:.1f} s, "
          f"{bytes_now / 1e6 / seconds:.0f} MB/s")

    def told(what, seconds, peak):
        print(f"{what}: {seconds * 1000:.0f} ms, peak {peak / MIB:.1f} MiB resident", flush=True)
        if peak > idle + BUDGET_BYTES:
            raise Broken(f"{what} took {peak / MIB:.1f} MiB, more than {BUDGET_BYTES / MIB:.0f} above idle")

    for _ in range(3):
        output, seconds, peak = measured([manent, "--home", home, "--json", "show", "huge", "--tail", TAIL], limit)
        numbers = [json.loads(line)["n"] for line in output.splitlines()]
        if numbers != list(range(records - TAIL + 1, records + 1)):
            raise Broken(f"show --tail {TAIL} gives {numbers}")
        told(f"show --tail {TAIL}", seconds, peak)

    middle = records // 2
    command = [manent, "--home", home, "--json", "show", "huge", "--from", middle]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE) as reader:
        began = time.monotonic()
        first = json.loads(reader.stdout.readline())["n"]
        print(f"show --from {middle}: the first record after {(time.monotonic() - began) * 1000:.0f} ms")
        reader.kill()
    if first != middle:
        raise Broken(f"show --from {middle} begins with {first}")

    for nth in range(3):
        _, seconds, peak = measured([manent, "--home", home, "append", "huge", f"one more: {nth}"], limit)
        told("append of one turn, opening and sync included", seconds, peak)

    output, seconds, peak = measured([manent, "--home", home, "--json", "verify", "huge"], limit)
    report = json.loads(output)
    if (report["records"], report["damage"], report["tail"]) != (records + 3, [], "clean"):
        raise Broken(f"verify says {report}")
    told(f"verify ({bytes_now / 1e9 / seconds:.2f} GB/s)", seconds, peak)

    output, seconds, peak = measured([manent, "--home", home, "--json", "sessions"], limit)
    told("sessions", seconds, peak)


def main():
    parser = argparse.ArgumentParser(description="A session of 10 GB in 64 MiB of memory.")
    parser.add_argument("--manent", default="target/release/manent", type=pathlib.Path, help="the binary")
    parser.add_argument("--bytes", type=int, default=10_000_000_000, help="how large the session is")
    parser.add_argument("--dir", default="target", help="where it is made; it is deleted afterwards")
    given = parser.parse_args()
    free, needed = shutil.disk_usage(given.dir).free, int(given.bytes * SPACE_FACTOR)
    why = None
    if free < needed:
        why = f"{free / 1e9:.1f} GB are free in {given.dir}, {needed / 1e9:.1f} GB are needed"
    elif not shutil.which("prlimit"):
        why = "there is no prlimit"
    if why:
        print(f"SKIPPED huge: {why}", file=sys.stderr)
        return 1 if os.environ.get("MANENT_NO_SKIP") else 0
    home = pathlib.Path(tempfile.mkdtemp(prefix="manent-huge-", dir=given.dir))
    home.chmod(0o700)
    try:
        check(given.manent.resolve(), home, given.bytes)
    except Broken as broken:
        print(f"FAILED huge: {broken}")
        print(f"  replay: ./deep huge --bytes {given.bytes}")
        return 1
    finally:
        shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
