"""`-o jsonpath=`: what kubectl prints for a template is printed, and what is not understood is refused."""

import pytest

from webhook.cli.jsonpath import jsonpath
from webhook.errors import BadInput

DOCUMENT = {
    "kind": "TopList",
    "items": [
        {"name": "a", "pods": 2, "labels": {"app.kubernetes.io/name": "x"}, "on": {"n1": 3}, "idle": None},
        {"name": "b\n\u202e", "pods": 1, "gpus": {"nvidia.com/gpu": {"free": 2}}, "odd key": True},
    ],
}


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("{.kind}", "TopList"),
        ("{$.kind}{@.kind}", "TopListTopList"),
        ("{.items[*].pods}", "2 1"),
        ("{.items[0].name} has {.items[0].pods}", "a has 2"),
        ('{range .items[*]}{.pods}{"\\t"}{.labels.app\\.kubernetes\\.io/name}{"\\n"}{end}', "2\tx\n1\t\n"),
        ("{range .items[*]}{range .on[*]}{@}{end};{end}", "3;;"),
        ("{.items[*]['name','pods']}", "a 2 b   1"),
        ("{.items[-1:].pods}{.items[0:1].pods}{.items[-2].pods}{.items[1,0].pods}", "1221 2"),
        ("{.items[9].name}{.nothing.here}{.kind[0]}", ""),
        ("{..free}", "2"),
        ("{.items[?(@.pods>1)].name}", "a"),
        ('{.items[?(@.name=="a")].pods}{.items[?(@.pods!=2)].pods}', "21"),
        ("{.items[?(@.gpus)].pods}", "1"),
        ("{.items[?(@.name<3)].pods}", ""),
        ("{.items[1]['odd key']}", "true"),
        ("{.items[0].on}", '{"n1":3}'),
    ],
)
def test_what_kubectl_prints(template: str, printed: str) -> None:
    assert jsonpath(template, DOCUMENT) == printed


@pytest.mark.parametrize(
    "template",
    [
        *(
            ".items",
            "",
            "{",
            "{}",
            "{.items",
            "{end}",
            "{range .items}x",
            "{items}",
            "{.a b}",
            "{.items[}",
            "{foo bar}",
            "{$x}",
        ),
        *(
            "{.items[::0]}",
            "{.items[9999999999]}",
            "{.items[?(@.a && @.b)]}",
            "{.items[?(@.name==b c)]}",
            "{.items[?()]}",
        ),
    ],
)
def test_what_is_not_understood_is_refused(template: str) -> None:
    with pytest.raises(BadInput, match=r"^jsonpath: saw .*, wanted "):
        jsonpath(template, DOCUMENT)
