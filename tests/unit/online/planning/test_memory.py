"""Memory of a transformer: the published figures of Llama-3-70B, limits by their names, nonsense."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from online.planning.checks import OutOfRange
from online.planning.memory import (
    BYTES_OF,
    GB,
    GIB,
    LLAMA_3_70B,
    Card,
    Limit,
    activation_bytes,
    kv_bytes_per_token,
    plan_memory,
    weight_bytes,
)

A100 = Card(80)


def test_llama_3_70b_in_fp16() -> None:
    # Published for 70 x 10^9 parameters, as the name rounds them; there are 70.6 x 10^9.
    assert weight_bytes(70e9, "fp16") == 140 * GB
    assert kv_bytes_per_token(80, 8, 128, "fp16") == 327_680
    assert 4096 * kv_bytes_per_token(80, 8, 128, "fp16") == 1.25 * GIB


def test_weights_and_kv_cache_by_type() -> None:
    weights = {dtype: weight_bytes(70e9, dtype) / GB for dtype in BYTES_OF}
    assert weights == {"fp32": 280, "fp16": 140, "bf16": 140, "int8": 70, "int4": 35}
    assert kv_bytes_per_token(80, 8, 128, "int8") == 327_680 / 2
    # An int4 copy fits one card of 80 GB with (80 - 35) GB for conversations of 1.25 GiB.
    assert plan_memory(LLAMA_3_70B, A100, dtype="int4").conversations == int(45 * GB / (1.25 * GIB))


@pytest.mark.parametrize(
    "split", [{"tensor_parallel": 4}, {"pipeline_parallel": 4}, {"tensor_parallel": 2, "pipeline_parallel": 2}]
)
def test_llama_3_70b_on_four_cards_of_80_gb(split: dict[str, int]) -> None:
    found = plan_memory(LLAMA_3_70B, A100, tokens=4096, **split)
    assert found.cards == 4
    # Published without activations and without what driver and context take.
    assert found.free_bytes / GIB == pytest.approx(167, abs=0.7)
    assert found.conversations == pytest.approx(130, rel=0.04)
    # With 1.5 GB of each card for these, it is the published number.
    assert plan_memory(LLAMA_3_70B, Card(80, 1.5), tokens=4096, **split).conversations == 129


def test_the_limit_is_called_by_its_name() -> None:
    one = plan_memory(LLAMA_3_70B, A100)
    assert (one.limit, one.conversations) == (Limit.CAPACITY, 0)
    four = plan_memory(LLAMA_3_70B, A100, tensor_parallel=4, wanted=1)
    # Of one conversation the 140 GB of weights are read for each token: 140 / (4 x 2039) s.
    assert four.limit is Limit.BANDWIDTH
    assert four.step_ms == pytest.approx(17.3, abs=0.1)
    assert plan_memory(LLAMA_3_70B, A100, tensor_parallel=4, wanted=500).limit is Limit.CAPACITY
    short = plan_memory(LLAMA_3_70B, A100, tensor_parallel=4, tokens=64, wanted=1000)
    assert short.limit is Limit.COMPUTE
    for found in (one, four, short):
        assert "memory-bound" not in found.why
        assert "memory bound" not in found.why


def test_compute_takes_over_where_both_times_are_equal() -> None:
    card = Card(640, bandwidth_gb_s=2000, tflops=100)
    at = plan_memory(LLAMA_3_70B, card, tokens=256).compute_from
    below = plan_memory(LLAMA_3_70B, card, tokens=256, wanted=int(at) - 1)
    above = plan_memory(LLAMA_3_70B, card, tokens=256, wanted=int(at) + 2)
    assert (below.step_limit, above.step_limit) == (Limit.BANDWIDTH, Limit.COMPUTE)


def test_the_fullest_card_counts() -> None:
    # Eight KV heads on three cards: one of them holds three. 80 layers on three: one holds 27.
    by_heads = plan_memory(LLAMA_3_70B, A100, tensor_parallel=3)
    assert by_heads.conversations == int((80 * GB - 140 * GB / 3) // (4096 * 2 * 80 * 3 * 128 * 2))
    by_layers = plan_memory(LLAMA_3_70B, A100, pipeline_parallel=3)
    assert by_layers.conversations == int((80 * GB - 140 * GB * 27 / 80) // (4096 * 2 * 27 * 8 * 128 * 2))


@given(st.sampled_from(["fp32", "fp16", "bf16", "int8", "int4"]), st.integers(1, 8), st.integers(64, 8192))
def test_more_cards_shorter_texts_and_fewer_bytes_never_hold_less(dtype: str, cards: int, tokens: int) -> None:
    def held(dtype: str, cards: int, tokens: int) -> int:
        return plan_memory(LLAMA_3_70B, A100, dtype=dtype, tensor_parallel=cards, tokens=tokens).conversations

    here = held(dtype, cards, tokens)
    assert held(dtype, cards + 1, tokens) >= here
    assert held(dtype, cards, tokens + 1) <= here
    assert held("int4", cards, tokens) >= here


def test_activations_take_room() -> None:
    assert activation_bytes(1, 4096, 8192, 28672, "fp16") == 4096 * (2 * 8192 + 2 * 28672) * 2
    without = plan_memory(LLAMA_3_70B, A100, tensor_parallel=4)
    having = plan_memory(LLAMA_3_70B, A100, tensor_parallel=4, prefill_rows=8)
    assert having.conversations < without.conversations
    assert having.free_bytes < without.free_bytes


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: weight_bytes(70e9, "fp8"), "dtype is 'fp8': allowed is one of fp32, fp16, bf16, int8, int4"),
        (lambda: plan_memory(LLAMA_3_70B, Card(0)), "memory_gb is 0: allowed is a finite number above 0"),
        (lambda: plan_memory(LLAMA_3_70B, Card(8, 9)), "reserve_gb is 9: allowed is below memory_gb, which is 8"),
        (lambda: plan_memory(replace(LLAMA_3_70B, layers=0), A100), "layers is 0: allowed is a whole number"),
        (
            lambda: plan_memory(LLAMA_3_70B, A100, pipeline_parallel=81),
            "pipeline_parallel is 81: allowed is from 1 to",
        ),
        (lambda: plan_memory(LLAMA_3_70B, A100, wanted=0), "wanted is 0: allowed is a whole number from 1 on"),
    ],
)
def test_nonsense_is_told_by_its_field_and_the_range(call: object, says: str) -> None:
    with pytest.raises(OutOfRange, match=says):
        call()  # type: ignore[operator]
