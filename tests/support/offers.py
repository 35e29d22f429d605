"""What a finished run offers, for tests of the routes document in Redis."""

from schemas.routes import Activation, Generation


def offer(token: int = 1, model: str = "m") -> Activation:
    generation = Generation(id="20261128T0200Z-1", ordinal=1, buckets=1, codec=1, rows=1, computed_at_ms=1)
    return Activation(
        model=model,
        version="1",
        bundle_url="u",
        bundle_digest="a" * 64,
        generation=generation,
        features=None,
        token=token,
    )
