"""``python -m daskrf`` is the command line."""

from daskrf.cli import main

if __name__ == "__main__":
    main()
