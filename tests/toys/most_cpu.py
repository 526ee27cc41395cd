"""The node with the most free CPU first."""

from webhook.kube.pod_requests import PodRequests
from webhook.nodes.popular import View
from webhook.nodes.table import Columns, Floats, Rows


class MostCpu:
    meaning = "the node with the most free CPU"
    spreads = False
    keeps_whole_nodes = False

    def __call__(self, columns: Columns, rows: Rows, pod_requests: PodRequests, view: View) -> Floats:
        return columns.free["cpu"][rows] / 1000

    def score_key(self, view: View) -> object:
        return view.gpus
