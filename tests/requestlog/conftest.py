"""One S3 for all; each test has a data root of its own in it."""

from collections.abc import Iterator, Mapping
from itertools import count

import pytest

from tests.support.s3 import BUCKET, running_s3

_numbers = count()


@pytest.fixture(scope="package")
def s3() -> Iterator[Mapping[str, str]]:
    with running_s3() as environment:
        yield environment


@pytest.fixture
def root(s3: Mapping[str, str]) -> str:
    return f"s3://{BUCKET}/data-{next(_numbers)}"
