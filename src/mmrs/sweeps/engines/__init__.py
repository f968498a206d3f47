"""Where the runs of a sweep are executed: on this machine, on Ray, on Slurm."""
