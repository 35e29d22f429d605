"""An S3 of moto's, over a socket, for whoever takes a URL of fsspec's."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import boto3
import fsspec
import httpx
from moto.server import ThreadedMotoServer

BUCKET = "log"


@contextmanager
def running_s3() -> Iterator[Mapping[str, str]]:
    """The environment by which a process finds it; this process has it too, for as long as the block lasts."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }
    try:
        # What moto holds outlives its server, in this process.
        httpx.post(f"{environment['AWS_ENDPOINT_URL']}/moto-api/reset").raise_for_status()
        with patch.dict(os.environ, environment):
            place = {"LocationConstraint": environment["AWS_DEFAULT_REGION"]}
            boto3.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
            yield environment
    finally:
        fsspec.filesystem("s3").clear_instance_cache()
        server.stop()
