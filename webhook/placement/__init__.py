"""Filter, score, choose: the ranked nodes for one pod, and why."""
