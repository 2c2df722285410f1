"""A cluster on one machine, and the parts of any cluster: what runs, with which settings, and how it ends."""
