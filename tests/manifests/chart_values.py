"""Values of the chart: what each changes, and which are wrong."""

from tests.manifests.chart import camel
from tests.manifests.files import MANIFESTS

COMPONENTS = [path.name for path in sorted((MANIFESTS / "components").iterdir())]
PRIORITY, OWN, NAME = "PriorityClass", "gpu-admission", "app\\.kubernetes\\.io/name"
_NODES = "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
ANOTHER = [
    ("replicas=3", "Deployment", "/spec/replicas", 3),
    (
        "components.podGroups=true,podGroups.priorityClass=mine,podGroups.globalDefault=usual",
        "MutatingAdmissionPolicy",
        "/spec/variables/0/expression",
        "'mine'",
    ),
    (
        "components.podGroups=true,podGroups.globalDefault=usual",
        "MutatingAdmissionPolicy",
        "/spec/matchConditions/1/expression",
        "in ['', 'usual']",
    ),
    ("image.digest=sha256:" + "a" * 64, "Deployment", "/spec/template/spec/containers/0/image", "@sha256:aaaa"),
    ("image.tag=1.2.3", "Deployment", "/spec/template/spec/containers/0/image", "gpu-admission:1.2.3"),
    ("image.repository=r:50/g", "Deployment", "/spec/template/spec/containers/0/image", "r:50/g:0"),
    ("image.pullPolicy=Always", "Deployment", "/spec/template/spec/containers/0/imagePullPolicy", "Always"),
    ("image.pullSecrets[0].name=r", "Deployment", "/spec/template/spec/imagePullSecrets", [{"name": "r"}]),
    ("resources.requests.cpu=2", "Deployment", "/spec/template/spec/containers/0/resources/requests/cpu", 2),
    ("nodeSelector.disk=ssd", "Deployment", "/spec/template/spec/nodeSelector/disk", "ssd"),
    ("tolerations[0].operator=Exists", "Deployment", "/spec/template/spec/tolerations", [{"operator": "Exists"}]),
    ("affinity.podAntiAffinity=null", "Deployment", "/spec/template/spec/affinity", {}),
    (
        f"{_NODES}.weight=1,{_NODES}.preference.matchExpressions[0].key=gpu,{_NODES}.preference.matchExpressions[0].operator=Exists",
        "Deployment",
        "/spec/template/spec/affinity",
        "podAntiAffinity",
    ),
    (
        "podLabels.team=ml",
        "Deployment",
        "/spec/template/metadata/labels",
        {"app.kubernetes.io/name": OWN, "team": "ml"},
    ),
    (f"podLabels.{NAME}=other", "Deployment", "/spec/template/metadata/labels", {"app.kubernetes.io/name": OWN}),
    (
        "podAnnotations.prometheus\\.io/scrape=null,ports.ops=9090",
        "Deployment",
        "/spec/template/metadata/annotations",
        {"prometheus.io/port": "9090"},
    ),
    ("podLabels=null", "Deployment", "/spec/template/metadata/labels", {"app.kubernetes.io/name": OWN}),
    ("podAnnotations=null", "Deployment", "/spec/template/metadata/annotations", {"prometheus.io/port": "8080"}),
    (
        "ports.https=10250",
        "Deployment",
        "/spec/template/spec/containers/0/ports/0",
        {"name": "https", "containerPort": 10250},
    ),
    ("ports.https=10250", "Deployment", "/spec/template/spec/containers/0/env/2/value", "10250"),
    (
        "ports.ops=9090",
        "Deployment",
        "/spec/template/spec/containers/0/ports/1",
        {"name": "ops", "containerPort": 9090},
    ),
    ("ports.ops=9090", "Deployment", "/spec/template/spec/containers/0/env/3/value", "9090"),
    (
        "env[0].name=A,env[0].value=b",
        "Deployment",
        "/spec/template/spec/containers/0/env/4",
        {"name": "A", "value": "b"},
    ),
    ("components.hostNetwork=true", "Deployment", "/spec/template/spec/hostNetwork", True),
    ("priorityClassName=own", "Deployment", "/spec/template/spec/priorityClassName", "own"),
    ("policy.text=profiles: {}", "ConfigMap", "/data/policy.yaml", "profiles: {}\n"),
    # what ends a line of YAML, and of no program that shows it
    (
        "policy.text=profiles: {} # a\u2028# kind: Secret",
        "ConfigMap",
        "/data/policy.yaml",
        "profiles: {} # a\u2028# kind: Secret\n",
    ),
    ("exemptNamespaces={kube-system,ops}", "MutatingWebhookConfiguration", "/webhooks/0/namespaceSelector", "ops"),
    ("failurePolicies.mutate=Fail", "MutatingWebhookConfiguration", "/webhooks/0/failurePolicy", "Fail"),
    ("failurePolicies.validate=Ignore", "ValidatingWebhookConfiguration", "/webhooks/0/failurePolicy", "Ignore"),
    ("policy.create=false", "ConfigMap", None, None),
    ("components.monitoring=true,replicas=1", "PrometheusRule", "/spec/groups/0/rules/3/alert", "GpuAdmissionSlow"),
    ("nodeSelector=null", "Deployment", "/spec/template/spec/nodeSelector", None),
    (
        "resources.limits=null",
        "Deployment",
        "/spec/template/spec/containers/0/resources",
        {"requests": {"cpu": "100m", "memory": "256Mi"}},
    ),
    ("priorityClassName=null", "Deployment", "/spec/template/spec/priorityClassName", None),
    ("priorityClasses.create=false", PRIORITY, None, None),
    ("replicas=1", "PodDisruptionBudget", None, None),
    (
        "components.monitoring=true,monitoring.labels.release=stack",
        "PodMonitor",
        "/metadata/labels",
        {"release": "stack"},
    ),
    (
        "components.monitoring=true,monitoring.labels.release=stack",
        "PrometheusRule",
        "/metadata/labels",
        {"release": "stack"},
    ),
    *((f"components.{camel(name)}=true", "Deployment", "/spec/replicas", 2) for name in COMPONENTS),
]
"""A value; the kind of the objects that change, and what is there then. Without a path: none is left."""

WRONG = [
    (("replica=3",), "replica"),
    (("image.digest=latest",), "digest"),
    (("image.repository=r.example:5000/g:1",), "repository"),
    (("replicas=null",), "missing property 'replicas'"),
    (("ports.https=443",), "https"),
    (("ports.https=8080",), "wanted two ports"),
    (("podLabels.a=true",), "podLabels"),
    (("env[0].name=A", "env[0].value=1"), "env"),
    (("affinity.nodeAntiAffinity.x=1",), "affinity"),
    (("policy.create=null",), "missing property 'create'"),
    (("exemptNamespaces=null",), "missing property 'exemptNamespaces'"),
    (("components=null",), "missing property 'components'"),
    (("policy.create=false", "policy.text=x"), "Remove policy.text, or set policy.create: true"),
    (("components.certManager=true", "components.ownCertificate=true"), "Set one of them to false"),
]
"""Values, and what Helm says of them."""
