"""Loads data sets with Hugging Face `datasets`, as whoever trains on them does, and compares every row with its line.

usage: load.py DIR... ; prints a line for each configuration of each: DIR CONFIG SPLIT ROWS
"""

import json
import pathlib
import sys
import tempfile

import datasets
import yaml


def bare(value):
    """A value without what is not there: a column has the members of all its rows, empty where one has none."""
    if isinstance(value, dict):
        return {name: bare(one) for name, one in value.items() if one is not None}
    return [bare(one) for one in value] if isinstance(value, list) else value


def load(place, cache):
    card = (place / "README.md").read_text()
    head = yaml.safe_load(card.split("---\n")[1])
    loaded = 0
    for config in head.get("configs", []):
        name = config["config_name"]
        splits = datasets.load_dataset(str(place), name, cache_dir=cache)
        for file in config["data_files"]:
            lines = (place / file["path"]).read_text(encoding="utf-8").split("\n")[:-1]
            rows = splits[file["split"]]
            assert len(rows) == len(lines), (place, name, len(rows), len(lines))
            for row, line in zip(rows, lines):
                assert bare(row) == json.loads(line), (place, name, row, line)
            print(place.name, name, file["split"], len(rows))
            loaded += len(rows)
    manifest = json.loads((place / "manifest.json").read_text())
    assert loaded == sum(file["rows"] for file in manifest["files"]), (place, loaded)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache:
        for argument in sys.argv[1:]:
            load(pathlib.Path(argument), cache)
