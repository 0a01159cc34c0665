#!/usr/bin/env python3
"""A second implementation of docs/FORMAT.md, sections 2 to 6: what `verify` says of a log, in Python.

The tests run it and the engine over the same damaged files. It follows the text, not the code, and reads a whole file
at once: it is there to be compared with, not to be fast. The judgement on one line is that of classify.py.

Reads the path of a file a line, answers with a JSON object a line:
{"records":6,"unverified":0,"damage":[{"offset":0,"length":9,"reason":"nul","acknowledged":false}],"tail":"clean"}
A torn end is the last damage, with the reason "torn". A file that is refused gets {"error":"not a log"}.
"""
import json, re, sys
from collections import namedtuple
from classify import classify, crc32c

BOM, BLANKS = b"\xef\xbb\xbf", b" \t\r"
START, HEADER = b'{"seq":', b'{"seq":0,'
END = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
LINE_MAX = 64 << 20
BEGINNINGS_MAX = 65_536
OTHERS = (b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"SQLite format 3")  # UTF-16, gzip, zstd, SQLite

Line = namedtuple("Line", "start stop end")  # data[start:stop] without its newline, data[start:end] with it
Piece = namedtuple("Piece", "start end what")  # what: a word of classify.py, or "damaged too_long"

def is_readable(what): return what == "foreign" or what.startswith("record")
def is_damaged(what): return what.startswith("damaged")
def is_whole_number(value): return type(value) is int and value >= 0

# Section 3: what a line is.

def lines_of(data):
    """The lines; NULs in front of one that is too long are a line of their own."""
    start = 0
    while start < len(data):
        newline = data.find(b"\n", start)
        stop, end = (newline, newline + 1) if newline >= 0 else (len(data), len(data))
        if stop - start >= LINE_MAX and data[start] == 0:
            text = stop - len(data[start:stop].lstrip(b"\0"))
            yield Piece(start, text, "damaged too_long")
            start = text
        if start < end: yield Line(start, stop, end)
        start = end

def judge(data, line, kind):
    if isinstance(line, Piece): return line.what
    if line.stop - line.start >= LINE_MAX: return "damaged too_long"
    return classify(data[line.start:line.stop], kind)

# Section 4: records inside a damaged line.

def records_inside(data, line, what):
    """The whole records in a line that was judged so; none if it is not damaged."""
    if not is_damaged(what) or what == "damaged too_long": return []
    found, behind, tried = [], line.start, 0
    for place in END.finditer(data, line.start, line.stop):
        begin = data.find(START, behind, place.start())
        while begin >= 0 and tried < BEGINNINGS_MAX:
            inner = classify(data[begin:place.end()], "native")
            if inner.startswith("record"):
                found.append(Piece(begin, place.end(), inner))
                break
            begin, tried = data.find(START, begin + 1, place.start()), tried + 1
        behind = place.end()
    return found

def whole(data, line, what):
    """A line, or a part of one, as one piece: damaged with every byte it takes, readable without what is trimmed."""
    if isinstance(line, Piece): return line
    if not is_readable(what): return Piece(line.start, line.end, what)
    begin = line.stop - len(data[line.start:line.stop].removeprefix(BOM).lstrip(BLANKS))
    return Piece(begin, line.start + len(data[line.start:line.stop].rstrip(BLANKS)), what)

def pieces_of(data, line, kind):
    what = judge(data, line, kind)
    records = records_inside(data, line, what)
    if not records: return [whole(data, line, what)]
    pieces, at = [], line.start
    for record in records:
        between = Line(at, record.start, record.start)
        pieces += [whole(data, between, judge(data, between, kind)), record]
        at = record.end
    rest = Line(at, line.stop, line.end)
    return pieces + [whole(data, rest, judge(data, rest, kind))]

# Section 2: whose file it is.

def begins_as_a_header(data, line):
    """Whether this line, the first that is not blank, begins as an unfinished header does."""
    text, nul, rest = data[line.start:line.end][:16].removesuffix(b"\n").partition(b"\0")
    if text.startswith(HEADER): return True
    only_nuls_follow = nul and not rest.strip(b"\0")
    return HEADER.startswith(text) and bool(only_nuls_follow or text == data[line.start:line.end])

def kind_of(data, lines):
    """native, adopted or foreign; blank, unborn or refused if no line can be read."""
    first, some_record, not_blank = None, False, None
    for line in lines:
        what = judge(data, line, "foreign")
        if records_inside(data, line, what): what = "record"
        if is_readable(what): first = first or what
        if what != "blank": not_blank = not_blank or line
        some_record |= what.startswith("record")
    if first == "foreign": return "adopted" if some_record else "foreign"
    if first: return "native"
    if not not_blank: return "blank"
    if data.startswith(OTHERS, not_blank.start): return "refused"
    return "unborn" if begins_as_a_header(data, not_blank) else "foreign"

# Sections 5 and 6: numbers and damage.

def members(data, piece):
    """Those of a record. It is one by its checksum, so it need not be JSON."""
    try: return json.loads(data[piece.start:piece.end])
    except ValueError: return {}

def number_after_header(header):
    for name in ("meta", "parent", "upto"):
        header = header.get(name) if isinstance(header, dict) else None
    return header + 1 if is_whole_number(header) and header < 2**53 else 1

def acknowledged_by(record):
    """The place that a record names, if it is a gap record."""
    place = record.get("offset"), record.get("length"), str(record.get("hash"))
    return {place} if record.get("kind") == "gap" and all(map(is_whole_number, place[:2])) else set()

def verify(data):
    lines = list(lines_of(data))
    kind = kind_of(data, lines)
    if kind == "refused": return {"error": "not a log"}
    if kind in ("blank", "unborn"): return report(data, 0, 0, [], 0 if kind == "unborn" else None, ())
    expected = least = 0 if kind == "native" else 1  # least: the number after the last readable piece
    records, unverified, places, acknowledged, gap = 0, 0, [], set(), None
    for piece in (piece for line in lines for piece in pieces_of(data, line, kind)):
        if piece.what == "blank": continue
        if is_damaged(piece.what):
            gap = gap._replace(end=piece.end) if gap else piece
            expected += 1
            continue
        if gap: places.append(gap)
        if piece.what == "foreign":
            unverified, expected = unverified + 1, expected + 1
        else:
            seq, record = int(piece.what.split()[1]), members(data, piece)
            if seq < (least if gap else expected): places.append(piece._replace(what="out_of_order"))
            elif seq > expected and not gap:
                places.append(Piece(piece.start, piece.start, "missing" if expected else "no_header"))
            acknowledged |= acknowledged_by(record)
            expected = seq + 1 if seq else number_after_header(record)
        records += piece.what != "record 0"
        least, gap = expected, None
    return report(data, records, unverified, places, gap and gap.start, acknowledged)

def report(data, records, unverified, places, torn_at, acknowledged):
    damage = []
    for start, end, what in places:
        hashes = {place[2] for place in acknowledged if place[:2] == (start, end - start)}
        known = bool(hashes) and "crc32c:%08x" % crc32c(data[start:end]) in hashes
        damage.append({"offset": start, "length": end - start, "reason": what.split()[-1], "acknowledged": known})
    if torn_at is not None:
        damage.append({"offset": torn_at, "length": len(data) - torn_at, "reason": "torn", "acknowledged": False})
    tail = "clean" if torn_at is None else "torn"
    return {"records": records, "unverified": unverified, "damage": damage, "tail": tail}

if __name__ == "__main__":
    for path in sys.stdin:
        with open(path.rstrip("\n"), "rb") as file:
            print(json.dumps(verify(file.read())))
