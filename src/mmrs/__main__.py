"""`python -m mmrs`: the command line."""

import sys

from mmrs.cli import main

if __name__ == "__main__":
    sys.exit(main())
