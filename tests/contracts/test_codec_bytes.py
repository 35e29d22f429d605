"""Golden bytes of packed values and keys: what one release stored, every later one of the same codec must read."""

import numpy as np
import pytest

from schemas import codec, feature_table, keys

ENTITY = b"UA1545-EWR-IAH"
GOLDEN = bytes.fromhex("01b4f0a8d407007b6c50c4a0010000803e000060c0")
OUTPUTS = np.array([0.25, -3.5], np.float32)


def test_prediction_packs_to_the_golden_bytes() -> None:
    assert codec.pack(ENTITY, 7, 1_790_000_000_123, OUTPUTS) == GOLDEN


def test_golden_bytes_read_back() -> None:
    prediction = codec.unpack(GOLDEN, ENTITY, 7, 2)
    assert (prediction.ordinal, prediction.computed_at_ms) == (7, 1_790_000_000_123)
    np.testing.assert_array_equal(prediction.outputs, OUTPUTS)


@pytest.mark.parametrize(
    ("value", "entity", "ordinal", "outputs", "error"),
    [
        (GOLDEN, b"UA1546-EWR-IAH", 7, 2, codec.ForeignValue),
        (GOLDEN, ENTITY, 8, 2, codec.ForeignValue),
        (GOLDEN, ENTITY, 7, 3, codec.CorruptValue),
        (GOLDEN[:-1], ENTITY, 7, 2, codec.CorruptValue),
        (b"", ENTITY, 7, 2, codec.CorruptValue),
        (b"\x02" + GOLDEN[1:], ENTITY, 7, 2, codec.CorruptValue),
        (GOLDEN[:-4] + b"\x00\x00\xc0\x7f", ENTITY, 7, 2, codec.CorruptValue),  # NaN
    ],
)
def test_a_value_that_is_not_its_key_s_is_refused(
    value: bytes, entity: bytes, ordinal: int, outputs: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        codec.unpack(value, entity, ordinal, outputs)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_outputs_that_are_not_finite_are_never_packed(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        codec.pack(ENTITY, 7, 0, np.array([bad], np.float32))


def test_one_output_takes_17_bytes() -> None:
    assert len(codec.pack(ENTITY, 1, 0, np.zeros(1, np.float32))) == 17


def test_record_packs_to_the_golden_bytes() -> None:
    golden = bytes.fromhex("01954544c25b225541222c302e312c6e756c6c2c332c747275655d")
    entity, values = "é".encode(), ["UA", 0.1, None, 3.0, True]
    assert feature_table.pack_record(entity, values) == golden
    names = ("a", "b", "c", "d", "e")
    assert feature_table.unpack_record(golden, entity, names) == dict(
        zip(names, ["UA", 0.1, None, 3, True], strict=True)
    )


def test_a_float32_survives_the_feature_table() -> None:
    for number in (0.1, 16777217.0, 1e-46, -0.0, 3.4028234e38, 0.30000001192092896):
        packed = feature_table.pack_record(b"x", [number])
        found = feature_table.unpack_record(packed, b"x", ("n",))["n"]
        assert np.float32(found).tobytes() == (np.float32(number) + np.float32(0)).tobytes()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("packed", "error"),
    [
        (b"", codec.CorruptValue),
        (b"\x02" + codec.fingerprint(b"x") + b"[1]", codec.CorruptValue),
        (b"\x01" + codec.fingerprint(b"y") + b"[1]", codec.ForeignValue),
        (b"\x01" + codec.fingerprint(b"x") + b"[1,2]", codec.CorruptValue),
        (b"\x01" + codec.fingerprint(b"x") + b"nonsense", codec.CorruptValue),
    ],
)
def test_a_record_that_is_not_the_entity_s_is_refused(packed: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        feature_table.unpack_record(packed, b"x", ("n",))


def test_snapshot_places_find_the_key() -> None:
    entities = [str(n).encode() for n in range(100)]
    found = np.array(sorted(feature_table.snapshot_key(e) for e in entities), np.uint64)
    for entity in entities:
        assert [found[i] for i in feature_table.snapshot_places(found, [entity])[0]] == [
            feature_table.snapshot_key(entity)
        ]
    assert feature_table.snapshot_key(b"UA1") == 4005779206789421701


def test_keys() -> None:
    assert keys.routes_key("delay") == "hs:{delay}:routes"
    assert keys.run_key("delay") == "hs:{delay}:run"
    assert keys.history_key("delay") == "hs:{delay}:history"
    assert keys.bucket_key("delay", "7", "20261128T0200Z-1", 12) == "hs:delay:g:7:20261128T0200Z-1:12"
    assert (
        keys.generation_manifest_key("delay", "7", "20261128T0200Z-1") == "hs:delay:g:7:20261128T0200Z-1:manifest"
    )
    assert keys.feature_key("delay", "20261128T0200Z-1", 3) == "hs:delay:f:20261128T0200Z-1:3"
    assert keys.live_key("delay", "7", b"a:b\xc3\xa9") == b"hs:delay:l:7:a:b\xc3\xa9"
    assert keys.input_key("delay", "7", "ab12") == "hs:delay:i:7:ab12"
    assert keys.invalidations_key("delay") == "hs:delay:x"
    assert keys.REPLICAS_KEY == "hs:replicas"


def test_fields_are_themselves_unless_long_or_escaped() -> None:
    assert keys.field_of(b"x" * 64) == b"x" * 64
    assert keys.field_of(b"x" * 65).hex() == "00e7d347aafb04b4783db0f88621284c94"
    assert keys.field_of(b"\x00abc").startswith(keys.ESCAPE)
    assert keys.field_of(keys.field_of(b"x" * 65)) != keys.field_of(b"x" * 65)
    assert keys.bucket_of(ENTITY, 10) == 0
    assert [keys.bucket_count(rows) for rows in (0, 1, 96, 97, 604)] == [1, 1, 1, 2, 7]
