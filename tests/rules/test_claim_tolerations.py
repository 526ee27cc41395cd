"""Claims that take devices that are marked as broken."""

import pytest

from tests.builders import Case, asking, case
from tests.controlplane.objects import pod
from webhook.kube.claim_requests import ClaimRequest
from webhook.rules.claim_tolerations import ClaimTolerations

RULE = ClaimTolerations()


def claiming(*requests: ClaimRequest) -> Case:
    return case(pod(gpus=0), claimed=requests)


ALLOWED = [
    pytest.param(claiming(), id="no claim"),
    pytest.param(claiming(asking()), id="a claim without a toleration of everything"),
]

REFUSED = [
    pytest.param(
        claiming(asking(), asking(name="b", tolerates_all=True)),
        [
            'spec.resourceClaims[0]: saw a toleration of every taint of a device in request "b" of template "train", '
            "wanted tolerations with a key. "
            "Name the taint that the pod can live with: others mark devices that are broken or being removed."
        ],
        id="everything tolerated",
    ),
]
