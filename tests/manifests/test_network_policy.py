"""The network policy lets the API server in and nobody else."""

import copy
from ipaddress import ip_address, ip_network

import pytest

from tests.manifests.files import MANIFESTS, Json, documents, only

CONTAINER = only("Deployment")["spec"]["template"]["spec"]["containers"][0]


NETWORK = documents(MANIFESTS / "optional" / "network-policy.yaml")


def admitted(rules: list[Json], port: str, address: str, namespace: str = "") -> bool:
    """Whether a pod with this address and namespace reaches the port, as the API documents it: no `from` is everybody."""
    for rule in rules:
        if port not in {p["port"] for p in rule.get("ports", [{"port": port}])}:
            continue
        for peer in rule.get("from") or [{"ipBlock": {"cidr": "0.0.0.0/0"}}]:
            block = peer.get("ipBlock")
            if block is None:
                labels = peer["namespaceSelector"]["matchLabels"]
                if labels == {"kubernetes.io/metadata.name": namespace}:
                    return True
            elif ip_address(address) in ip_network(block["cidr"]) and not any(
                ip_address(address) in ip_network(out) for out in block.get("except", ())
            ):
                return True
    return False


@pytest.mark.parametrize("address", ["10.244.1.7", "10.0.0.4", "172.17.0.2", "192.168.3.4", "100.64.0.9", "fd00::7"])
@pytest.mark.parametrize("namespace", ["team-a", "monitoring", "kube-system", "gpu-admission"])
def test_the_network_policy_keeps_every_pod_from_the_https_port(address: str, namespace: str) -> None:
    (policy,) = NETWORK
    rules = policy["spec"]["ingress"]
    assert not admitted(rules, "https", address, namespace)
    assert admitted(rules, "ops", address, namespace) == (namespace == "monitoring")


def test_the_network_policy_lets_in_the_addresses_that_are_put_there_but_for_the_pods_among_them() -> None:
    (policy,) = copy.deepcopy(NETWORK)
    (peer,) = policy["spec"]["ingress"][0]["from"]
    assert ip_network(peer["ipBlock"]["cidr"]) == ip_network("192.0.2.0/24"), "nobody's, until somebody says whose"
    peer["ipBlock"] = {"cidr": "10.0.0.0/8", "except": ["10.244.0.0/16"]}
    rules = policy["spec"]["ingress"]
    assert admitted(rules, "https", "10.0.0.4")
    assert not admitted(rules, "https", "10.244.1.7", "team-a")


def test_the_network_policy_is_about_our_pods_and_our_ports() -> None:
    (policy,) = NETWORK
    assert policy["spec"]["podSelector"] == only("Deployment")["spec"]["selector"]
    named = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    assert named == {port["name"] for port in CONTAINER["ports"]}
