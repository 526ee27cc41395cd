"""`make up`: a control plane, simulated GPU nodes and the webhook on this machine, for your own kubectl, until Ctrl-C."""

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.controlplane import clusters
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Failed
from tests.controlplane.programs import KUBERNETES, MAIN, Programs, Unavailable, find
from tests.e2e.bare import ROUTED
from tests.installed import PROFILE_LABEL, Installed

TRY = """
In another shell, in this folder:

    export KUBECONFIG={kubeconfig}
    export PATH={kubectl}:{commands}:$PATH

The webhook is installed, and the namespace `team` has opted in. docs/first-hour.md goes on from here with its step 2:

    kubectl -n team create deployment chat --image=vllm/vllm-openai --replicas=2 --dry-run=client -o yaml |
      kubectl set resources -f - --local --limits=nvidia.com/gpu=1 -o yaml | kubectl -n team apply -f -
    gpu-admission why -n team chat
    kubectl -n team run thief --image=cuda --env=NVIDIA_VISIBLE_DEVICES=all
    gpu-admission ui

The log of a replica: {log}
Ctrl-C ends all of it and removes everything.
"""
GUARD = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: make-up}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: ["*"], resources: [deployments], operations: [CREATE]}]
  validations:
    - expression: "object.metadata.name != 'gpu-admission'"
      message: >-
        this is the cluster of `make up`: the webhook runs beside it, and a pod of its Deployment would only look as if it ran.
        Nothing is to be installed here: go on with step 2 of docs/first-hour.md
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: make-up}
spec: {policyName: make-up, validationActions: [Deny]}
"""
"""No kubelet is here: with a Deployment, the API server would call replicas that do not exist, and refuse every GPU pod."""


@contextmanager
def running(programs: Programs, cluster: str) -> Iterator[tuple[ControlPlane, Installed]]:
    """A control plane with simulated nodes and two replicas, and the namespace `team`, which has opted in."""
    with ControlPlane(programs, ROUTED) as plane:
        plane.kubectl("apply", "-f", "-", input=GUARD)
        with Installed(plane, replicas=2, reachable=True, routed=True) as webhook:
            clusters.apply_to(plane.kubeconfig, cluster)
            plane.kubectl("create", "namespace", "team")
            plane.kubectl("label", "namespace", "team", f"{PROFILE_LABEL}=default")
            yield plane, webhook


def main() -> int:
    """Exit status: 0 ended by Ctrl-C; 1 a program failed; 2 no control plane can be had, or a wrong argument."""
    parser = argparse.ArgumentParser(prog="make up", description=__doc__)
    parser.add_argument("--k8s", default=MAIN, help=f"{' or '.join(KUBERNETES)}; default %(default)s")
    parser.add_argument("--cluster", default="pools", help=f"{', '.join(clusters.NAMES)}; default %(default)s")
    given = parser.parse_args()
    started = time.monotonic()
    signal.signal(signal.SIGTERM, interrupted)
    try:
        programs = find(given.k8s)
        nodes = clusters.cluster(given.cluster)
        with running(programs, given.cluster) as (plane, webhook):
            took = time.monotonic() - started
            print(
                f"Kubernetes {programs.version}, {len(nodes)} simulated nodes and the webhook: ready in {took:.0f} s."
            )
            folders = {"kubectl": Path(programs.path("kubectl")).parent, "commands": Path(sys.executable).parent}
            print(TRY.format(kubeconfig=plane.kubeconfig, log=webhook.members[0].log, **folders), flush=True)
            while True:
                plane.check()
                time.sleep(0.5)
    except (Unavailable, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except Failed as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nending", file=sys.stderr)
    return 0


def interrupted(number: int, frame: FrameType | None) -> None:
    """SIGTERM is as Ctrl-C: what was started ends, and nothing is left."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
