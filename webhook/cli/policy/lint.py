"""`gpu-admission policy lint`: checks a policy and prints its errors."""

from typing import Annotated

import typer

from webhook.cli.terminal import REFUSED, out, say
from webhook.errors import PolicyError
from webhook.policy.references import hard_spread
from webhook.text import bare, plural
from webhook.whatif.offline import policy_named


def lint(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A policy, or the ConfigMap that holds it.")],
) -> None:
    """Check a policy for unknown keys, wrong values, and settings that contradict each other. Each mistake is named with its
    line.

    Example: `gpu-admission policy lint policy.yaml`. Exit status 1 if there is a mistake. What depends on the cluster is only
    warned about.
    """
    try:
        loaded = policy_named(file)
    except PolicyError as error:
        for problem in error.problems:
            say(problem)
        raise typer.Exit(REFUSED) from None
    for profile, each in hard_spread(loaded):
        where = f"profiles.{profile}.injectors.topologySpread.constraints: DoNotSchedule over {bare(each.key)}"
        say(
            f"{file}: warning: {where} also counts values that only nodes without GPUs have: then at most "
            f"{plural(each.max_skew, 'pod')} (maxSkew) of a workload start for each other value, and the rest waits. Use "
            "ScheduleAnyway, or give the pods a nodeSelector that only nodes with GPUs meet; "
            "gpu-admission doctor names the values",
            "yellow",
        )
    out(f"{file}: good: {plural(len(loaded.file.profiles), 'profile')}, hash {loaded.hash}")
