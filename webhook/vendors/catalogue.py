"""The facts of all vendors by kind, in the order of VENDORS. They are constants: nothing changes them."""

from typing import TypeVar

from webhook import vendors
from webhook.vendors.model import Fact, Label, Says

F = TypeVar("F", bound=Fact)


def every(kind: type[F]) -> tuple[F, ...]:
    """All facts of one kind."""
    facts = (fact for vendor in vendors.VENDORS for of_source in vendor.facts.values() for fact in of_source)
    return tuple([fact for fact in facts if isinstance(fact, kind)])


def labels(*says: Says) -> tuple[str, ...]:
    """The keys of the labels that say this of a node."""
    return tuple([label.key for label in every(Label) if label.says in says])
