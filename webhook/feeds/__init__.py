"""Input from outside: watches of the API server, the policy's ConfigMap, and GPU metrics. Also writes Events."""
