"""A cache of all namespaces: whoever fills it loses his own."""

from webhook.placement.shared_cache import SharedCache


def filled(limit: int, *puts: tuple[str, str]) -> SharedCache[str, str]:
    """Of keys and the namespaces that put them."""
    cache = SharedCache[str, str](limit)
    for key, namespace in puts:
        cache.put(key, key, namespace)
    return cache


def test_the_least_recently_used_goes() -> None:
    cache = filled(3, ("1", "a"), ("2", "a"), ("3", "a"))
    assert cache.get("1", "a") == "1"
    cache.put("4", "4", "a")
    assert [*cache.values()] == ["3", "1", "4"]
    assert cache.get("2", "a") is None


def test_who_has_most_loses_his_own() -> None:
    cache = filled(3, ("1", "b"), *[(f"{n}", "a") for n in range(2, 100)])
    assert [*cache.values()] == ["1", "98", "99"]


def test_who_uses_what_another_has_does_not_make_it_his_own() -> None:
    cache = filled(3, ("1", "b"))
    for number in range(100):
        assert cache.get("1", "a") == "1"
        cache.put(f"a{number}", "", "a")
    assert cache.get("1", "b") == "1"


def test_several_namespaces_of_one_tenant_have_their_parts() -> None:
    cache = filled(8, ("1", "b"), *[(f"{n}", f"a{n % 3}") for n in range(2, 100)])
    assert cache.get("1", "b") == "1"


def test_a_key_that_is_put_again_takes_no_place() -> None:
    cache = filled(2, ("1", "a"), ("2", "b"), ("1", "a"), ("1", "b"))
    assert ([*cache.values()], len(cache)) == (["2", "1"], 2)


def test_few_users_are_remembered_and_it_can_be_emptied() -> None:
    cache = filled(2, *[("1", f"n{number}") for number in range(1000)])
    assert len(cache._entries["1"][1]) == 8
    cache.clear()
    assert len(cache) == 0
