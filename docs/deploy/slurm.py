"""Workers on Slurm: python docs/deploy/slurm.py 64. Prints the address for --cluster; ends with Enter.

Needs `pip install dask-jobqueue`, and a home folder that all nodes see. Run it on a machine that the nodes
can reach, and grade on the same machine.
"""

import sys

from dask_jobqueue import SLURMCluster

cluster = SLURMCluster(
    cores=1, processes=1, memory="3GB", walltime="02:00:00", worker_extra_args=["--memory-limit", "0"]
)
cluster.scale(jobs=int(sys.argv[1]))
print(cluster.scheduler_address, flush=True)
input("Enter ends the workers. ")
