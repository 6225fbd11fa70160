"""Grading on a cluster of machines, by Dask distributed: what `autograder grade --cluster` does.

`address` says where the cluster is, `coordinator` hands the work out, `worker` is what runs over there,
`messages` is what travels between the two. Only `coordinator` imports Dask, and only when it is needed.
"""
