"""A claim tolerates no taint of a device that it does not name.

A taint marks a device that is broken or about to be taken away. A request that tolerates everything gets it before a healthy
one, and the pod fails on it.

Fields read:   the claims that spec.resourceClaims names, and claims and their templates when they are created:
               tolerations of their requests
Warned about:  a toleration with operator Exists and no key
DRA:           it is about nothing else
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.kube.asked import AskedPod


class ClaimTolerations(Rule):
    of_claims: ClassVar[bool] = True
    not_exported: ClassVar[str] = "needs the state of the cluster"

    action: Action = "warn"

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for request in context.claimed:
            if request.tolerates_all:
                yield Finding(
                    path=request.path,
                    seen=f"a toleration of every taint of a device in {request.words}",
                    wanted="tolerations with a key",
                    fix="Name the taint that the pod can live with: others mark devices that are broken or being removed",
                )
