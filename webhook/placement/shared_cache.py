"""A cache that the pods of all namespaces fill, so that the signatures of one tenant's pods do not push out those of another."""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_MAX_USERS: Final = 8
"""Maximum number of namespaces that are remembered for an entry: the last that used it."""
_AT_ONCE: Final = 16
"""One in so many entries goes at once: to find them takes 0.2 ms of 512."""


class SharedCache(Generic[K, V]):
    """At the limit those entries go whose users have most entries; of several the least recently used. An entry counts as that of
    the user with fewest, so a tenant who uses another's entry does not make it his own."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[K, tuple[V, dict[str, None]]] = {}
        """With the namespaces that used it. Of both, the least recently used is first."""

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        self._entries.clear()

    def values(self) -> Iterable[V]:
        return (value for value, _ in self._entries.values())

    def get(self, key: K, namespace: str) -> V | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._keep(key, *entry, namespace)
        return entry[0]

    def put(self, key: K, value: V, namespace: str) -> None:
        _, users = self._entries.pop(key, (None, {}))
        if len(self._entries) >= self._limit:
            self.evict()
        self._keep(key, value, users, namespace)

    def evict(self) -> list[V]:
        """Remove some entries, if there are any. Returns their values."""
        entries = Counter([user for _, users in self._entries.values() for user in users])
        fewest = {key: min([entries[user] for user in users]) for key, (_, users) in self._entries.items()}
        going = sorted(fewest, key=lambda key: -fewest[key])[: 1 + len(fewest) // _AT_ONCE]
        return [self._entries.pop(key)[0] for key in going]

    def _keep(self, key: K, value: V, users: dict[str, None], namespace: str) -> None:
        users.pop(namespace, None)
        users[namespace] = None
        if len(users) > _MAX_USERS:
            del users[next(iter(users))]
        self._entries[key] = value, users
