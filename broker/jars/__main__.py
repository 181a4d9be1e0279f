"""`python -m broker.jars FOLDER` fetches the jars."""

import sys

from broker.jars.jar_sets import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
