"""`make up`: a control plane, simulated GPU nodes and the webhook on this machine, for your own kubectl, until Ctrl-C."""

import argparse
import signal
import sys
import time
from types import FrameType

from tests.controlplane import clusters
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Failed
from tests.controlplane.programs import KUBERNETES, MAIN, Unavailable, find
from tests.installed import PROFILE_LABEL, Installed

TRY = """
In another shell:

    export KUBECONFIG={kubeconfig}
    alias kubectl={kubectl}

1. Create a Deployment that only asks for one GPU. See where its pods run, and why:

    kubectl -n team create deployment chat --image=vllm/vllm-openai --replicas=2 --dry-run=client -o yaml |
      kubectl set resources -f - --local --limits=nvidia.com/gpu=1 -o yaml | kubectl -n team apply -f -
    kubectl -n team get pods -o wide
    kubectl -n team get pods -o jsonpath='{{.items[0].metadata.annotations.gpu-admission\\.io/decision}}'

2. Create a Job whose pods could never start: a warning says so at once. A pod that would get all GPUs of its node is refused:

    kubectl -n team create job big --image=cuda --dry-run=client -o yaml |
      kubectl set resources -f - --local --limits=nvidia.com/gpu=64 -o yaml | kubectl -n team apply -f -
    kubectl -n team run thief --image=cuda --env=NVIDIA_VISIBLE_DEVICES=all

3. Ask why pods wait, who has the GPUs, and whether all is well; or look at all of it in a browser:

    .venv/bin/gpu-admission why -A
    .venv/bin/gpu-admission top workloads
    .venv/bin/gpu-admission doctor
    .venv/bin/gpu-admission ui

4. Change the policy: it takes effect a moment later, and a policy with a mistake is refused:

    kubectl -n gpu-admission edit configmap gpu-admission-policy

Its log: {log}
Ctrl-C ends all of it and removes everything.
"""


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
        clusters.cluster(given.cluster)
        with ControlPlane(programs) as plane, Installed(plane) as webhook:
            nodes = clusters.apply_to(plane.kubeconfig, given.cluster)
            plane.kubectl("create", "namespace", "team")
            plane.kubectl("label", "namespace", "team", f"{PROFILE_LABEL}=default")
            took = time.monotonic() - started
            print(
                f"Kubernetes {programs.version}, {len(nodes)} simulated nodes and the webhook: ready in {took:.0f} s."
            )
            paths = {"kubeconfig": plane.kubeconfig, "kubectl": programs.path("kubectl"), "log": webhook.members[0].log}
            print(TRY.format(**paths), flush=True)
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
