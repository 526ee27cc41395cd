"""Bodies that were made to keep a webhook busy: by what they are, the hook that gets them and the bytes.

Everything in a review is written by a tenant, or by a stranger who has any pod's reach. `bench.hostile` measures what each of
these costs; the tests count the calls that each makes. Each module adds those of one kind.
"""

from bench.bodies import claims, lists, policies, updates, values, workloads  # noqa: F401  each adds its own
from bench.bodies.parts import BODIES

__all__ = ["BODIES"]
