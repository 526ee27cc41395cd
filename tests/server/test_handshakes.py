"""The number of handshakes that a peer may begin."""

from __future__ import annotations

from webhook.server.handshakes import BURST, PER_SECOND, TRUSTED_SECONDS, Rate

NOW = 1000.0


def test_a_peer_may_begin_a_burst_of_handshakes_and_then_some_in_a_second() -> None:
    rate = Rate()
    assert sum(rate.allows("a", NOW) for _ in range(2 * BURST)) == BURST
    assert sum(rate.allows("a", NOW + 2) for _ in range(BURST)) == 2 * PER_SECOND
    assert rate.allows("b", NOW)


def test_a_peer_whose_review_was_answered_has_no_limit_of_handshakes() -> None:
    rate = Rate()
    rate.answered("a", NOW)
    assert all(rate.allows("a", NOW) for _ in range(2 * BURST))
    later = NOW + TRUSTED_SECONDS
    assert sum(rate.allows("a", later) for _ in range(2 * BURST)) == BURST


def test_any_number_of_peers_takes_bounded_memory() -> None:
    rate = Rate()
    for number in range(10_000):
        rate.allows(str(number), NOW)
        rate.answered(str(number), NOW)
    assert len(rate._tokens) <= 4096
