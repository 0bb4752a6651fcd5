import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.engines.continuous.sampling import Draw, next_tokens, uniform

draws = st.builds(
    Draw,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    top_p=st.sampled_from([0.1, 0.9, 1.0]),
    uniform=st.floats(0, 1, exclude_max=True),
)


def logits_of(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, 50, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=50, deadline=None)
@given(st.lists(draws, min_size=1, max_size=6))
def test_a_row_is_sampled_alike_alone_and_in_company(chosen: list[Draw]) -> None:
    logits = logits_of(len(chosen))
    alone = [next_tokens(logits[row : row + 1], [draw])[0] for row, draw in enumerate(chosen)]
    assert next_tokens(logits, chosen) == alone


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 1, exclude_max=True), st.floats(0.05, 0.95))
def test_top_p_draws_only_from_the_nucleus(number: float, top_p: float) -> None:
    logits = logits_of(1)
    token = next_tokens(logits, [Draw(1.0, top_p, number)])[0]
    probabilities = logits[0].double().softmax(-1)
    likelier = probabilities[probabilities > probabilities[token]].sum().item()
    assert likelier < top_p


def test_zero_temperature_and_a_tiny_nucleus_take_the_likeliest() -> None:
    logits = logits_of(3)
    best = logits.argmax(-1).tolist()
    assert next_tokens(logits, [Draw(0.0, 1.0, 0.99)] * 3) == best
    for top_p in (0.0, 1e-9):
        assert next_tokens(logits, [Draw(1.0, top_p, 0.99)] * 3) == best


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    count = 2000
    rows = logits.expand(count, 3)
    tokens = next_tokens(rows, [Draw(1.0, 1.0, uniform(7, n)) for n in range(count)])
    seen = torch.bincount(torch.tensor(tokens), minlength=3) / count
    assert torch.allclose(seen, logits[0].softmax(-1), atol=0.04)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 10**6))
def test_the_random_number_is_a_function_of_seed_and_position(seed: int, position: int) -> None:
    assert 0 <= uniform(seed, position) < 1
    assert uniform(seed, position) == uniform(seed, position)
    assert uniform(seed, position) != uniform(seed, position + 1)
