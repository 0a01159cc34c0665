#!/usr/bin/env python3
"""Power cuts at the level of blocks, on real file systems.

The file system under test lives in an image, which lies in a file system that can clone files (XFS), so that the
state of its "disk" at one moment is had by cloning the image while the writer runs:

    top.img (XFS) > outer.img (XFS) > inner.img (ext4, xfs or btrfs) > the store

Two kinds of cut:

    through  clone inner.img: everything the disk had accepted survives, all that was only in the kernel is lost
    back     clone outer.img: what the disk had accepted, but not been told to flush, may be lost too, in any order
             (the page cache of outer is the volatile cache of the disk)

The writer is the real `manent append --jsonl`, fed with numbered records whose content follows from their number. Its
receipts go to a file outside of all this. The receipts are counted BEFORE the clone is begun: those must be in the
copy. Later ones may be.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

INNER_BYTES = 512 << 20  # XFS takes no less than 300 MB.
OUTER_BYTES = 2 << 30
TOP_BYTES = 4 << 30
FREE_BYTES_MIN = 3 << 30
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F"],
    "xfs": ["mkfs.xfs", "-q", "-f", "-m", "reflink=1"],
    "btrfs": ["mkfs.btrfs", "--quiet", "--force"],
}
# A clone has the identifier of its original, which is still mounted. Journals are committed every second, so that cuts
# also fall between the growth of a file and its data.
MOUNT_OPTIONS = {"ext4": "loop,commit=1", "xfs": "loop,nouuid", "btrfs": "loop,commit=1"}
TS = "2026-11-15T18:07:00.123Z"
RECORD_END = re.compile(rb',"crc":"[0-9a-f]{8}"}$')
# No process here may take longer; a hang is a finding too.
TIMEOUT_SECONDS = 120


class Broken(Exception):
    """A promise that was not kept."""


class CannotHere(Exception):
    """Something this machine does not let us do."""


def run(command, **more):
    if "input" not in more:
        more["stdin"] = subprocess.DEVNULL
    return subprocess.run([str(word) for word in command], capture_output=True, timeout=TIMEOUT_SECONDS, **more)


def must(command):
    done = run(command)
    if done.returncode != 0:
        raise CannotHere(f"`{' '.join(map(str, command))}` says: {done.stderr.decode(errors='replace').strip()}")
    return done


class Mounts:
    """What was mounted, to be unmounted in reverse order whatever happens."""

    def __init__(self):
        self.points = []

    def image(self, image, kind, point):
        point.mkdir(exist_ok=True)
        must(["mount", "--types", kind, "--options", MOUNT_OPTIONS[kind], image, point])
        self.points.append(point)
        return point

    def unmount(self, point):
        for _ in range(50):
            if run(["umount", point]).returncode == 0:
                self.points.remove(point)
                return
            time.sleep(0.1)
        raise CannotHere(f"{point} cannot be unmounted")

    def unmount_all(self):
        for point in reversed(list(self.points)):
            self.unmount(point)


def make_image(path, size, kind):
    with open(path, "wb") as file:
        file.truncate(size)
    must(MAKE[kind] + [path])


def content_of(seed, number):
    """The text of a record: any length from nothing to some pages, different for each number."""
    dice = random.Random(f"{seed}/{number}")
    length = dice.choice([0, 10, 100, 300, 300, 1000, 4096, 5000, 9000, 60000])
    length = dice.randrange(length + 1)
    word = hashlib.sha256(f"{seed}/{number}".encode()).hexdigest()
    return (word * (length // len(word) + 1))[:length]


def members_of(seed, number):
    """The members of a record exactly as they will stand in the file."""
    return f'"ts":"{TS}","role":"user","n":{number},"content":"{content_of(seed, number)}"'


class Writer:
    """A running `manent append --jsonl`, and a thread that feeds it."""

    def __init__(self, manent, home, key, durability, receipts, seed, first, dice):
        self.receipts = receipts
        self.fed = first
        self.first = first
        self.seed = seed
        self.dice = dice
        command = [manent, "--home", home, "--json", "append", key, "--jsonl", "--durability", durability]
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=open(receipts, "wb"), stderr=subprocess.PIPE
        )
        self.feeder = threading.Thread(target=self.feed, daemon=True)
        self.feeder.start()

    def feed(self):
        try:
            while True:
                for _ in range(self.dice.choice([1, 1, 1, 2, 5, 30])):
                    # Counted first: a record may be in the file as soon as it is in the pipe.
                    self.fed += 1
                    line = "{" + members_of(self.seed, self.fed - 1) + "}\n"
                    self.process.stdin.write(line.encode())
                self.process.stdin.flush()
                time.sleep(self.dice.choice([0, 0, 0.001, 0.005]))
        except (BrokenPipeError, ValueError):
            pass

    def acknowledged(self):
        """Every receipt that stands whole in the file of receipts, by seq, with the number that was fed."""
        whole = map(json.loads, self.receipts.read_bytes().split(b"\n")[:-1])
        return {receipt["seq"]: {**receipt, "number": self.first + nth} for nth, receipt in enumerate(whole)}

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=TIMEOUT_SECONDS)
        self.feeder.join(timeout=TIMEOUT_SECONDS)
        message = self.process.stderr.read().decode(errors="replace")
        if self.process.returncode != -9:
            raise Broken(f"the writer ended by itself with {self.process.returncode}: {message}")


class Lab:
    """The nested images, and one cut after the other."""

    def __init__(self, manent, kind, work):
        self.manent, self.kind, self.work = manent, kind, work
        self.mounts = Mounts()
        self.stats = {"cuts": 0, "receipts": 0, "read": 0, "torn": 0, "gaps": 0, "absent": 0, "unsynced_lost": 0}

    def set_up(self):
        make_image(self.work / "top.img", TOP_BYTES, "xfs")
        self.top = self.mounts.image(self.work / "top.img", "xfs", self.work / "top")
        make_image(self.top / "outer.img", OUTER_BYTES, "xfs")
        self.outer = self.mounts.image(self.top / "outer.img", "xfs", self.work / "outer")
        make_image(self.outer / "inner.img", INNER_BYTES, self.kind)
        self.inner = self.mounts.image(self.outer / "inner.img", self.kind, self.work / "inner")
        (self.inner / "probe").write_bytes(b"probe")
        os.sync()
        clone(self.outer / "inner.img", self.outer / "probe.img")
        (self.outer / "probe.img").unlink()

    def manent_in(self, home, *words):
        return run([self.manent, "--home", home, *words])

    def cut(self, mode, style, seed):
        """One life and one cut; gives a line about it."""
        dice = random.Random(seed)
        key = f"cut-{seed}"
        home = self.inner / "store"
        receipts = self.work / "receipts"
        if style == "back":
            source, copy = self.top / "outer.img", self.top / "copy.img"
        else:
            source, copy = self.outer / "inner.img", self.outer / "copy.img"
        acknowledged, next_number = {}, 1
        # Sometimes the cut falls into the life of a writer that came upon what a kill had left.
        lives = [mode] if mode != "mixed" else ["sync", "flush"]
        if mode == "sync" and dice.random() < 0.3:
            lives.append("sync")
        for life, durability in enumerate(lives, 1):
            writer = Writer(self.manent, home, key, durability, receipts, seed, next_number, dice)
            # Early cuts meet a file whose name is not durable yet.
            time.sleep(dice.choice([dice.uniform(0, 0.05), dice.uniform(0.05, 0.6), dice.uniform(0.3, 1.5)]))
            if dice.random() < 0.2:
                # Some pages are written back without the writer's asking.
                run(["sync", "--file-system", self.inner])
            if life == len(lives):
                # In this order: what is acknowledged while the clone is made may be in it or not.
                acknowledged.update(writer.acknowledged())
                try:
                    clone(source, copy)
                finally:
                    writer.kill()
            else:
                writer.kill()
                acknowledged.update(writer.acknowledged())
            next_number = writer.fed
        try:
            return self.look(copy, style, key, seed, acknowledged, next_number)
        except Broken as broken:
            raise Broken(f"{broken}\n  {self.keep(copy, style, acknowledged, seed)}") from broken
        finally:
            for point in (self.work / "copy", self.work / "copy-of-outer"):
                if point in self.mounts.points:
                    self.mounts.unmount(point)
            copy.unlink(missing_ok=True)
            for old in (home / "sessions").glob("*"):
                old.unlink()

    def look(self, copy, style, key, seed, acknowledged, fed):
        """Mounts the copy and checks all that was promised."""
        image = copy
        if style == "back":
            image = self.mounts.image(copy, "xfs", self.work / "copy-of-outer") / "inner.img"
        home = self.mounts.image(image, self.kind, self.work / "copy") / "store"
        self.stats["cuts"] += 1
        self.stats["receipts"] += len(acknowledged)

        promised = {seq: receipt for seq, receipt in acknowledged.items() if receipt["durability"] == "sync"}
        records, warned = self.records(home, key, seed, fed)
        for seq, receipt in promised.items():
            if seq not in records:
                raise Broken(f"record {seq} has a sync receipt and is gone; {len(records)} are there; {warned}")
            if records[seq] != receipt["number"]:
                raise Broken(f"record {seq} holds what was fed as number {records[seq]}, not {receipt['number']}")
        lost = [seq for seq in acknowledged if seq not in records]
        self.stats["unsynced_lost"] += len(lost)
        self.stats["read"] += len(records)

        checked = self.manent_in(home, "--json", "verify", key)
        if checked.returncode == 4:
            if promised or records:
                raise Broken("there is no session, although it has sync receipts or records")
            self.stats["absent"] += 1
            report = {"damage": [], "tail": "clean", "records": 0}
        elif checked.returncode in (0, 3):
            report = json.loads(checked.stdout)
        else:
            raise Broken(f"verify exits with {checked.returncode}: {checked.stderr.decode(errors='replace')}")
        torn = [place for place in report["damage"] if place["reason"] == "torn"]
        gaps = [place for place in report["damage"] if place["reason"] != "torn"]
        self.stats["torn"] += len(torn)
        self.stats["gaps"] += len(gaps)
        if report["records"] != len(records):
            raise Broken(f"verify counts {report['records']} records, show gives {len(records)}")
        if sorted(records) != list(range(1, len(records) + 1)) and not gaps:
            raise Broken(f"numbers are missing among {sorted(records)}, and no damage is named")
        promised_end = max((receipt["offset"] for receipt in promised.values()), default=0)
        if any(place["offset"] < promised_end for place in gaps):
            raise Broken(f"a gap among records with sync receipts: {gaps}")

        self.go_on(home, key, seed, fed, records, torn, gaps)
        return f"{len(acknowledged)} receipts, {len(records)} read, {len(torn)} torn, {len(gaps)} gaps"

    def records(self, home, key, seed, fed):
        """Reads the session: number fed by seq. Nothing in it may be anything but what was fed."""
        shown = self.manent_in(home, "--json", "show", key)
        if shown.returncode == 4:
            return {}, "no such session"
        if shown.returncode != 0:
            raise Broken(f"show exits with {shown.returncode}: {shown.stderr.decode(errors='replace')}")
        records, last = {}, 0
        for line in shown.stdout.split(b"\n")[:-1]:
            record = json.loads(line)
            seq, number = record["seq"], record.get("n", 0)
            if not 0 < number < fed:
                raise Broken(f"record {seq} says it is number {number}, which was never fed")
            if number <= last:
                raise Broken(f"record {seq} is number {number}, behind number {last}")
            expected = f'{{"seq":{seq},{members_of(seed, number)}'.encode()
            end = RECORD_END.search(line)
            if end is None or line[: end.start()] != expected:
                raise Broken(f"record {seq} (number {number}) is not what was fed")
            if seq in records:
                raise Broken(f"two records have the number {seq}")
            records[seq], last = number, number
        return records, shown.stderr.decode(errors="replace").strip()

    def go_on(self, home, key, seed, fed, records, torn, gaps):
        """The session goes on after the cut as if nothing had happened, and what was cut off it is kept."""
        done = run(
            [self.manent, "--home", home, "append", key, "--jsonl"],
            input=("{" + members_of(seed, fed + 1) + "}\n").encode(),
        )
        if done.returncode != 0:
            raise Broken(f"append after the cut exits with {done.returncode}: {done.stderr.decode(errors='replace')}")
        for place in torn:
            name = f"*.torn-{place['offset']}-*"
            copies = list((home / "sessions").glob(name))
            if not any(copy.stat().st_size == place["length"] for copy in copies):
                raise Broken(f"{place['length']} torn bytes were cut and are in no file {name}")
        if gaps:
            done = self.manent_in(home, "repair", key)
            if done.returncode != 0:
                raise Broken(f"repair exits with {done.returncode}: {done.stderr.decode(errors='replace')}")
        checked = self.manent_in(home, "--json", "verify", key)
        if checked.returncode != 0 or json.loads(checked.stdout)["tail"] != "clean":
            raise Broken(f"not sound after append: {checked.stdout.decode(errors='replace')}")
        if not gaps:
            after, _ = self.records(home, key, seed, fed + 2)
            expected = dict(records)
            expected[len(records) + 1] = fed + 1
            if after != expected:
                raise Broken("append after the cut changed what can be read")

    def keep(self, copy, style, acknowledged, seed):
        """Keeps a cut that broke a promise: time cannot be replayed, but its outcome can be looked at."""
        for point in (self.work / "copy", self.work / "copy-of-outer"):
            if point in self.mounts.points:
                self.mounts.unmount(point)
        kept = pathlib.Path(tempfile.mkdtemp(prefix=f"manent-cut-{self.kind}-"))
        must(["cp", "--sparse=always", copy, kept / "disk.img"])
        (kept / "receipts.json").write_text(json.dumps(acknowledged))
        inside = "" if style == "through" else f" (XFS; the {self.kind} is inner.img in it)"
        return (
            f"the disk after the cut is {kept}/disk.img{inside}, already recovered by the checks; receipts beside it; "
            f"look: mount --options {MOUNT_OPTIONS[self.kind]} {kept}/disk.img /mnt && "
            f"manent --home /mnt/store verify cut-{seed}"
        )


def clone(source, target):
    must(["cp", "--reflink=always", source, target])


def place_to_work(given):
    """In memory if there is room: the images' own syncs then cost nothing, and what is tested is the same."""
    if given:
        return tempfile.mkdtemp(prefix="manent-cuts-", dir=given)
    for candidate in ("/dev/shm", tempfile.gettempdir()):
        if os.path.isdir(candidate) and shutil.disk_usage(candidate).free >= FREE_BYTES_MIN:
            return tempfile.mkdtemp(prefix="manent-cuts-", dir=candidate)
    raise CannotHere(f"no {FREE_BYTES_MIN >> 30} GiB free in /dev/shm or {tempfile.gettempdir()}")


def cut_on(kind, given):
    """All cuts on one kind of file system; gives the number of broken promises."""
    work = pathlib.Path(place_to_work(given.work))
    lab = Lab(given.manent, kind, work)
    failures = 0
    began = time.monotonic()
    try:
        lab.set_up()
        for nth in range(given.count):
            seed = given.seed + nth
            # Mostly sync receipts, which promise more; mixed: flush behind sync, into the same blocks. Half of all
            # cuts on a disk that has a cache.
            mode = ["sync", "sync", "mixed", "sync", "flush"][nth % 5]
            style = "back" if nth % 2 else "through"
            try:
                said = lab.cut(mode, style, seed)
                if given.verbose:
                    print(f"  {kind} cut {nth} (seed {seed}, {mode}, {style}): {said}", flush=True)
            except Broken as broken:
                failures += 1
                print(f"FAILED {kind} cut {nth} (seed {seed}, {mode}, {style}): {broken}")
                print(f"  replay (as far as time allows): ./deep cuts {nth + 1} {kind} --seed {given.seed}", flush=True)
    finally:
        lab.mounts.unmount_all()
        shutil.rmtree(work)
    if given.count >= 15 and lab.stats["unsynced_lost"] == 0:
        failures += 1
        print(f"FAILED {kind}: no flush receipt was lost by any cut, so these cuts prove nothing")
    seconds = time.monotonic() - began
    numbers = ", ".join(f"{value} {name}" for name, value in lab.stats.items())
    print(f"{kind}: {numbers}; {failures} broken promises; {seconds:.0f} s, seeds from {given.seed}", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description="Power cuts at the level of blocks.")
    parser.add_argument("count", type=int, nargs="?", default=200, help="cuts on each file system")
    parser.add_argument("kinds", nargs="*", choices=[[], *MAKE], default=[], help="ext4, xfs, btrfs; default: all")
    parser.add_argument("--manent", default="target/release/manent", type=pathlib.Path, help="the binary")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the first cut")
    parser.add_argument("--work", help="where the images go; default: /dev/shm, else the temporary directory")
    parser.add_argument("--verbose", action="store_true", help="a line for each cut")
    given = parser.parse_args()
    given.manent = given.manent.resolve()
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(1 << 32)
    failures = skipped = 0
    for kind in given.kinds or MAKE:
        try:
            failures += cut_on(kind, given)
        except CannotHere as why:
            skipped += 1
            print(f"SKIPPED cuts on {kind}: {why}", file=sys.stderr, flush=True)
    if skipped and os.environ.get("MANENT_NO_SKIP"):
        print("cuts may not be skipped: MANENT_NO_SKIP is set", file=sys.stderr)
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
