"""`gpu-admission ui`: a page that shows the GPUs of a cluster, who has them, and why pods wait."""
