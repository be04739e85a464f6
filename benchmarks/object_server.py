"""A local S3 server in a process of its own, whose answers come late as those of a remote one do.

    python -m benchmarks.object_server [--latency-ms 50]

It prints its URL once it can be asked, and ends with its standard input. The server is moto's, which keeps objects in
memory.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["BUCKET", "object_server"]

BUCKET = "bench"


def main(arguments: list[str]) -> None:
    """Serve until the standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.object_server")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    latency_s = parser.parse_args(arguments).latency_ms / 1000
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # which tells of each request
    moto, serving = importlib.import_module("moto.server"), importlib.import_module("werkzeug.serving")
    serves = moto.DomainDispatcherApplication(moto.create_backend_app)

    def late(environ: Any, start_response: Any) -> Any:
        time.sleep(latency_s)
        return serves(environ, start_response)

    server = serving.make_server("127.0.0.1", 0, late, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.read()


@contextmanager
def object_server(latency_ms: float = 0.0) -> Iterator[Any]:
    """Start a server, set the environment of its clients, and yield one of boto3's; the bucket is there."""
    command = [sys.executable, "-m", "benchmarks.object_server", "--latency-ms", str(latency_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        keys = {"AWS_ENDPOINT_URL": url, "AWS_DEFAULT_REGION": "us-east-1"}
        os.environ |= {**keys, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
        client = importlib.import_module("boto3").client("s3", endpoint_url=url)
        client.create_bucket(Bucket=BUCKET)
        yield client
        process.stdin.close()


if __name__ == "__main__":
    main(sys.argv[1:])
