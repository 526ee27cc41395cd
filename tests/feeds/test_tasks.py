"""The limit of a token bucket."""

import asyncio
import math

import pytest

from webhook.errors import ApiError
from webhook.feeds.tasks import TokenBucket, together

BURST = 5


def test_a_burst_is_allowed_at_once_and_then_one_in_so_many_seconds() -> None:
    bucket = TokenBucket(BURST, 10.0, 0.0)
    for _ in range(BURST):
        assert bucket.tokens(0.0) >= 1
        bucket.take()
    assert bucket.tokens(9.0) < 1
    assert bucket.tokens(10.0) == 1
    assert bucket.tokens(1000.0) == BURST, "it never holds more than a burst"
    assert bucket.is_full(1000.0)


def test_a_reservation_after_the_burst_waits_for_its_token() -> None:
    bucket = TokenBucket(BURST, 1.0, 0.0)
    assert [bucket.reserve(0.0) for _ in range(BURST)] == [0.0] * BURST
    now, begun = 0.0, 0
    while now < 60:
        now += max(bucket.reserve(now), 0.001)  # a caller that asks again at once
        begun += 1
    assert 58 <= begun <= 62
    assert bucket.reserve(now + BURST + 1) == 0.0, "after a pause there is a burst again"


async def test_what_runs_beside_one_that_fails_has_ended_when_its_error_is_raised() -> None:
    ended = []

    async def goes_on() -> None:
        try:
            await asyncio.sleep(math.inf)
        finally:
            ended.append("it")

    async def fails() -> None:
        raise ApiError(403, "no")

    with pytest.raises(ApiError, match="no"):
        await together(goes_on(), fails())
    assert ended == ["it"]
    assert await together(asyncio.sleep(0, 1), asyncio.sleep(0, 2)) == [1, 2]
