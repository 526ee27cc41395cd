"""No way to devices that the catalogue knows gets through by the way it is spelled, in whatever container it stands.

What an image or a ConfigMap says is not seen: there the variable for no device stands in the container itself.
"""

from dataclasses import replace

import jsonpatch
import orjson
import pytest

from tests.builders import TWO_NODES, request
from tests.controlplane.objects import pod
from tests.spellings import OF_HANDLER, attempts
from webhook.admission.pods import mutate, validate
from webhook.policy.model import Policy
from webhook.vendors import VENDORS, catalogue
from webhook.vendors.model import Resource, Vendor

POLICY = Policy.load("{}")


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_every_spelling_is_refused_by_its_rule(vendor: Vendor) -> None:
    tried, through = list(attempts(vendor)), list[str]()
    names = [attempt.spelling for attempt in tried if attempt.rule == "runtimeClass"]
    view = replace(TWO_NODES, runtime_classes={name: name.removeprefix(OF_HANDLER) for name in names}).view
    for attempt in tried:
        found = validate(request(attempt.pod), POLICY, view, None).findings
        if attempt.rule not in {unit for unit, action, _ in found if action == "deny"}:
            through.append(f"{attempt.way}: {attempt.spelling}")
    assert through == []


UNSEEN = {
    "the image": {},
    "a ConfigMap": {"envFrom": [{"configMapRef": {"name": "a"}}]},
    "a ConfigMap with a prefix": {"envFrom": [{"prefix": "A", "configMapRef": {"name": "a"}}]},
    "a Secret": {"env": [], "envFrom": [{"prefix": "", "secretRef": {"name": "a", "optional": True}}]},
    "other variables": {"env": [{"name": "A", "value": "all"}]},
}
"""What may name devices without being seen, and how the container says it."""
HIDDEN = [of for of in catalogue.resources("whole", "slice", "share") if of.name.split("/")[0] in catalogue.hiding()]


@pytest.mark.parametrize("of", HIDDEN, ids=lambda of: of.name)
def test_a_container_without_a_gpu_says_itself_that_it_gets_none(of: Resource) -> None:
    name = of.name.replace("*", "4")
    thieves = [{"name": f"thief-{number}", "image": "i", **fields} for number, fields in enumerate(UNSEEN.values())]
    main = {"name": "main", "image": "i", "resources": {"limits": {name: "1"}}}
    sidecars = [each | {"name": f"along-{each['name']}", "restartPolicy": "Always"} for each in thieves]
    before = [each | {"name": f"before-{each['name']}"} for each in thieves]
    made = pod("thief", containers=[main, *thieves], init=[*before, *sidecars])
    patch = mutate(request(made), POLICY, TWO_NODES.view, None).patch
    spec = jsonpatch.apply_patch(made, orjson.loads(patch or b"[]"))["spec"]
    wanted = {"NVIDIA_VISIBLE_DEVICES=void", catalogue.hiding()[name.split("/")[0]]}
    for each in (*spec["containers"], *spec["initContainers"]):
        found = {f"{entry['name']}={entry.get('value', '')}" for entry in each.get("env") or ()}
        assert found & wanted == (set() if each["name"] == "main" else wanted), each["name"]
