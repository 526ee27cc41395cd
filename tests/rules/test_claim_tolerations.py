"""Claims that take devices that are marked as broken."""

from tests.builders import Case, asking, case
from tests.controlplane.objects import pod
from webhook.kube.claim_requests import ClaimRequest
from webhook.rules.claim_tolerations import ClaimTolerations

RULE = ClaimTolerations()


def claiming(*requests: ClaimRequest) -> Case:
    return case(pod(gpus=0), claimed=requests)


ALLOWED: dict[str, Case] = {"no claim": claiming(), "a claim without a toleration of everything": claiming(asking())}

REFUSED: dict[str, tuple[Case, list[str]]] = {
    "everything tolerated": (
        claiming(asking(), asking(name="b", tolerates_all=True)),
        [
            'spec.resourceClaims[0]: saw a toleration of every taint of a device in request "b" of template "train", '
            "wanted tolerations with a key. "
            "Name the taint that the pod can live with: others mark devices that are broken or being removed."
        ],
    )
}
