#!/usr/bin/env python3
"""Checks that the data set holds together: every line is what the README says, and every evidence exists.

Run it after each change of the set; it prints the counts, and names what is wrong and fails if anything is.
"""

import collections
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
# For each set: its kinds of questions, and how many conversations and questions it has at least.
SETS = {
    "": (("single", "paraphrase", "temporal", "multi_turn", "update", "identifier", "other_language"), 12, 80),
    "assistant": (("users_fact", "recommendation", "update", "identifier", "cause", "decision"), 3, 45),
    "coding": (
        ("users_fact", "recommendation", "update", "identifier", "tool_output", "cause", "decision"), 3, 45,
    ),
}
ROLES = ("user", "assistant", "tool")
TIME = re.compile(r"^202[456]-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

wrong = []


def lines(path):
    """The objects of a file, each with its number; seq of a turn is the number of its line."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            yield number, json.loads(line)
        except json.JSONDecodeError as error:
            wrong.append(f"{path.name}:{number}: {error}")


def conversation(path):
    """How many turns and words a conversation has, and on how many days."""
    turns, words, days, before = 0, 0, set(), ""
    for number, turn in lines(path):
        if list(turn) != ["ts", "role", "content"]:
            wrong.append(f"{path.name}:{number}: has the fields {list(turn)}")
            continue
        if not TIME.match(turn["ts"]) or turn["ts"] <= before:
            wrong.append(f"{path.name}:{number}: {turn['ts']} is no later time than {before}")
        if turn["role"] not in ROLES or not turn["content"].strip():
            wrong.append(f"{path.name}:{number}: a bad role, or nothing said")
        before = turn["ts"]
        days.add(turn["ts"][:10])
        turns, words = turns + 1, words + len(turn["content"].split())
    if not 60 <= turns <= 140:
        wrong.append(f"{path.name}: {turns} turns")
    print(f"{path.stem:16} {turns:4} turns {words:5} words {len(days):3} days, last {before[:10]}")
    return turns


def check(name, kinds, conversations_min, questions_min):
    """Checks one set and prints its counts."""
    sessions = {path.stem: conversation(path) for path in sorted((HERE / name / "conversations").glob("*.jsonl"))}
    counts, evidence, ids, asked = collections.Counter(), 0, set(), set()
    for number, entry in lines(HERE / name / "questions.jsonl"):
        where = f"{name}/questions.jsonl:{number}"
        if list(entry) != ["id", "kind", "question", "evidence"] or entry["kind"] not in kinds:
            wrong.append(f"{where}: bad fields or kind")
            continue
        if entry["id"] in ids or entry["question"] in asked:
            wrong.append(f"{where}: {entry['id']} is there twice")
        ids.add(entry["id"])
        asked.add(entry["question"])
        turns = [(turn["session"], turn["seq"]) for turn in entry["evidence"]]
        if not 1 <= len(set(turns)) == len(turns):
            wrong.append(f"{where}: no evidence, or the same twice")
        for session, seq in turns:
            if not 1 <= seq <= sessions.get(session, 0):
                wrong.append(f"{where}: there is no turn {seq} in {session}")
        counts[entry["kind"]] += 1
        evidence += len(turns)
    print(f"{len(sessions)} conversations, {sum(sessions.values())} turns")
    print(f"{len(ids)} questions, {evidence} evidence turns: " + ", ".join(f"{counts[kind]} {kind}" for kind in kinds))
    print()
    if len(sessions) < conversations_min or len(ids) < questions_min:
        wrong.append(f"{name or 'the first set'}: there are too few conversations or questions")


for name, (kinds, conversations_min, questions_min) in SETS.items():
    check(name, kinds, conversations_min, questions_min)
print("\n".join(wrong), file=sys.stderr)
sys.exit(1 if wrong else 0)
