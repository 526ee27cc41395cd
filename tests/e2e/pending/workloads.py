"""Pods that no scheduler looks at, pods that are not made, and pods that others keep away. Where an issue is named, it shows this
problem."""

from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, deployment, job, made, pod
from tests.e2e.pending.kit import GPU, HOSTNAME, ZONE, Case, Fix, Json, Kit, asking, held, one, priority, two, waits


def of_nobody(name: str, scheduler: str, **labels: str) -> Case:
    """A pod of a scheduler that is not there."""
    text = f'no scheduler "{scheduler}" was ever seen to do anything here; there are default-scheduler'
    made = pod("waits", schedulerName=scheduler, labels=labels)
    advises = "set spec.schedulerName to default-scheduler"
    return Case(name, "unknownScheduler", text, one(), made, advises=advises)


def not_made(name: str, cause: str, text: str, made: Json, fix: Fix, *before: Json, **more: Any) -> Case:
    """A workload whose pod cannot be created."""
    kind = "replicaset/waits-" if made["kind"] == "Deployment" else f"{made['kind'].lower()}/waits"
    text = f"1 pod could not be created: {text}"
    return Case(name, cause, text, one(), made, fix=fix, before=[*before], about=kind, **more)


def template(**spec: Any) -> Fix:
    """Change the pods of the Deployment."""
    return lambda k: k.patch("Deployment", "waits", {"spec": {"template": {"spec": spec}}})


def lacking(name: str, field: str, obj: Json, written: str = "") -> Case:
    """The pods of a workload name an object that is not there. `written`: it is, and is misspelt so."""
    kind, right = obj["kind"], obj["metadata"]["name"]
    cause = f"{kind[0].lower()}{kind[1:]}Missing"
    text = f'{kind} "{written or right}" does not exist{" in NAMESPACE" if kind == "ServiceAccount" else ""}'
    if not written:
        return not_made(name, cause, text, deployment("waits", **{field: right}), lambda k: k.make(obj))
    renamed = template(**{field: right, **({"serviceAccount": right} if kind == "ServiceAccount" else {})})
    wrong, advises = deployment("waits", **{field: written}), f"name {right} in place of {written}"
    return not_made(name, cause, f"{text}; nearest: {right}", wrong, renamed, obj, advises=advises)


def quota(name: str, **hard: str) -> Json:
    return made("ResourceQuota", name, spec={"hard": {key.replace("_", "."): value for key, value in hard.items()}})


def of_gpus(gpus: str) -> Json:
    return made("ResourceQuota", "gpus", spec={"hard": {f"requests.{GPU}": gpus}})


async def more_gpus(kit: Kit) -> None:
    await kit.patch("ResourceQuota", "gpus", {"spec": of_gpus("2")["spec"]})


def suspended(**labels: str) -> Json:
    found = job("waits")
    found["metadata"]["labels"].update(labels)
    found["spec"]["suspend"] = True
    return found


async def resumed(kit: Kit) -> None:
    await kit.patch("Job", "waits", {"spec": {"suspend": False}})


async def ungated(kit: Kit) -> None:
    await kit.patch("Pod", "waits", {"spec": {"schedulingGates": []}})


def term(value: str, key: str = HOSTNAME, of: str = "app") -> Json:
    return {"labelSelector": {"matchLabels": {of: value}}, "topologyKey": key}


def affine(kind: str, app: str, key: str = HOSTNAME) -> Json:
    return {"affinity": {kind: {REQUIRED: [term(app, key)]}}}


def spread(name: str, text: str, nodes: list[Json], *before: Json, says: str = "topology spread", **more: Any) -> Case:
    """Topology spread over hosts, or by other fields of the constraint."""
    fields = {key: more.pop(key) for key in ("topologyKey", "minDomains") if key in more}
    selector = {"matchLabels": {"app": "waits"}}
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    made = waits(topologySpreadConstraints=[constraint | fields])
    return Case(name, "topologySpread", f"topology spread over {text}", nodes, made, says, before=[*before], **more)


RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
DOWN = made(
    "ValidatingWebhookConfiguration",
    "p-down",
    webhooks=[
        {
            "name": "down.example.org",
            "clientConfig": {"url": "https://127.0.0.1:1/validate"},
            "rules": RULES,
            "objectSelector": {"matchLabels": {"webhook": "down"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 2,
        }
    ],
)
NOT_TODAY = {
    "matchConstraints": {"resourceRules": RULES},
    "validations": [
        {"expression": "!has(object.metadata.labels) || !('refuse' in object.metadata.labels)", "message": "not today"}
    ],
}
REFUSING = [
    made("ValidatingAdmissionPolicy", "p-refuses", spec=NOT_TODAY),
    made(
        "ValidatingAdmissionPolicyBinding", "p-refuses", spec={"policyName": "p-refuses", "validationActions": ["Deny"]}
    ),
]
LIMITS = made("LimitRange", "small", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}}]})
STATEFUL = deployment("waits", 1, 2, kind="StatefulSet")
STATEFUL["spec"]["serviceName"] = "waits"
ON_A_PORT = {"containers": [asking({GPU: "1"}, ports=[{"containerPort": 80, "hostPort": 8080}])]}
HOST = {"hostNetwork": True, "containers": [asking({GPU: "1"}, ports=[{"containerPort": 8080}])]}
TOO_MANY = f"quota gpus: requests.{GPU}=0 used, requests.{GPU}=2 asked for, requests.{GPU}=1 at most"
UNSTATED = "quota cpus wants every container to state requests.cpu"
TWO, OURS = [node("p-a"), node("p-b", 1)], held("one", 1, labels={"app": "waits"})
WORKLOADS = [
    of_nobody("a scheduler that nobody is", "default-sheduler"),
    of_nobody("Volcano without Volcano", "volcano"),
    of_nobody("KAI without KAI", "kai-scheduler", **{"kai.scheduler/queue": "team"}),
    of_nobody("HAMi's scheduler without HAMi", "hami-scheduler"),
    lacking("a ServiceAccount that is not there", "serviceAccountName", made("ServiceAccount", "robot")),
    lacking("a PriorityClass that is not there", "priorityClassName", priority("p-new", 10, "Never")),
    lacking("a RuntimeClass that is not there", "runtimeClassName", made("RuntimeClass", "p-run", handler="runc")),
    lacking("a misspelt ServiceAccount", "serviceAccountName", made("ServiceAccount", "robot"), "robto"),
    lacking("a misspelt PriorityClass", "priorityClassName", priority("p-high", 10, "Never"), "p-hihg"),
    not_made("a quota", "quotaExceeded", TOO_MANY, deployment("waits", 1, 2), more_gpus, of_gpus("1")),
    not_made("a Job over its quota", "quotaExceeded", TOO_MANY, job("waits", 1, 2), more_gpus, of_gpus("1")),
    not_made("a StatefulSet over its quota", "quotaExceeded", TOO_MANY, STATEFUL, more_gpus, of_gpus("1")),
    not_made(
        "a quota that wants requests (cnp-flux-config#13765)", "quotaExceeded", UNSTATED, deployment("waits"),
        template(containers=[asking({GPU: "1", "cpu": "1"})]), quota("cpus", requests_cpu="4"), advises="state requests.cpu in every container",
    ),
    not_made(
        "a Job in a namespace whose quota wants requests (helm-charts#236)", "quotaExceeded", UNSTATED, job("waits"),
        lambda k: k.delete("ResourceQuota", "cpus"), quota("cpus", requests_cpu="4"),
    ),
    not_made(
        "a quota of CPU (eidf-epcc-cluster#26)", "quotaExceeded", "quota cpus: requests.cpu=0 used, requests.cpu=8 asked for, requests.cpu=4 at most",
        deployment("waits", container=asking({GPU: "1", "cpu": "8"})), template(containers=[asking({GPU: "1", "cpu": "4"})]), quota("cpus", requests_cpu="4"),
        advises="ask for 4 cpu at most",
    ),
    not_made(
        "a quota of pods", "quotaExceeded", "quota pods: pods=1 used, pods=1 asked for, pods=1 at most", deployment("waits"),
        lambda k: k.end("other"), quota("pods", pods="1"), held("other", 1),
    ),
    not_made(
        "a limit range", "limitRange", "", deployment("waits", 1, 0, container={"resources": {"limits": {"cpu": "4"}}}),
        lambda k: k.delete("LimitRange", "small"), LIMITS,
    ),
    not_made(
        "an admission policy that refuses the pods", "refused", "ValidatingAdmissionPolicy 'p-refuses' with binding 'p-refuses' denied request: not today",
        deployment("waits", labels={"refuse": "me"}), lambda k: k.delete("ValidatingAdmissionPolicyBinding", "p-refuses"), *REFUSING,
    ),
    not_made(
        "a webhook that does not answer (instaslice-operator#137)", "refused", "webhook down.example.org does not answer: ",
        deployment("waits", labels={"webhook": "down"}), lambda k: k.delete("ValidatingWebhookConfiguration", "p-down"), DOWN,
        advises="repair what serves it, or remove its configuration",
    ),
    not_made(
        "Pod Security", "refused", 'violates PodSecurity "baseline:latest": host namespaces (hostIPC=true)', deployment("waits", hostIPC=True),
        template(hostIPC=False), labels={"pod-security.kubernetes.io/enforce": "baseline"},
    ),
    Case(
        "a suspended Job", "suspended", "spec.suspend is true: its pods are made when it is resumed", one(), suspended(), fix=resumed, about="job/waits",
    ),
    Case(
        "a Job that Kueue is to start, which is not there", "queued", 'nobody starts it: Kueue is to admit it from queue "team"', one(), suspended(**{"kueue.x-k8s.io/queue-name": "team"}),
        fix=resumed, about="job/waits",
    ),
    Case(
        "a gate of Kueue", "queued", 'nobody starts it: Kueue is to admit it from queue "team"', one(),
        pod("waits", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}], labels={"kueue.x-k8s.io/queue-name": "team"}), "non-empty scheduling gates", ungated,
    ),
    Case(
        "a scheduling gate", "schedulingGate", "scheduling gate example.com/wait: no scheduler looks at it until it is gone",
        one(), waits(schedulingGates=[{"name": "example.com/wait"}]), "blocked due to non-empty scheduling gates", ungated,
    ),
    Case(
        "a host port", "hostPort", "host ports taken on node p-a: 8080 by NAMESPACE/other",
        one(), {**pod("waits"), "spec": ON_A_PORT}, "free ports", before=[{**pod("other"), "spec": ON_A_PORT}],
    ),
    Case(
        "a port of the host's network", "hostPort", "host ports taken on node p-a: 8080 by NAMESPACE/other",
        one(), {**pod("waits"), "spec": HOST}, "free ports", lambda k: k.end("other"), [{**pod("other"), "spec": HOST}],
    ),
    Case(
        "affinity to pods that are not there", "podAffinity", "required pod affinity wants pods with app=other in the same kubernetes.io/hostname: none where node p-a",
        one(), waits(**affine("podAffinity", "other")), "pod affinity rules", advises="make the affinity preferred",
    ),
    Case(
        "affinity to a pod on a node without GPUs (devpod-provider-kubernetes#63)", "podAffinity",
        "required pod affinity wants pods with app=other in the same kubernetes.io/hostname: none where node p-b, they are on node p-a",
        [node("p-a", 0), node("p-b")], waits(**affine("podAffinity", "other")), "pod affinity rules",
        before=[held("other", 0)], advises="make the affinity preferred",
    ),
    Case(
        "affinity to two pods at once, where one pod must meet all of it", "podAffinity",
        "required pod affinity wants pods with app=one in the same kubernetes.io/hostname, tier=x in the same kubernetes.io/hostname: none where node p-a",
        one(), waits(affinity={"podAffinity": {REQUIRED: [term("one"), term("x", of="tier")]}}), "pod affinity rules",
        before=[pod("one"), pod("two", labels={"tier": "x"})], advises="make the affinity preferred",
    ),
    Case(
        "its own anti-affinity", "podAntiAffinity", "its pod anti-affinity keeps it from node p-a, where pod/other are",
        one(), waits(**affine("podAntiAffinity", "other")), "anti-affinity rules", before=[pod("other")],
    ),
    Case(
        "one replica in a zone", "podAntiAffinity", "its pod anti-affinity keeps it from nodes p-a, p-b, where pod/one are", [node("p-a"), node("p-b")],
        waits(**affine("podAntiAffinity", "waits", ZONE)), "anti-affinity rules", before=[OURS], advises="make the anti-affinity preferred",
    ),
    Case(
        "the anti-affinity of others", "existingAntiAffinity", "anti-affinity of pod/other keeps pods with these labels from node p-a",
        one(), waits(), "existing pods anti-affinity", lambda k: k.end_who_keeps_away("other"), [pod("other", **affine("podAntiAffinity", "waits"))],
    ),
    Case(
        "others that want their zone alone", "existingAntiAffinity", "anti-affinity of pod/one keeps pods with these labels from nodes p-a, p-b",
        [node("p-a"), node("p-b")], waits(), "existing pods anti-affinity", lambda k: k.end_who_keeps_away("one"), [held("one", 1, **affine("podAntiAffinity", "waits", ZONE))],
    ),
    spread("topology spread", f"{HOSTNAME} with maxSkew 1 (pods now: p-a 1, p-b 0) keeps it from node p-a", TWO, OURS, held("two", 1, "p-b")),
    spread(
        "one zone is full, and the pods are spread", f"{ZONE} with maxSkew 1 (pods now: zone-a 1, zone-b 0) keeps it from node p-a", [node("p-a", zone="zone-a"), node("p-b", 1, zone="zone-b")],
        OURS, held("two", 1, "p-b"), topologyKey=ZONE, advises="set whenUnsatisfiable: ScheduleAnyway",
    ),
    spread(
        "fewer domains than minDomains", f"{ZONE} with maxSkew 1 (pods now: zone-a 1, zone-b 1) and minDomains 3, of which there are 2, keeps it from nodes p-a, p-b",
        two(), OURS, held("two", 1, "p-b", labels={"app": "waits"}), topologyKey=ZONE, minDomains=3,
    ),
    spread(
        "spread over a label that no node has (SREGym#854)", "example.com/rack", one(), topologyKey="example.com/rack", says="missing required label",
    ),
]  # fmt: skip
