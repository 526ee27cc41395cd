"""Exemptions from the rules: which requests they cover. Labels never count."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.builders import request
from tests.controlplane.objects import pod
from webhook.kube.pod import Pod
from webhook.kube.review import Request
from webhook.policy.exemptions import Exemption

EXPORTER = Exemption(namespaces=("monitoring",), service_accounts=("dcgm-*",))
OPERATOR = Exemption(namespaces=("*",), users=("system:serviceaccount:gpu-operator:*",))
DEBUGGER = Exemption(namespaces=("team-*",), groups=("platform",))
WHOLE = Exemption(namespaces=("gpu-operator",))


def by(namespace: str, user: str = "system:serviceaccount:kube-system:daemon-set-controller", *groups: str) -> Request:
    return request(None, namespace=namespace, user=user, groups=groups)


NOT_EXEMPT = [
    pytest.param(
        EXPORTER, by("team-a"), pod(serviceAccountName="dcgm-exporter"), id="the right account in another namespace"
    ),
    pytest.param(
        EXPORTER, by("monitoring"), pod(serviceAccountName="grafana"), id="another account in the right namespace"
    ),
    pytest.param(EXPORTER, by("monitoring"), pod(), id="no account, which is the default one"),
    pytest.param(
        EXPORTER,
        by("monitoring"),
        pod(labels={"serviceAccountName": "dcgm-exporter"}),
        id="a label with the name of the account",
    ),
    pytest.param(OPERATOR, by("team-a", "system:serviceaccount:team-a:operator"), pod(), id="another user"),
    pytest.param(DEBUGGER, by("team-a", "jane", "tenants"), pod(), id="a user without the group"),
    pytest.param(WHOLE, by("gpu-operator-2"), pod(), id="a namespace with the same beginning"),
]
EXEMPT = [
    pytest.param(EXPORTER, by("monitoring"), pod(serviceAccountName="dcgm-exporter"), id="an exporter by its account"),
    pytest.param(EXPORTER, by("monitoring"), pod(serviceAccount="dcgm-exporter"), id="an account by its old field"),
    pytest.param(
        OPERATOR,
        by("team-a", "system:serviceaccount:gpu-operator:gpu-operator"),
        pod(),
        id="an operator by its user name",
    ),
    pytest.param(DEBUGGER, by("team-a", "jane", "tenants", "platform"), pod(), id="a debugger by group"),
    pytest.param(WHOLE, by("gpu-operator"), pod(), id="a whole namespace"),
]


@pytest.mark.parametrize(("exemption", "asked", "subject"), NOT_EXEMPT)
def test_who_is_not_exempt(exemption: Exemption, asked: Request, subject: Pod) -> None:
    assert not exemption.covers(asked, subject)


@pytest.mark.parametrize(("exemption", "asked", "subject"), EXEMPT)
def test_who_is_exempt(exemption: Exemption, asked: Request, subject: Pod) -> None:
    assert exemption.covers(asked, subject)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"namespaces": ()}, "at least 1 item", id="no namespace"),
        pytest.param({"namespaces": ("*",)}, "exempts everybody", id="every namespace"),
        pytest.param(
            {"namespaces": ("*",), "serviceAccounts": ("dcgm-exporter",)},
            "can be made by every tenant",
            id="an account of any namespace",
        ),
    ],
)
def test_an_exemption_that_every_tenant_could_use_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Exemption.model_validate(settings)
