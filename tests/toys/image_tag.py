"""No image is called by a tag that moves.

Fields read:   spec.containers[*].image and those of init containers
Allowed:       any tag that is not one of `tags`
Refused:       a tag of `tags`
DRA:           the same.
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.text import quoted


class ImageTag(Rule):
    """No container runs an image by a tag that moves."""

    everywhere: ClassVar[bool] = True

    tags: tuple[str, ...] = ("latest",)
    """Tags that move."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for container in pod.containers:
            tag = str(container.spec.get("image") or "").rpartition(":")[2]
            if tag in self.tags:
                yield Finding(f"{container.field}.image", quoted(tag), "a tag that stays", "Name a version")

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        moves = cel.any_of(f"c.image.endsWith({cel.literal(f':{tag}')})" for tag in self.tags)
        yield Check("container", moves, "a tag that stays")
