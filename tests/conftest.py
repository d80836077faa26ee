import os

# Before numpy and torch load: threads gain nothing on small matrices, and starve the other workers.
# Small models take a tenth of the time; so do those of the processes that tests start.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
