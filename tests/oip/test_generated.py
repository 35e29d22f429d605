"""The generated module is the `.proto`'s, and lives beside a client's own copy of the protocol."""

from pathlib import Path

from tritonclient.grpc import model_config_pb2, service_pb2

from online.inference.node.oip import open_inference_pb2 as pb
from online.inference.node.oip.generate import NAME, ROOT, generate


def test_generating_again_gives_the_same(tmp_path: Path) -> None:
    generate(tmp_path)
    for suffix in ("_pb2.py", "_pb2.pyi"):
        name = NAME.with_name(f"{NAME.stem}{suffix}")
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), f"{name}: run oip/generate.py"


def test_every_field_has_the_number_and_type_that_the_client_gives_it() -> None:
    theirs = {**service_pb2.DESCRIPTOR.message_types_by_name, **model_config_pb2.DESCRIPTOR.message_types_by_name}
    compared = 0
    waiting = [(message, theirs[name]) for name, message in pb.DESCRIPTOR.message_types_by_name.items()]
    while waiting:
        mine, other = waiting.pop()
        waiting += [(nested, other.nested_types_by_name[nested.name]) for nested in mine.nested_types]
        for field in mine.fields:
            found = other.fields_by_name[field.name]
            assert (field.number, field.type, field.is_repeated) == (
                found.number,
                found.type,
                found.is_repeated,
            ), field
            compared += 1
    assert compared > 90
    for value in pb.DataType.DESCRIPTOR.values:
        assert model_config_pb2.DataType.DESCRIPTOR.values_by_name[value.name].number == value.number
