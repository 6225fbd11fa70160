"""Workers on Kubernetes: python docs/deploy/kubernetes.py IMAGE 64. Prints the address; ends with Enter.

Needs `pip install dask-kubernetes`, and Dask's operator in the cluster. Run it and grade in a pod of the same
cluster and image: hidden tests go to the workers directly.
"""

import sys

from dask_kubernetes.operator import KubeCluster

with KubeCluster(name="autograder", image=sys.argv[1], n_workers=int(sys.argv[2])) as cluster:
    print(cluster.scheduler_address, flush=True)
    input("Enter ends the workers. ")
