"""`python -m jvm [FOLDER]` fetches the jars."""

import sys

from jvm.jar_sets import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
