import socket

import pytest

from online.inference.devices import parse_device
from online.inference.node.process import worker_arguments
from online.inference.node.settings import BundleAddress, InferenceSettings
from online.inference.worker.options import WorkerOptions
from schemas.capacity import BatchTime
from schemas.settings import BadSettings, load_settings

DIGEST = "ab" * 32


def test_devices_are_parsed() -> None:
    assert parse_device("cpu").torch_name == "cpu"
    assert parse_device("cuda:3").torch_name == "cuda:3"
    emulated = parse_device("emulated:6,1.2")
    assert (emulated.name, emulated.torch_name, emulated.emulated) == (
        "emulated:6,1.2",
        "cpu",
        BatchTime(6.0, 1.2),
    )


@pytest.mark.parametrize("name", ["gpu", "cuda", "cuda:x", "emulated:6", "emulated:0,0", "emulated:1.2.3,1"])
def test_what_is_no_device_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no device"):
        parse_device(name)


def load(monkeypatch: pytest.MonkeyPatch, **values: str) -> InferenceSettings:
    for name, value in values.items():
        monkeypatch.setenv(f"INFERENCE_{name}", value)
    return load_settings(InferenceSettings)


def test_settings_become_a_workers_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(
        monkeypatch,
        BUNDLES=f'["s3://b/with@sign@{DIGEST}"]',
        ALLOWED_BUNDLE_URLS='["s3://b", "/srv/-odd"]',
        DEVICE="emulated:6,1.2",
        MAX_BATCH_ROWS="32",
        UNIX_SOCKETS="/run/hotset",
        INSTANCES="3",
        PRECISION="bfloat16",
        MEMORY_LIMIT_MIB="500",
    )
    (bundle,) = settings.addresses
    assert bundle == BundleAddress("s3://b/with@sign", DIGEST)
    options = WorkerOptions.from_argv(worker_arguments(settings, bundle, 2))
    assert (options.url, options.digest, options.threads) == (bundle.url, DIGEST, 2)
    assert options.allowed_urls == ("s3://b", "/srv/-odd")
    assert options.device == parse_device("emulated:6,1.2")
    assert options.max_batch_rows == 32
    assert str(options.unix_socket) == f"/run/hotset/{DIGEST[:16]}.sock"
    assert (options.instances, options.precision, options.cuda_graphs) == (3, "bfloat16", False)
    assert options.memory_limit_mib == 500
    assert options.drain_s < settings.drain_s


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("BUNDLES", '["/srv/b"]', "is not URL@DIGEST"),
        ("BUNDLES", f'["/srv/b@{DIGEST}", "/srv/c@{DIGEST}"]', "named twice"),
        ("BUNDLES", "/srv/b", 'field "bundles".*written as JSON'),
        ("DEVICE", "gpu", "is no device"),
        ("CUDA_GRAPHS", "true", "cuda_graphs needs a device cuda:N"),
        ("MAX_BATCH_ROW", "3", "did you mean INFERENCE_MAX_BATCH_ROWS"),
        ("MAX_BATCH_ROWS", "4096", "max_queued_rows must be >= max_batch_rows"),
    ],
)
def test_bad_settings_are_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        load(monkeypatch, **{name: value})


def test_the_redis_url_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, REDIS_URL="redis://:secret@127.0.0.1/0")
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ({}, "127.0.0.1"),
        ({"http_host": "10.0.0.7", "advertise_host": "replica"}, "10.0.0.7"),  # it listens nowhere else
        ({"http_host": "0.0.0.0", "advertise_host": "replica"}, "replica"),
        ({"http_host": "::", "advertise_host": None}, socket.gethostname()),
        ({"http_host": "::1"}, "[::1]"),
    ],
)
def test_http_is_announced_where_it_is_reached(given: dict[str, object], host: str) -> None:
    assert InferenceSettings.model_validate(given).advertised_http_host == host
