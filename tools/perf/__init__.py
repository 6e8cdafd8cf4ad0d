"""Times the operators beside other libraries that have them: python -m tools.perf --help."""

import os

# Idle threads of Paddle's OpenMP spin for 200 ms by default, on cores that the next library in
# turn needs. It reads this when it is loaded.
os.environ.setdefault("KMP_BLOCKTIME", "1")
