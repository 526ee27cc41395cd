"""What happens to pods with us and without us, on the real scheduler: one table of cases for each subject.

A case (`case.Case`) has nodes, pods, and what is to become of the pods with us. It is played twice in one cluster: in a namespace
that has opted in, and in one that has not, each with nodes of its own. Many cases are played side by side, so they take as long
as the slowest. What happens without us is observed: in no case may more pods run than with us.

To add a case: one `Case(…)` in the table of the file with its subject. Its id is a sentence. Names are the case's own: nodes,
pods and volumes of other cases are out of its sight. A text `"@a"` stands for the node (or volume) `a` wherever a value of an
object names one. `expect` has checks from `case`, on the stored and bound pods; `without` says what happens without us, where
the case is about the difference. What the whole cluster has (the largest node, the taints of GPU nodes, labels of pools) is seen
by all cases: no node has more than 8 GPUs. To add a subject: a file with `CASES`.
"""
