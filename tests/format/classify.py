#!/usr/bin/env python3
"""The validity rule of docs/FORMAT.md again, in Python: a twin of manent_log::frame::classify.

Reads `{"kind": ..., "line": <hex>}` a line, answers with a class a line. The tests give both twins the same corpus.
"""
import json, re, sys

TABLE = [0] * 256
for n in range(256):
    c = n
    for _ in range(8):
        c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
    TABLE[n] = c

def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c = TABLE[(c ^ b) & 255] ^ (c >> 8)
    return c ^ 0xFFFFFFFF

HEAD = re.compile(rb'\{"seq":(0|[1-9][0-9]{0,15}),')
TAIL = re.compile(rb',"crc":"([0-9a-f]{8})"\}\Z')
NEAR_HEAD = re.compile(rb'\{"...":[0-9]', re.S)
NEAR_TAIL = re.compile(rb',"...":"........"\}\Z', re.S)
def not_a_number(word): raise ValueError(word)  # NaN and Infinity are Python's, not JSON's

def classify(line, kind):
    line = line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r")
    if not line: return "blank"
    head, tail = HEAD.match(line), TAIL.search(line)
    if head and tail and int(head[1]) < 2**53 and crc32c(line[:-18]) == int(tail[1], 16):
        return "record %d" % int(head[1])
    if b"\0" in line: return "damaged nul"
    if line.startswith(b'{"seq":') and tail: return "damaged checksum"
    try: text = line.decode("utf-8")
    except UnicodeDecodeError: return "damaged not_utf8"
    try: value = json.loads(text, parse_constant=not_a_number)
    except (ValueError, RecursionError): return "damaged not_json"
    if not isinstance(value, dict): return "damaged not_object"
    marked = "seq" in value or "crc" in value
    ours = tail and NEAR_HEAD.match(line) or line.startswith(b'{"seq":') and NEAR_TAIL.search(line)
    hurt = marked if kind == "native" else ours
    return "damaged half_marked" if hurt else "foreign"

if __name__ == "__main__":
    for given in sys.stdin:
        case = json.loads(given)
        print(classify(bytes.fromhex(case["line"]), case["kind"]))
